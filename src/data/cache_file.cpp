#include "data/cache_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "core/checksum.hpp"
#include "core/error.hpp"
#include "core/text.hpp"
#include "core/utf8.hpp"
#include "data/reading_memory.hpp"

namespace truemax {
namespace {

constexpr char kMakeAgain[] = "make it again from the original: truemax convert DATA CACHE";

// Reads until `size` bytes are there or the file ends.
std::size_t read_fully(int descriptor, char* to, std::size_t size, std::uint64_t offset) {
  std::size_t got = 0;
  while (got < size) {
    const ssize_t more = pread(descriptor, to + got, size - got, static_cast<off_t>(offset + got));
    if (more < 0 && errno == EINTR) continue;
    if (more < 0) throw std::system_error(errno, std::generic_category());
    if (more == 0) break;
    got += static_cast<std::size_t>(more);
  }
  return got;
}

// The first bytes of a regular file; none if they cannot be read: whoever reads the file says why.
std::string head_of(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return {};
  std::string head(kCacheHeaderBytes, '\0');
  try {
    head.resize(read_fully(descriptor, head.data(), head.size(), 0));
  } catch (const std::system_error&) {
    head.clear();
  }
  close(descriptor);
  return head;
}

}  // namespace

bool is_cache(const std::string& path) {
  return head_of(path).starts_with(kCacheMagic);
}

Format format_in_cache(Format asked, const std::string& path) {
  const std::string head = head_of(path);
  if (!head.starts_with(kCacheMagic) || head.size() < kCacheHeaderBytes) return asked;
  const Format there = decode_header(head, printable(path)).format;
  if (asked != Format::automatic && asked != Format::cache && asked != there)
    throw other_format_in_cache(printable(path), there, asked);
  return there;
}

UserError other_format_in_cache(const std::string& name, Format there, Format asked) {
  return file_error(
      name, 0, fmt::format("is a cache of {} data, not of {} data", format_name(there), format_name(asked)),
      fmt::format("leave --format {} out", format_name(asked)));
}

CacheFile::CacheFile(const std::string& path, const std::shared_ptr<MemoryBudget>& memory)
    : name_(printable(path)) {
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0)
    throw file_error(name_, 0, fmt::format("cannot be opened: {}", std::strerror(errno)), "check the name");
  try {
    open(memory);
  } catch (...) {
    close(descriptor_);
    throw;
  }
}

CacheFile::CacheFile(std::string name, std::span<const char> bytes) : name_(std::move(name)), bytes_(bytes) {
  open(nullptr);
}

CacheFile::~CacheFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

UserError CacheFile::damaged(const std::string& what) const {
  return file_error(name_, 0, what, kMakeAgain);
}

std::vector<char> CacheFile::bytes_at(std::uint64_t offset, std::uint64_t size) const {
  std::vector<char> out(size);
  std::size_t got = 0;
  if (descriptor_ >= 0) {
    try {
      got = read_fully(descriptor_, out.data(), size, offset);
    } catch (const std::system_error& error) {
      throw file_error(
          name_, 0, fmt::format("reading it failed: {}", error.code().message()),
          "check the disk, copy the file elsewhere, or make it again: truemax convert DATA CACHE");
    }
  } else if (offset < bytes_.size()) {
    got = std::min<std::size_t>(size, bytes_.size() - offset);
    std::copy_n(bytes_.data() + offset, got, out.data());
  }
  if (got < size)
    throw damaged(
        fmt::format("the file is cut off: bytes {} to {} are not there", offset + got, offset + size - 1));
  return out;
}

void CacheFile::open(const std::shared_ptr<MemoryBudget>& memory) {
  std::uint64_t size = bytes_.size();
  if (descriptor_ >= 0) {
    struct stat status {};
    if (fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode))
      throw file_error(name_, 0, "is not a regular file", "give the file that truemax convert wrote");
    size = static_cast<std::uint64_t>(status.st_size);
  }
  info_ = decode_header(bytes_at(0, kCacheHeaderBytes), name_);
  if (size != info_.file_bytes)
    throw damaged(fmt::format("has {} bytes, its header says {}: the file is {}", size, info_.file_bytes,
                              size < info_.file_bytes ? "cut off" : "too long"));
  const std::uint64_t bytes = info_.file_bytes - info_.tables;
  try {
    memory_ = MemoryCharge(memory);
    memory_.set(2 * bytes + (info_.name_count + info_.word_count) * sizeof(std::string));
  } catch (const OverBudget& over) {
    throw memory_error(over, name_, 0, "its header", kMoreMemory);
  }
  const std::vector<char> tables = bytes_at(info_.tables, bytes);
  if (xxh64(tables) != info_.tables_checksum)
    throw damaged("the names of labels and words, or the list of blocks, are damaged");
  read_blocks(tables.data());
  const char *at = tables.data() + info_.block_count * kBlockEntryBytes, *const end =
                                                                             tables.data() + tables.size();
  at = read_names(at, end, info_.name_count, names_);
  at = read_names(at, end, info_.word_count, words_);
  if (at != end) throw damaged("has bytes after its tables");
}

void CacheFile::read_blocks(const char* entries) {
  std::uint64_t at = kCacheHeaderBytes, rows = 0, nonzeros = 0, labels = 0;
  blocks_.reserve(info_.block_count);
  for (std::uint64_t b = 0; b < info_.block_count; ++b, entries += kBlockEntryBytes) {
    const CacheBlock block{get_u64(entries),      get_u64(entries + 8),  get_u64(entries + 16),
                           get_u64(entries + 24), get_u64(entries + 32), get_u64(entries + 40)};
    const bool fits = block.offset == at && block.bytes <= info_.tables - at && block.rows > 0 &&
                      block.rows <= block.bytes / 2 && block.nonzeros <= block.bytes &&
                      block.labels <= block.bytes;
    if (!fits) throw damaged(fmt::format("the list of blocks is wrong at block {}", b + 1));
    at += block.bytes, rows += block.rows, nonzeros += block.nonzeros, labels += block.labels;
    blocks_.push_back(block);
  }
  if (at != info_.tables || rows != info_.rows || nonzeros != info_.nonzeros || labels != info_.labels)
    throw damaged("the blocks do not add up to what the header says");
}

const char* CacheFile::read_names(const char* at, const char* end, std::uint64_t count,
                                  std::vector<std::string>& names) const {
  names.reserve(count);
  NameViews distinct;
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto left = static_cast<std::uint64_t>(end - at);
    const std::uint64_t length = left < 4 ? left : get_u32(at);
    if (left < 4 || length > left - 4) throw damaged("the table of names is cut off");
    const std::string_view name(at + 4, length);
    if (!is_utf8(name) || distinct.add(name) != i)
      throw damaged(fmt::format("the name {} is not UTF-8, or recurs", in_quotes(name)));
    names.emplace_back(name);
    at += 4 + length;
  }
  return at;
}

void CacheFile::read_block(std::size_t b, RawRows& rows) const {
  const CacheBlock& block = blocks_[b];
  const std::vector<char> bytes = bytes_at(block.offset, block.bytes);
  if (rows.size() == 0) {
    rows.rows.begin.reserve(block.rows + 1);
    rows.rows.index.reserve(block.nonzeros);
    rows.rows.value.reserve(block.nonzeros);
  }
  if (xxh64(bytes) != block.checksum || !decode_block(bytes, info_, block, rows))
    throw damaged(fmt::format("block {} of {} is damaged (bytes {} to {})", b + 1, blocks_.size(),
                              block.offset, block.offset + block.bytes - 1));
}

std::uint64_t CacheFile::largest_block() const {
  std::uint64_t most = 0;
  for (const CacheBlock& block : blocks_)
    most = std::max(most, block.bytes + block.nonzeros * (sizeof(FeatureId) + sizeof(float)) +
                              block.rows * 4 * sizeof(std::uint64_t) + block.labels * sizeof(std::uint32_t));
  return most;
}

}  // namespace truemax
