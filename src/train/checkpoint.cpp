#include "train/checkpoint.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "core/checksum.hpp"
#include "core/damaged_state.hpp"
#include "core/files.hpp"
#include "core/json_depth.hpp"
#include "core/text.hpp"
#include "ranks/together.hpp"

namespace truemax {
namespace {

// The file: magic, version, `SavedRun`, the state, then the length of all that and a checksum of all before
// it. Numbers lie as in memory (little-endian).
constexpr std::array<char, 8> kMagic{'T', 'M', 'X', 'C', 'H', 'K', 'P', 'T'};
// Changes with every change of SavedRun or RunState.
constexpr std::uint64_t kVersion = 1;
constexpr std::size_t kStart = sizeof kMagic + sizeof kVersion, kEnd = 2 * sizeof(std::uint64_t);
constexpr std::size_t kPiece = RunningSum::kPiece;

UserError damaged(const std::string& path) {
  return file_error(path, 0, "this checkpoint is truncated or damaged: its checksum does not fit",
                    "restore it from a copy, or remove it and train again");
}

// Whole pieces go to the file, the sum and the disk.
class Sink final : public StateSink {
 public:
  explicit Sink(AtomicFile& file) : file_(file) { piece_.reserve(kPiece); }
  void write(std::span<const char> bytes) override {
    while (!bytes.empty()) {
      const std::size_t take = std::min(bytes.size(), kPiece - piece_.size());
      piece_.insert(piece_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(take));
      bytes = bytes.subspan(take);
      if (piece_.size() == kPiece) flush();
    }
  }
  // Returns the size of the file.
  std::uint64_t finish() {
    put(at_ + piece_.size());
    flush();
    const std::uint64_t sum = sum_.value();
    file_.write_at(at_, {reinterpret_cast<const char*>(&sum), sizeof sum});
    return at_ + sizeof sum;
  }
  std::uint64_t sum() const { return sum_.value(); }

 private:
  void flush() {
    if (piece_.empty()) return;
    file_.write_at(at_, piece_);
    sum_.add(piece_);
    at_ += piece_.size();
    piece_.clear();
  }
  AtomicFile& file_;
  std::vector<char> piece_;
  std::uint64_t at_ = 0;
  RunningSum sum_;
};

// One list of fields for reading and writing.
template <class Saved, class Archive>
void each_field(Saved& s, Archive& archive) {
  archive(s.asked);
  archive(s.chosen);
  archive(s.data_hash);
  archive(s.valid_hash);
  archive(s.test_hash);
  archive(s.init_hash);
  archive(s.model);
  archive(s.log);
  archive(s.lines);
  archive(s.seconds);
  archive(s.trials);
  archive(s.search);
  archive(s.trial_seconds);
  archive(s.fitting);
  archive(s.finished);
  archive(s.epochs);
  archive(s.steps);
}
template <class Trial, class Archive>
void each_field_of_trial(Trial& t, Archive& archive) {
  archive(t.about);
  archive(t.number);
  archive(t.hidden);
  archive(t.step);
  archive(t.ridge);
  archive(t.rows);
  archive(t.steps);
  archive(t.judged_on);
  archive(t.rows_per_step);
  archive(t.log_loss);
  archive(t.seconds);
}

class Writer {
 public:
  explicit Writer(StateSink& to) : to_(to) {}
  template <class T>
  void operator()(const T& value) {
    to_.put(value);
  }
  void operator()(const std::string& text) { to_.put_array(std::span<const char>(text)); }
  void operator()(const nlohmann::ordered_json& json) {
    (*this)(json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  void operator()(const std::vector<SearchTrial>& trials) {
    to_.put(std::uint64_t{trials.size()});
    for (const SearchTrial& trial : trials) each_field_of_trial(trial, *this);
  }
  void operator()(const SearchResult& s) {
    for (const bool flag : {s.finished, s.step, s.ridge, s.epochs, s.layers, s.tied, s.dropout})
      (*this)(flag);
    to_.put(s.trials);
    to_.put(s.log_loss);
    (*this)(s.compared.has_value());
    const SearchResult::Compared compared = s.compared.value_or(SearchResult::Compared{});
    to_.put(compared.linear);
    to_.put(compared.learnt);
    to_.put(compared.hidden);
  }

 private:
  StateSink& to_;
};

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
    for (std::size_t i = 0; i < count; ++i) each_field_of_trial(trials.emplace_back(), *this);
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

namespace {

// Of the other ranks: the first one writes.
class NoSink final : public StateSink {
 public:
  void write(std::span<const char> /*bytes*/) override {}
};

// Drops everything after an error, which is kept: the other ranks go on sending.
class PatientSink final : public StateSink {
 public:
  explicit PatientSink(StateSink& to) : to_(to) {}
  void write(std::span<const char> bytes) override {
    if (!error_) try {
        to_.write(bytes);
      } catch (const UserError& error) {
        error_ = error;
      }
  }
  void require_written() const {
    if (error_) throw UserError(*error_);
  }

 private:
  StateSink& to_;
  std::optional<UserError> error_;
};

void require_same_bytes(const std::string& path, AtomicFile& file, std::uint64_t size,
                        std::uint64_t expected) {
  RunningSum there;
  std::vector<char> piece(kPiece);
  const std::uint64_t summed = size - sizeof(std::uint64_t);
  for (std::uint64_t at = 0; at < summed; at += kPiece) {
    const auto part = std::span(piece).first(std::min<std::uint64_t>(kPiece, summed - at));
    file.read_back(at, part);
    there.add(part);
  }
  std::uint64_t sum = 0;
  file.read_back(summed, {reinterpret_cast<char*>(&sum), sizeof sum});
  if (there.value() != expected || sum != expected)
    throw UserError(fmt::format(
        "{}: what was read back is not what was written; the old file, if any, is untouched: this disk "
        "cannot be trusted, choose another one",
        path));
}

}  // namespace

void write_checkpoint(const std::string& path, const SavedRun& about, const RunState* state) {
  Ranks& all = ranks();
  std::optional<AtomicFile> file;
  std::optional<Sink> sink;
  all.only_first([&] {
    sink.emplace(file.emplace(path));
    sink->write(kMagic);
    sink->put(kVersion);
    Writer writer(*sink);
    each_field(about, writer);
  });
  if (about.fitting && sink) {
    PatientSink patient(*sink);
    write(*state, patient);
    all.only_first([&] { patient.require_written(); });
  } else if (about.fitting) {
    NoSink none;
    write(*state, none);
    all.only_first([] {});
  }
  all.only_first([&] {
    const std::uint64_t size = sink->finish();
    file->sync();
    require_same_bytes(path, *file, size, sink->sum());
    file->commit();
  });
}

// Reads the file in order, through a buffer.
class CheckpointFile::Source final : public StateSource {
 public:
  explicit Source(const std::string& path) : path_(path) {
    file_.number = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file_.number < 0) fail("opening");
    verify();
  }

  void read(std::span<char> bytes) override {
    if (bytes.size() > left()) throw damaged(path_);
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
      if (got == 0) throw damaged(path_);
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
    std::array<char, sizeof kMagic> magic{};
    if (size >= sizeof kMagic) read_at(0, magic);
    if (magic != kMagic) refuse("this is not a checkpoint");
    if (size < kStart + kEnd) throw damaged(path_);
    buffer_.resize(std::min<std::uint64_t>(kPiece, size));
    std::uint64_t version = 0;
    read_at(sizeof kMagic, {reinterpret_cast<char*>(&version), sizeof version});
    RunningSum sum;
    const std::uint64_t summed = size - sizeof(std::uint64_t);
    for (std::uint64_t at = 0; at < summed; at += kPiece) {
      const auto part = std::span(buffer_).first(std::min<std::uint64_t>(kPiece, summed - at));
      read_at(at, part);
      sum.add(part);
    }
    std::array<std::uint64_t, 2> end{};
    read_at(size - kEnd, {reinterpret_cast<char*>(end.data()), sizeof end});
    if (end[0] != size - kEnd || end[1] != sum.value()) throw damaged(path_);
    if (version != kVersion)
      throw file_error(path_, 0, fmt::format("this checkpoint has format {}, not {}", version, kVersion),
                       "finish the run with the version of truemax that wrote it, or train again");
    at_ = kStart, end_ = size - kEnd;
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
    piece_.resize(std::min<std::uint64_t>(kPiece, left_));
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
                                   s.companion.journal.size()};
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
    each_field(about_, reader);
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

SaveEvery parse_save_every(const std::string& text) {
  const auto bad = [&] {
    return bad_value("checkpoint-every", text,
                     "a number with its unit: epochs, s, min or h, such as 1epochs or 10min");
  };
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (error != std::errc() || !std::isfinite(number) || number <= 0) throw bad();
  if (unit == "epochs" || unit == "epoch") {
    if (number != std::floor(number) || number > 1e9) throw bad();
    return {.epochs = static_cast<std::uint64_t>(number)};
  }
  const double seconds = unit == "s" ? 1 : unit == "min" ? 60 : unit == "h" ? 3600 : 0;
  if (seconds == 0 || number * seconds > 1e9) throw bad();
  return {.seconds = number * seconds};
}

}  // namespace truemax
