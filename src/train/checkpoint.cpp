#include "train/checkpoint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "core/checksum.hpp"
#include "core/files.hpp"
#include "core/text.hpp"
#include "ranks/ranks.hpp"
#include "train/checkpoint_format.hpp"

namespace truemax {
namespace {

// Whole pieces go to the file, the sum and the disk.
class Sink final : public StateSink {
 public:
  explicit Sink(AtomicFile& file) : file_(file) { piece_.reserve(checkpoint::kPiece); }
  void write(std::span<const char> bytes) override {
    while (!bytes.empty()) {
      const std::size_t take = std::min(bytes.size(), checkpoint::kPiece - piece_.size());
      piece_.insert(piece_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(take));
      bytes = bytes.subspan(take);
      if (piece_.size() == checkpoint::kPiece) flush();
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
    for (const SearchTrial& trial : trials) checkpoint::each_field_of_trial(trial, *this);
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
  std::vector<char> piece(checkpoint::kPiece);
  const std::uint64_t summed = size - sizeof(std::uint64_t);
  for (std::uint64_t at = 0; at < summed; at += checkpoint::kPiece) {
    const auto part = std::span(piece).first(std::min<std::uint64_t>(checkpoint::kPiece, summed - at));
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
    sink->write(checkpoint::kMagic);
    sink->put(checkpoint::kFormat);
    Writer writer(*sink);
    checkpoint::each_field(about, writer);
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
