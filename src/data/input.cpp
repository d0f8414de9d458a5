#include "data/input.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <vector>

#include "core/error.hpp"
#include "core/files.hpp"

namespace truemax {
namespace {

constexpr std::size_t kPackedBytes = 256 << 10;

class FileSource : public ByteSource {
 public:
  explicit FileSource(const std::string& path) : name_(shown_path(path)) {
    if (path == kStandardInput) {
      descriptor_ = STDIN_FILENO;
      struct stat about {};
      waits_ = ::fstat(descriptor_, &about) != 0 || !S_ISREG(about.st_mode);
      return;
    }
    descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor_ < 0) refuse_to_open(errno);
    owned_ = true;
    struct stat about {};
    if (::fstat(descriptor_, &about) != 0) return;
    if (S_ISDIR(about.st_mode)) {
      ::close(descriptor_);
      throw file_error(name_, 0, "is a directory", "name a file in it");
    }
    if (S_ISREG(about.st_mode))
      size_ = about.st_size;
    else
      waits_ = true;
  }
  ~FileSource() override {
    if (owned_) ::close(descriptor_);
  }
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;

  std::size_t read(char* to, std::size_t size) override {
    while (true) {
      const auto got = ::read(descriptor_, to, size);
      if (got >= 0) {
        done_ += got;
        return static_cast<std::size_t>(got);
      }
      if (errno == EINTR) continue;
      throw file_error(name_, 0, fmt::format("cannot be read ({})", std::strerror(errno)), "check the file");
    }
  }
  bool ready() override {
    if (!waits_) return true;
    pollfd state{descriptor_, POLLIN, 0};
    return ::poll(&state, 1, 0) != 0;  // also true at the end, and if the read is going to fail
  }
  double progress() const override {
    return size_ > 0 ? std::min(1.0, static_cast<double>(done_) / static_cast<double>(size_)) : 0.0;
  }

 private:
  [[noreturn]] void refuse_to_open(int error) const {
    if (error == ENOENT || error == ENOTDIR) throw file_error(name_, 0, "no such file", "check the path");
    if (error == EACCES || error == EPERM)
      throw file_error(name_, 0, "no permission to read it", "check the permissions of the file");
    throw file_error(name_, 0, fmt::format("cannot be opened ({})", std::strerror(error)), "check the path");
  }

  std::string name_;
  int descriptor_ = -1;
  bool owned_ = false;
  bool waits_ = false;  // a pipe or a terminal
  std::int64_t size_ = 0, done_ = 0;
};

// Compressed bytes and the current position; shared by both decompressors.
class PackedBytes {
 public:
  PackedBytes(std::unique_ptr<ByteSource> from, std::string_view already_read)
      : from_(std::move(from)), buffer_(std::max(kPackedBytes, already_read.size())) {
    std::copy(already_read.begin(), already_read.end(), buffer_.begin());
    size_ = already_read.size();
  }

  // Makes sure there are unread bytes; false at the end of the file.
  bool fill() {
    if (used_ < size_) return true;
    used_ = 0;
    size_ = from_->read(buffer_.data(), buffer_.size());
    return size_ > 0;
  }
  char* data() { return buffer_.data() + used_; }
  std::size_t size() const { return size_ - used_; }
  void skip(std::size_t n) { used_ += n; }
  bool ready() { return used_ < size_ || from_->ready(); }
  double progress() const { return from_->progress(); }

 private:
  std::unique_ptr<ByteSource> from_;
  std::vector<char> buffer_;
  std::size_t used_ = 0, size_ = 0;
};

constexpr const char* kFetchAgain = "copy or download the file again";

class GzipSource : public ByteSource {
 public:
  GzipSource(std::string name, std::unique_ptr<ByteSource> from, std::string_view already_read,
             std::shared_ptr<MemoryBudget> memory)
      : name_(std::move(name)), packed_(std::move(from), already_read), charge_(std::move(memory)) {
    charge_.set(kPackedBytes + (64 << 10));  // including zlib's window and tables
    // 16 + 15: a gzip header, the largest window.
    if (inflateInit2(&stream_, 16 + 15) != Z_OK) throw std::bad_alloc();
  }
  ~GzipSource() override { inflateEnd(&stream_); }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;

  std::size_t read(char* to, std::size_t size) override {
    size = std::min<std::size_t>(size, 1U << 30);  // zlib counts in 32 bits
    while (true) {
      if (!packed_.fill()) {
        if (!inside_) return 0;
        throw file_error(name_, 0, "ends in the middle of its gzip data (truncated or damaged)", kFetchAgain);
      }
      if (!inside_ && !begin_member()) continue;
      stream_.next_in = reinterpret_cast<Bytef*>(packed_.data());
      stream_.avail_in = static_cast<uInt>(packed_.size());
      stream_.next_out = reinterpret_cast<Bytef*>(to);
      stream_.avail_out = static_cast<uInt>(size);
      const int status = inflate(&stream_, Z_NO_FLUSH);
      packed_.skip(packed_.size() - stream_.avail_in);
      if (status == Z_STREAM_END)
        inside_ = false;
      else if (status != Z_OK && status != Z_BUF_ERROR)
        throw file_error(name_, 0,
                         fmt::format("corrupt gzip data ({})", stream_.msg ? stream_.msg : "unknown error"),
                         kFetchAgain);
      const std::size_t made = size - stream_.avail_out;
      if (made > 0) return made;
    }
  }
  bool ready() override { return packed_.ready(); }
  double progress() const override { return packed_.progress(); }

 private:
  // Between members: the next one begins, or the file is padded with zero bytes (as tape archives are).
  bool begin_member() {
    if (*packed_.data() == '\0' && !first_member_) {
      packed_.skip(1);
      return false;
    }
    if (!first_member_) inflateReset(&stream_);
    first_member_ = false;
    inside_ = true;
    return true;
  }

  std::string name_;
  PackedBytes packed_;
  MemoryCharge charge_;
  z_stream stream_{};
  bool inside_ = false, first_member_ = true;
};

class ZstdSource : public ByteSource {
 public:
  ZstdSource(std::string name, std::unique_ptr<ByteSource> from, std::string_view already_read,
             std::shared_ptr<MemoryBudget> memory)
      : name_(std::move(name)),
        packed_(std::move(from), already_read),
        memory_(std::move(memory)),
        charge_(memory_),
        stream_(ZSTD_createDStream()) {
    if (stream_ == nullptr) throw std::bad_alloc();
  }
  ~ZstdSource() override { ZSTD_freeDStream(stream_); }
  ZstdSource(const ZstdSource&) = delete;
  ZstdSource& operator=(const ZstdSource&) = delete;

  std::size_t read(char* to, std::size_t size) override {
    while (true) {
      const bool more = packed_.fill();
      if (!more && !inside_) return 0;
      if (!inside_) allow_window();
      ZSTD_inBuffer in{packed_.data(), more ? packed_.size() : 0, 0};
      ZSTD_outBuffer out{to, size, 0};
      const std::size_t status = ZSTD_decompressStream(stream_, &out, &in);
      if (ZSTD_getErrorCode(status) == ZSTD_error_memory_allocation) throw std::bad_alloc();
      if (ZSTD_getErrorCode(status) == ZSTD_error_frameParameter_windowTooLarge &&
          window_log_ < kLongestWindow)
        throw file_error(
            name_, 0,
            fmt::format("decompressing it needs a window of more than {}, but {} of memory is left",
                        size_text(std::uint64_t{1} << window_log_), size_text(memory_->left())),
            "compress it without --long or --ultra, or raise --memory-limit");
      if (ZSTD_isError(status) != 0)
        throw file_error(name_, 0, fmt::format("corrupt zstd data ({})", ZSTD_getErrorName(status)),
                         kFetchAgain);
      packed_.skip(in.pos);
      if (!inside_) charge_.set(kPackedBytes + ZSTD_sizeof_DStream(stream_));
      inside_ = status != 0;  // 0: a frame is complete and fully delivered
      if (out.pos > 0) return out.pos;
      if (!more && inside_)
        throw file_error(name_, 0, "ends in the middle of its zstd data (truncated or damaged)", kFetchAgain);
    }
  }
  bool ready() override { return packed_.ready(); }
  double progress() const override { return packed_.progress(); }

 private:
  static constexpr int kLongestWindow = 31;  // the largest window of zstd --long

  // Before a frame: refuses a window larger than the memory left.
  void allow_window() {
    constexpr int kShortestWindow = 10;
    window_log_ = kLongestWindow;
    if (memory_)
      window_log_ = std::clamp(static_cast<int>(std::bit_width(memory_->left() + charge_.bytes())) - 1,
                               kShortestWindow, kLongestWindow);
    ZSTD_DCtx_setParameter(stream_, ZSTD_d_windowLogMax, window_log_);
  }

  std::string name_;
  PackedBytes packed_;
  std::shared_ptr<MemoryBudget> memory_;
  MemoryCharge charge_;
  ZSTD_DStream* stream_;
  int window_log_ = kLongestWindow;
  bool inside_ = false;
};

bool is_gzip(std::string_view head) {
  return head.size() >= 2 && head[0] == '\x1f' && head[1] == '\x8b';
}

bool is_zstd(std::string_view head) {
  if (head.size() < 4) return false;
  const bool frame = head.substr(0, 4) == "\x28\xb5\x2f\xfd";
  const bool skippable = (head[0] & '\xf0') == '\x50' && head.substr(1, 3) == "\x2a\x4d\x18";
  return frame || skippable;
}

// Whether a compressed file can begin with these bytes.
bool may_be_packed(std::string_view head) {
  if (head.empty() || (head.size() == 1 && head[0] == '\x1f')) return true;
  const auto begins = [&](std::string_view magic) {
    return magic.substr(0, head.size() - 1) == head.substr(1);
  };
  return (head[0] == '\x28' && begins("\xb5\x2f\xfd")) ||
         ((head[0] & '\xf0') == '\x50' && begins("\x2a\x4d\x18"));
}

}  // namespace

Input::Input(const std::string& path, std::shared_ptr<MemoryBudget> memory) : name_(shown_path(path)) {
  auto file = std::make_unique<FileSource>(path);
  char head[4];
  std::size_t size = 0;
  // Stops at the first byte that rules out compression: a user who types a short line must not be asked for
  // more.
  while (size < sizeof head && may_be_packed({head, size})) {
    const std::size_t got = file->read(head + size, sizeof head - size);
    if (got == 0) break;
    size += got;
  }
  const std::string_view magic(head, size);
  if (is_gzip(magic)) {
    source_ = std::make_unique<GzipSource>(name_, std::move(file), magic, std::move(memory));
  } else if (is_zstd(magic)) {
    source_ = std::make_unique<ZstdSource>(name_, std::move(file), magic, std::move(memory));
  } else {
    source_ = std::move(file);
    front_ = magic;
  }
  char first = 0;
  if (read(&first, 1) == 0) throw file_error(name_, 0, "is empty", "name a file with data");
  unread({&first, 1});
}

Input::~Input() = default;
Input::Input(Input&&) noexcept = default;
Input& Input::operator=(Input&&) noexcept = default;

std::size_t Input::read(char* to, std::size_t size) {
  std::size_t done = std::min(size, front_.size() - front_used_);
  std::copy_n(front_.data() + front_used_, done, to);
  front_used_ += done;
  while (done < size) {
    const std::size_t got = source_->read(to + done, size - done);
    if (got == 0) break;
    done += got;
  }
  return done;
}

std::size_t Input::read_some(char* to, std::size_t size) {
  if (front_used_ == front_.size()) return source_->read(to, size);
  return read(to, std::min(size, front_.size() - front_used_));
}

void Input::unread(std::string_view bytes) {
  front_ = std::string(bytes) + front_.substr(front_used_);
  front_used_ = 0;
}

std::string shown_path(const std::string& path) {
  return path == kStandardInput ? "standard input" : path;
}

bool file_exists(const std::string& path) {
  struct stat about {};
  return ::stat(path.c_str(), &about) == 0;
}

bool has_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(), is_control);
}

}  // namespace truemax
