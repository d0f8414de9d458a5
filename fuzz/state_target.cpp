// The saved state of a run and its checkpoint, with good ones of every kind as seeds.
#include <atomic>
#include <cmath>
#include <cstring>

#include "core/checksum.hpp"
#include "data/hold_out.hpp"
#include "draw/draw.hpp"
#include "rule/methods.hpp"
#include "target.hpp"
#include "targets.hpp"
#include "train/checkpoint.hpp"
#include "train/run_state.hpp"
#include "train/test_support.hpp"
#include "train/trainer.hpp"

namespace truemax::fuzz {
namespace {

std::string bytes_of(const RunState& state) {
  StateBuffer buffer;
  write(state, buffer);
  std::string bytes(buffer.size(), '\0');
  buffer.read(bytes);
  return bytes;
}

bool is_table(const Embedding& table) {
  return table.numbers.size() == table.rows * table.columns && (table.columns > 0 || table.rows == 0);
}

void require_promises(const RunState& s) {
  require(std::isfinite(s.weights.largest()), "weights are finite");
  require(is_table(s.learnt.tables.features) && is_table(s.learnt.tables.mixing) &&
              is_table(s.learnt.classes) && is_table(s.patience.tables.features) &&
              is_table(s.patience.tables.mixing),
          "a table has as many numbers as its shape says");
  for (const RowState& row : s.rows) require(std::isfinite(row.u), "u is finite");
  for (const ClassId k : s.draw_memory)
    require(k < s.weights.classes() || k == kUnseenClass, "a draw remembers classes");
  for (const auto& list : s.companion.journal)
    for (const ExampleId i : list) require(number_of(i) < s.rows.size(), "a journal lists examples");
  require(s.companion.touched.size() == s.companion.difference.classes(), "every class was touched");
}

const DataView& small_data() {
  static const Dataset made =
      random_data({.rows = 6, .classes = 3, .features = 4, .most_nonzeros = 2, .weights = true});
  static const DataView data(made);
  return data;
}

// Runs whose states have every part that a state can have.
const std::vector<Recipe>& small_runs() {
  static const std::vector<Recipe> runs = [] {
    std::vector<Recipe> all;
    for (const MethodInfo* info : methods())
      for (const DrawInfo& draw : draws()) {
        Recipe options = options_of(std::string(info->name), 2, Visit::shuffle);
        options.draw = draw.name;
        options.draws.head = options.draws.active = 1;
        options.ridge = 0.7;
        options.intercept = options.ridge_intercept = all.size() % 2 == 0;
        options.step = info->can_diverge ? 0.005 : 0.5;
        options.epochs = 1;
        if ((info->whole_set && draw.name != "uniform") || (all.size() > 8 && draw.name != "uniform"))
          continue;
        all.push_back(options);
      }
    Recipe learnt = options_of("scent", 2, Visit::shuffle);
    learnt.hidden = 2, learnt.rows_per_step = 4, learnt.draw = "frequency", learnt.intercept = true;
    all.push_back(learnt);
    learnt.row_state = true;
    all.push_back(learnt);
    return all;
  }();
  return runs;
}

// With evaluations, patience and the best weights, at the end of each epoch.
std::vector<std::string> patient_states() {
  std::vector<std::string> all;
  const Dataset made = random_data({.rows = 12, .classes = 3, .features = 3});
  const RowSplit split = set_aside(made, 0.3, 1);
  Recipe options = options_of("implicit", 1, Visit::shuffle);
  options.step = 30, options.epochs = 3, options.eval_every = 1, options.patience = 4;
  RunState state = make_state(split.rest, options);
  const std::atomic<bool> stop{false};
  Stopwatch watch;
  watch.resume();
  TrainExtras extras;
  extras.saving.epochs = 1;
  extras.saving.save = [&](const RunState& s, bool /*finished*/) { all.push_back(bytes_of(s)); };
  const TrainSets sets{split.rest, {}, split.valid};
  train(sets, planned(sets, options), state, watch, {}, stop, extras);
  return all;
}

// The bytes of a checkpoint before its end, with an end that fits them: as a forger writes it.
std::string with_end(std::string_view body) {
  std::string bytes(body);
  const auto put = [&](std::uint64_t number) {
    bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
  };
  put(body.size());
  put(xxh64(std::span<const char>(bytes), 0));
  return bytes;
}

SavedRun saved_run(const Recipe& options) {
  SavedRun run;
  run.chosen = to_json(options);
  run.asked = {{"method", options.method}};
  run.data_hash = "0123", run.model = "m.safetensors", run.log = "none", run.lines = "{}\n";
  run.trials.resize(2);
  run.trials[0].about = "step";
  run.search.compared = SearchResult::Compared{};
  run.fitting = true;
  return run;
}

}  // namespace

bool read_run_state(std::string_view bytes) {
  StateBuffer buffer;
  buffer.write(bytes);
  RunState state;
  if (!accepts("", [&] { read(state, buffer); })) return false;
  require_promises(state);
  const std::string written = bytes_of(state);
  require(written == bytes.substr(0, bytes.size() - buffer.left()),
          "a state that is read is written unchanged");
  return true;
}

std::vector<std::string> good_run_states() {
  std::vector<std::string> all = patient_states();
  for (const Recipe& options : small_runs()) all.push_back(bytes_of(run_epochs(small_data(), options)));
  return all;
}

// The first byte says whose fresh state the saved one must fit, and whether the rest has an end of its own.
bool read_checkpoint(std::string_view bytes) {
  if (bytes.empty()) return false;
  const auto how = static_cast<unsigned char>(bytes.front());
  bytes.remove_prefix(1);
  const Recipe& options = small_runs()[how / 2 % small_runs().size()];
  const MemoryFile file(how % 2 == 0 ? with_end(bytes) : std::string(bytes));
  RunState state = make_state(small_data(), options);
  SavedRun about;
  const bool read = accepts(file.path(), [&] {
    CheckpointFile checkpoint(file.path());
    about = checkpoint.about();
    if (about.fitting) checkpoint.read_state(state);
  });
  if (!read) return false;
  require(std::isfinite(about.seconds) && about.seconds >= 0, "the time of a run is finite");
  if (about.fitting) require_promises(state);
  const std::string again = scratch_folder() + "/checkpoint";
  write_checkpoint(again, about, &state);
  const std::string once = file_bytes(again);
  RunState same = make_state(small_data(), options);
  CheckpointFile back(again);
  if (about.fitting) back.read_state(same);
  write_checkpoint(again, back.about(), &same);
  require(file_bytes(again) == once, "a checkpoint that is read is written unchanged");
  return true;
}

std::vector<std::string> good_checkpoints() {
  std::vector<std::string> all;
  const std::string path = scratch_folder() + "/checkpoint";
  for (std::size_t i = 0; i < small_runs().size(); ++i) {
    const Recipe& options = small_runs()[i];
    const RunState state = run_epochs(small_data(), options);
    SavedRun run = saved_run(options);
    run.fitting = i % 5 != 4;  // else still searching
    write_checkpoint(path, run, &state);
    const std::string bytes = file_bytes(path);
    all.push_back(static_cast<char>(2 * i + 1) + bytes);
    all.push_back(static_cast<char>(2 * i) + bytes.substr(0, bytes.size() - 2 * sizeof(std::uint64_t)));
  }
  return all;
}

}  // namespace truemax::fuzz
