#include "train/checkpoint_stream.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "core/checksum.hpp"
#include "core/error.hpp"
#include "core/files.hpp"
#include "ranks/ranks.hpp"

namespace truemax::checkpoint {
namespace {

constexpr std::size_t kPiece = RunningSum::kPiece;
constexpr std::size_t kStart = sizeof kMagic + sizeof kFormat, kEnd = 2 * sizeof(std::uint64_t);

template <class T>
std::span<char> bytes_of(T& value) {
  return {reinterpret_cast<char*>(&value), sizeof value};
}

// The sum of the first `size` bytes of a file. read_at: (place, where to).
template <class ReadAt>
std::uint64_t sum_of(std::uint64_t size, const ReadAt& read_at) {
  RunningSum sum;
  std::vector<char> piece(std::min<std::uint64_t>(kPiece, size));
  for (std::uint64_t at = 0; at < size; at += kPiece) {
    const auto part = std::span(piece).first(std::min<std::uint64_t>(kPiece, size - at));
    read_at(at, part);
    sum.add(part);
  }
  return sum.value();
}

// Whole pieces go to the file, the sum and the disk. Only the first rank opens one; the others drop all. So
// does the first after an error, which finish() throws: the other ranks go on sending.
class Sink final : public StateSink {
 public:
  void open(const std::string& path) {
    file_.emplace(path);
    piece_.reserve(kPiece);
    write(kMagic);
    put(kFormat);
  }
  void write(std::span<const char> bytes) override {
    if (file_ && !error_) try {
        add(bytes);
      } catch (const UserError& error) {
        error_ = error;
      }
  }
  void finish(const std::string& path) {
    put(std::uint64_t{at_ + piece_.size()});
    if (error_) throw UserError(*error_);
    flush();
    std::uint64_t sum = sum_.value(), last = 0;
    file_->write_at(at_, bytes_of(sum));
    file_->sync();
    const auto read_back = [&](std::uint64_t at, std::span<char> to) { file_->read_back(at, to); };
    const std::uint64_t there = sum_of(at_, read_back);
    read_back(at_, bytes_of(last));
    if (there != sum || last != sum)
      throw UserError(fmt::format(
          "{}: what was read back is not what was written; the old file, if any, is untouched: this disk "
          "cannot be trusted, choose another one",
          path));
    file_->commit();
  }

 private:
  void add(std::span<const char> bytes) {
    while (!bytes.empty()) {
      const std::size_t take = std::min(bytes.size(), kPiece - piece_.size());
      piece_.insert(piece_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(take));
      bytes = bytes.subspan(take);
      if (piece_.size() == kPiece) flush();
    }
  }
  void flush() {
    if (piece_.empty()) return;
    file_->write_at(at_, piece_);
    sum_.add(piece_);
    at_ += piece_.size();
    piece_.clear();
  }

  std::optional<AtomicFile> file_;
  std::optional<UserError> error_;
  std::vector<char> piece_;
  std::uint64_t at_ = 0;
  RunningSum sum_;
};

// Reads in order, through a buffer. The first rank reads the file; all see the same bytes, and the same
// errors.
class Source final : public StateSource {
 public:
  explicit Source(std::string path) : path_(std::move(path)) {}
  ~Source() override {
    if (file_ >= 0) close(file_);
  }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  void start() {
    all_.only_first([&] {
      file_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
      if (file_ < 0) fail("opening");
      left_ = verified_bytes();
    });
    left_ = all_.broadcast_value(left_);
  }
  void read(std::span<char> bytes) override {
    if (bytes.size() > left()) throw damaged_state();
    while (!bytes.empty()) {
      if (used_ == piece_.size()) fetch();
      const std::size_t take = std::min(bytes.size(), piece_.size() - used_);
      std::memcpy(bytes.data(), piece_.data() + used_, take);
      used_ += take;
      bytes = bytes.subspan(take);
    }
  }
  std::uint64_t left() const override { return left_ + (piece_.size() - used_); }

 private:
  void fetch() {
    piece_.resize(std::min<std::uint64_t>(kPiece, left_));
    all_.only_first([&] { read_at(at_, piece_); });
    all_.broadcast(std::as_writable_bytes(std::span(piece_)), 0);
    at_ += piece_.size(), left_ -= piece_.size();
    used_ = 0;
  }

  void read_at(std::uint64_t at, std::span<char> to) const {
    while (!to.empty()) {
      const ssize_t got = pread(file_, to.data(), to.size(), static_cast<off_t>(at));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail("reading");
      if (got == 0) throw damaged();
      at += static_cast<std::uint64_t>(got);
      to = to.subspan(static_cast<std::size_t>(got));
    }
  }

  // How many bytes there are between start and end.
  std::uint64_t verified_bytes() const {
    struct stat status {};
    if (fstat(file_, &status) != 0) fail("reading");
    const auto refuse = [&](const std::string& found) {
      throw file_error(path_, 0, found, "give --checkpoint a file that truemax train wrote, or a new name");
    };
    if (!S_ISREG(status.st_mode)) refuse("this is not a regular file");
    const auto size = static_cast<std::uint64_t>(status.st_size);
    std::array<char, sizeof kMagic> magic{};
    if (size >= sizeof magic) read_at(0, magic);
    if (magic != kMagic) refuse("this is not a checkpoint");
    if (size < kStart + kEnd) throw damaged();
    std::uint64_t version = 0;
    read_at(sizeof magic, bytes_of(version));
    const std::uint64_t sum =
        sum_of(size - sizeof sum, [&](std::uint64_t at, std::span<char> to) { read_at(at, to); });
    std::array<std::uint64_t, 2> end{};
    read_at(size - kEnd, bytes_of(end));
    if (end[0] != size - kEnd || end[1] != sum) throw damaged();
    if (version != kFormat)
      throw file_error(path_, 0, fmt::format("this checkpoint has format {}, not {}", version, kFormat),
                       "finish the run with the version of truemax that wrote it, or train again");
    return size - kEnd - kStart;
  }

  [[noreturn]] void fail(const char* doing) const {
    throw UserError(fmt::format("{}: {} this checkpoint failed: {}; mend that, or train without --resume",
                                path_, doing, std::strerror(errno)));
  }
  UserError damaged() const {
    return file_error(path_, 0, "this checkpoint is truncated or damaged: its checksum does not fit",
                      "restore it from a copy, or remove it and train again");
  }

  Ranks& all_ = ranks();
  std::string path_;
  int file_ = -1;                         // of the first rank
  std::uint64_t at_ = kStart, left_ = 0;  // of what was not fetched yet
  std::vector<char> piece_;
  std::size_t used_ = 0;
};

}  // namespace

void write_file(const std::string& path, const std::function<void(StateSink&)>& save) {
  Sink sink;
  ranks().only_first([&] { sink.open(path); });
  save(sink);
  ranks().only_first([&] { sink.finish(path); });
}

std::unique_ptr<StateSource> open_file(const std::string& path) {
  auto source = std::make_unique<Source>(path);
  source->start();
  return source;
}

}  // namespace truemax::checkpoint
