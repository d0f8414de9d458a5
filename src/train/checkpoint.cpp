#include "train/checkpoint.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <fstream>
#include <utility>

#include "core/archive.hpp"
#include "core/json_depth.hpp"
#include "core/text.hpp"
#include "ranks/together.hpp"
#include "train/checkpoint_stream.hpp"

namespace truemax {
namespace {

// Saved as text.
template <class Json>
struct AsText {
  void write(StateSink& to) const {
    ArchiveWriter{to}(json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  void read(StateSource& from) const {
    std::string text;
    ArchiveReader{from}(text);
    if (nested_too_deeply(text)) throw UserError("the options are nested too deeply");
    json = nlohmann::ordered_json::parse(text, nullptr, false);
    if (!json.is_object()) throw UserError("the options are not a JSON object");
  }

  Json& json;
};
template <class Json>
AsText(Json&) -> AsText<Json>;

}  // namespace

// The archive finds these by its own namespace: a nameless one would hide them.
static void each_field(MaybeConst<SearchTrial> auto& t, auto& archive) {
  archive(t.about, t.number, t.hidden, t.step, t.ridge, t.rows, t.steps, t.judged_on, t.rows_per_step,
          t.log_loss, t.seconds);
}

static void each_field(MaybeConst<SearchTrial::Memory> auto& m, auto& archive) {
  archive(m.points, m.losses);
}

template <class Archive>
static void each_field(MaybeConst<SearchResult> auto& s, Archive& archive) {
  archive(s.finished, s.step, s.ridge, s.epochs, s.layers, s.tied, s.dropout, s.trials, s.log_loss);
  bool there = s.compared.has_value();
  SearchResult::Compared compared = s.compared.value_or(SearchResult::Compared{});  // saved in any case
  archive(there, compared.linear, compared.learnt, compared.hidden);
  if constexpr (Archive::kReads)
    if (there) s.compared = compared;
}

static void each_field(MaybeConst<SavedRun> auto& s, auto& archive) {
  archive(AsText{s.asked}, AsText{s.chosen}, s.data_hash, s.valid_hash, s.test_hash, s.init_hash, s.model,
          s.log, s.lines, s.seconds, s.trials, s.search, s.trial_seconds, s.fitting, s.finished, s.epochs,
          s.steps);
}

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

void write_checkpoint(const std::string& path, const SavedRun& about, const RunState* state) {
  checkpoint::write_file(path, [&](StateSink& to) {
    ArchiveWriter writer{to};
    writer(about);
    if (about.fitting) return write(*state, to);
    for (const SearchTrial& trial : about.trials) writer(trial.memory);
  });
}

CheckpointFile::CheckpointFile(const std::string& path) : path_(path), from_(checkpoint::open_file(path)) {
  named(path, [&] {
    ArchiveReader{*from_}(about_);
    for (const double seconds : {about_.seconds, about_.trial_seconds})
      if (!std::isfinite(seconds) || seconds < 0) throw UserError("its time is not a number of seconds");
    if (about_.fitting || from_->left() == 0) return;  // older versions save no memory of trials
    for (SearchTrial& trial : about_.trials) ArchiveReader{*from_}(trial.memory);
    if (from_->left() > 0) throw UserError("there are bytes after its end");
  });
}

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
  std::string bytes(std::size_t{1} << 20, '\0');  // far more than all options take
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  StateBuffer start;
  start.write(std::span(bytes).first(static_cast<std::size_t>(file.gcount())));
  std::array<char, sizeof checkpoint::kMagic> magic{};
  std::uint64_t format = 0;
  nlohmann::ordered_json asked;
  try {
    ArchiveReader{start}(magic, format, AsText{asked});
  } catch (const UserError&) {
    return {};
  }
  return magic == checkpoint::kMagic && format == checkpoint::kFormat ? asked : nlohmann::ordered_json();
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
