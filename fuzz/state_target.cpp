// The saved state of a run, and good states of every kind as seeds.
#include <atomic>
#include <cmath>

#include "data/hold_out.hpp"
#include "draw/draw.hpp"
#include "rule/methods.hpp"
#include "target.hpp"
#include "targets.hpp"
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
  require(is_table(s.learnt.tables.features) && is_table(s.learnt.tables.mixing) && is_table(s.learnt.classes) &&
              is_table(s.patience.tables.features) && is_table(s.patience.tables.mixing),
          "a table has as many numbers as its shape says");
  for (const RowState& row : s.rows) require(std::isfinite(row.u) && row.squared_norm >= 0, "u is finite");
  for (const ClassId k : s.draw_memory)
    require(k < s.weights.classes() || k == kUnseenClass, "a draw remembers classes");
  for (const auto& list : s.companion.journal)
    for (const ExampleId i : list) require(number_of(i) < s.rows.size(), "a journal lists examples");
  require(s.companion.touched.empty() || s.companion.touched.size() == s.companion.difference.classes(),
          "every class of a companion was touched");
}

}  // namespace

bool read_run_state(std::string_view bytes) {
  StateBuffer buffer;
  buffer.write(bytes);
  RunState state;
  if (!accepts("", [&] { read(state, buffer); })) return false;
  require_promises(state);
  const std::string written = bytes_of(state);
  require(written == bytes.substr(0, bytes.size() - buffer.left()), "a state that is read is written unchanged");
  return true;
}

std::vector<std::string> good_run_states() {
  std::vector<std::string> all;
  const Dataset made = random_data({.rows = 6, .classes = 3, .features = 4, .most_nonzeros = 2, .weights = true});
  const DataView data(made);
  for (const MethodInfo* info : methods())
    for (const DrawInfo& draw : draws()) {
      TrainOptions options = options_of(std::string(info->name), 2, Visit::shuffle);
      options.draw = draw.name;
      options.draws.head = options.draws.active = 1;
      options.ridge = 0.7;
      options.intercept = options.ridge_intercept = all.size() % 2 == 0;
      options.step = info->can_diverge ? 0.005 : 0.5;
      options.epochs = 1;
      if (info->whole_set && draw.name != "uniform") continue;
      all.push_back(bytes_of(run_epochs(data, options)));
    }
  TrainOptions learnt = options_of("scent", 2, Visit::shuffle);
  learnt.hidden = 2, learnt.rows_per_step = 4, learnt.draw = "frequency", learnt.intercept = true;
  all.push_back(bytes_of(run_epochs(data, learnt)));

  // Evaluations, patience and the best weights.
  const Dataset more = random_data({.rows = 40, .classes = 3, .features = 3});
  const RowSplit split = set_aside(more, 0.3, 1);
  TrainOptions patient = options_of("implicit", 1, Visit::shuffle);
  patient.step = 30, patient.epochs = 3, patient.eval_every = 1, patient.patience = 4;
  RunState state = make_state(split.rest, patient);
  const std::atomic<bool> stop{false};
  Stopwatch watch;
  watch.resume();
  train({split.rest, {}, split.valid}, patient, state, watch, {}, stop,
        {.recording = nullptr, .best_folder = "", .between = [&](const RunState& s) { all.push_back(bytes_of(s)); }});
  return all;
}

}  // namespace truemax::fuzz
