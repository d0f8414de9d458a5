// Reading a checkpoint.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <utility>

#include "core/checksum.hpp"
#include "core/damaged_state.hpp"
#include "core/json_depth.hpp"
#include "ranks/together.hpp"
#include "train/checkpoint.hpp"
#include "train/checkpoint_format.hpp"

namespace truemax {
namespace {

UserError damaged_checkpoint(const std::string& path) {
  return file_error(path, 0, "this checkpoint is truncated or damaged: its checksum does not fit",
                    "restore it from a copy, or remove it and train again");
}

class Reader {
 public:
  explicit Reader(StateSource& from) : from_(from) {}
  template <class T>
  void operator()(T& value) {
    from_.get(value);
  }
  void operator()(std::string& text) {
    text.resize(from_.length_of<char>());
    from_.read(text);
  }
  void operator()(nlohmann::ordered_json& json) {
    std::string text;
    (*this)(text);
    if (nested_too_deeply(text)) throw UserError("the options are nested too deeply");
    json = nlohmann::ordered_json::parse(text, nullptr, false);
    if (!json.is_object()) throw UserError("the options are not a JSON object");
  }
  void operator()(std::vector<SearchTrial>& trials) {
    constexpr std::size_t kFields = 88;  // bytes of a trial, at least
    static_assert(sizeof(SearchTrial) >= kFields);
    const std::size_t count = from_.length_of<std::array<char, kFields>>();
    trials.clear();
    for (std::size_t i = 0; i < count; ++i) checkpoint::each_field_of_trial(trials.emplace_back(), *this);
  }
  void operator()(SearchResult& s) {
    for (bool* flag : {&s.finished, &s.step, &s.ridge, &s.epochs, &s.layers, &s.tied, &s.dropout})
      (*this)(*flag);
    from_.get(s.trials);
    from_.get(s.log_loss);
    bool compared = false;
    (*this)(compared);
    SearchResult::Compared c{};
    from_.get(c.linear);
    from_.get(c.learnt);
    from_.get(c.hidden);
    if (compared) s.compared = c;
  }

 private:
  StateSource& from_;
};

}  // namespace

// Reads the file in order, through a buffer.
class CheckpointFile::Source final : public StateSource {
 public:
  explicit Source(const std::string& path) : path_(path) {
    file_.number = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file_.number < 0) fail("opening");
    verify();
  }

  void read(std::span<char> bytes) override {
    if (bytes.size() > left()) throw damaged_checkpoint(path_);
    while (!bytes.empty()) {
      if (used_ == filled_) {
        filled_ = std::min<std::uint64_t>(buffer_.size(), end_ - at_);
        used_ = 0;
        read_at(at_, std::span(buffer_).first(filled_));
        at_ += filled_;
      }
      const std::size_t take = std::min(bytes.size(), filled_ - used_);
      std::memcpy(bytes.data(), buffer_.data() + used_, take);
      used_ += take;
      bytes = bytes.subspan(take);
    }
  }
  std::uint64_t left() const override { return end_ - at_ + (filled_ - used_); }

 private:
  [[noreturn]] void fail(const char* doing) const {
    throw UserError(fmt::format("{}: {} this checkpoint failed: {}; mend that, or train without --resume",
                                path_, doing, std::strerror(errno)));
  }

  void read_at(std::uint64_t at, std::span<char> to) const {
    while (!to.empty()) {
      const ssize_t got = pread(file_.number, to.data(), to.size(), static_cast<off_t>(at));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail("reading");
      if (got == 0) throw damaged_checkpoint(path_);
      at += static_cast<std::uint64_t>(got);
      to = to.subspan(static_cast<std::size_t>(got));
    }
  }

  void verify() {
    struct stat status {};
    if (fstat(file_.number, &status) != 0) fail("reading");
    const auto refuse = [&](const std::string& found) {
      throw file_error(path_, 0, found, "give --checkpoint a file that truemax train wrote, or a new name");
    };
    if (!S_ISREG(status.st_mode)) refuse("this is not a regular file");
    const auto size = static_cast<std::uint64_t>(status.st_size);
    std::array<char, sizeof checkpoint::kMagic> magic{};
    if (size >= sizeof checkpoint::kMagic) read_at(0, magic);
    if (magic != checkpoint::kMagic) refuse("this is not a checkpoint");
    if (size < checkpoint::kStart + checkpoint::kEnd) throw damaged_checkpoint(path_);
    buffer_.resize(std::min<std::uint64_t>(checkpoint::kPiece, size));
    std::uint64_t version = 0;
    read_at(sizeof checkpoint::kMagic, {reinterpret_cast<char*>(&version), sizeof version});
    RunningSum sum;
    const std::uint64_t summed = size - sizeof(std::uint64_t);
    for (std::uint64_t at = 0; at < summed; at += checkpoint::kPiece) {
      const auto part = std::span(buffer_).first(std::min<std::uint64_t>(checkpoint::kPiece, summed - at));
      read_at(at, part);
      sum.add(part);
    }
    std::array<std::uint64_t, 2> end{};
    read_at(size - checkpoint::kEnd, {reinterpret_cast<char*>(end.data()), sizeof end});
    if (end[0] != size - checkpoint::kEnd || end[1] != sum.value()) throw damaged_checkpoint(path_);
    if (version != checkpoint::kFormat)
      throw file_error(path_, 0,
                       fmt::format("this checkpoint has format {}, not {}", version, checkpoint::kFormat),
                       "finish the run with the version of truemax that wrote it, or train again");
    at_ = checkpoint::kStart, end_ = size - checkpoint::kEnd;
  }

  std::string path_;
  struct Descriptor {
    Descriptor() = default;
    ~Descriptor() {
      if (number >= 0) close(number);
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    int number = -1;
  } file_;
  std::uint64_t at_ = 0, end_ = 0;  // of what is not in the buffer yet
  std::vector<char> buffer_;
  std::size_t used_ = 0, filled_ = 0;
};

// The first rank reads; all see the same bytes, and the same errors.
class CheckpointFile::Shared final : public StateSource {
 public:
  Shared(Ranks& all, std::unique_ptr<Source> file) : all_(all), file_(std::move(file)) {
    left_ = all_.broadcast_value(all_.first() ? file_->left() : 0);
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
    piece_.resize(std::min<std::uint64_t>(checkpoint::kPiece, left_));
    all_.only_first([&] { file_->read(piece_); });
    all_.broadcast(std::as_writable_bytes(std::span(piece_)), 0);
    left_ -= piece_.size();
    used_ = 0;
  }

  Ranks& all_;
  std::unique_ptr<Source> file_;  // of the first rank
  std::uint64_t left_ = 0;        // not fetched yet
  std::vector<char> piece_;
  std::size_t used_ = 0;
};

namespace {

// Runs `read`; errors name the file.
template <class Read>
void named(const std::string& path, const Read& read) {
  try {
    read();
  } catch (const UserError& error) {
    if (std::string_view(error.what()).starts_with(path)) throw;
    throw file_error(path, 0, fmt::format("this checkpoint was not written by truemax: {}", error.what()),
                     "restore it from a copy, or remove it and train again");
  }
}

// The sizes of everything in a state that does not grow during a run.
std::vector<std::uint64_t> shape_of(const RunState& s) {
  std::vector<std::uint64_t> shape{s.weights.classes(),
                                   s.weights.features(),
                                   std::uint64_t{s.weights.has_intercept()},
                                   s.rows.size(),
                                   s.learnt.intercept.size(),
                                   s.learnt.features_square.size(),
                                   s.learnt.mixing_square.size(),
                                   s.learnt.classes_square.size(),
                                   s.learnt.intercept_square.size(),
                                   s.learnt.tables.layers,
                                   s.companion.difference.classes(),
                                   s.companion.difference.features(),
                                   s.companion.touched.size(),
                                   s.companion.journal.size(),
                                   s.moments.mean.classes(),
                                   s.lbfgs.gradient.classes(),
                                   s.lbfgs.pairs.rooms};
  for (const Embedding* table : {&s.learnt.tables.features, &s.learnt.tables.mixing, &s.learnt.classes})
    shape.insert(shape.end(), {table->rows, table->columns, table->numbers.size()});
  return shape;
}

}  // namespace

CheckpointFile::CheckpointFile(const std::string& path) : path_(path) {
  Ranks& all = ranks();
  std::unique_ptr<Source> file;
  all.only_first([&] { file = std::make_unique<Source>(path); });
  if (all.alone())
    from_ = std::move(file);
  else
    from_ = std::make_unique<Shared>(all, std::move(file));
  named(path, [&] {
    Reader reader(*from_);
    checkpoint::each_field(about_, reader);
    for (const double seconds : {about_.seconds, about_.trial_seconds})
      if (!std::isfinite(seconds) || seconds < 0) throw UserError("its time is not a number of seconds");
    if (!about_.fitting && from_->left() > 0) throw UserError("there are bytes after its end");
  });
}
CheckpointFile::~CheckpointFile() = default;
CheckpointFile::CheckpointFile(CheckpointFile&&) noexcept = default;
CheckpointFile& CheckpointFile::operator=(CheckpointFile&&) noexcept = default;

void CheckpointFile::read_state(RunState& state) {
  named(path_, [&] {
    const std::vector<std::uint64_t> fresh = shape_of(state);
    read(state, *from_);
    if (from_->left() > 0) throw UserError("there are bytes after its end");
    together(ranks(), [&] {
      if (shape_of(state) != fresh) throw UserError("its state is not of these data and options");
    });
  });
}

nlohmann::ordered_json options_asked_in(const std::string& path) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 20;  // far more than all options take
  std::ifstream file(path, std::ios::binary);
  std::array<char, sizeof checkpoint::kMagic> magic{};
  std::uint64_t format = 0, size = 0;
  file.read(magic.data(), magic.size());
  file.read(reinterpret_cast<char*>(&format), sizeof format);
  file.read(reinterpret_cast<char*>(&size), sizeof size);
  if (!file || magic != checkpoint::kMagic || format != checkpoint::kFormat || size > kMost) return {};
  std::string text(size, '\0');
  if (!file.read(text.data(), static_cast<std::streamsize>(size)) || nested_too_deeply(text)) return {};
  nlohmann::ordered_json asked = nlohmann::ordered_json::parse(text, nullptr, false);
  return asked.is_object() ? asked : nlohmann::ordered_json();
}

}  // namespace truemax
