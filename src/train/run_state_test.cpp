// A run can be saved at any step and resumed by another process with the same result.
#include "train/run_state.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "data/hold_out.hpp"
#include "draw/draw.hpp"
#include "rule/methods.hpp"
#include "train/fit.hpp"
#include "train/step_shape.hpp"
#include "train/test_support.hpp"
#include "train/trainer.hpp"

namespace truemax {
namespace {

// The state after writing and reading it.
RunState passed_on(const RunState& state) {
  StateBuffer bytes;
  write(state, bytes);
  RunState out;
  read(out, bytes);
  EXPECT_EQ(bytes.left(), 0U);
  return out;
}

std::vector<Recipe> runs_of(std::string_view method) {
  const MethodInfo& info = find_method(method);
  std::vector<Recipe> all;
  for (const DrawInfo& draw : draws())
    for (const std::uint64_t rows : {1U, 5U})
      for (const double ridge : {0.0, 0.7}) {
        Recipe options = options_of(std::string(method), 3, Visit::shuffle);
        options.rows_per_step = rows;
        options.draw = draw.name;
        options.draws.head = 2;
        options.draws.active = 2;
        if (rows == 1) options.draws.rivals = 1;
        options.ridge = ridge;
        options.intercept = ridge > 0;
        options.step = info.can_diverge ? 0.005 : 0.5;
        options.epochs = 3;
        if (rows > info.most_rows || (rows > 1 && !draw.takes_rows) ||
            (info.whole_set && draw.name != "uniform"))
          continue;
        all.push_back(options);
      }
  Recipe pairs = options_of(std::string(method), 1);
  pairs.epochs = 3;
  if (info.can_diverge) pairs.step = 0.005;
  all.push_back(pairs);
  if (method == "scent") {
    Recipe learnt = options_of(std::string(method), 8, Visit::shuffle);
    learnt.hidden = 6, learnt.rows_per_step = 16, learnt.draw = "frequency", learnt.epochs = 3;
    learnt.intercept = true, learnt.ridge = 0.3;
    all.push_back(learnt);
  }
  return all;
}

// Runs until `steps` steps of the whole run are done.
void run_until(const DataView& data, Recipe options, std::uint64_t steps, RunState& state) {
  options.steps = steps;
  const std::atomic<bool> stop{false};
  Fit fit(data, planned(data, options), std::move(state));
  EXPECT_EQ(fit.run({}, stop), Fit::End::used_up);
  state = std::move(fit.state());
}

TEST(RunState, ResumedAtAnyStepGivesTheSameBits) {
  const Dataset made = random_data({.rows = 60, .classes = 40, .features = 15, .weights = true});
  const DataView data(made);
  std::mt19937_64 random(1);
  for (const MethodInfo* info : methods())
    for (const Recipe& options : runs_of(info->name)) {
      SCOPED_TRACE(std::string(info->name) + " " + options.draw + " rows " +
                   std::to_string(options.rows_per_step) + " ridge " + std::to_string(options.ridge));
      const std::uint64_t all = options.epochs * steps_per_epoch(data.size(), options);
      RunState whole = make_state(data, options);
      run_until(data, options, all, whole);
      RunState state = make_state(data, options);
      for (std::uint64_t at = random() % all; at < all; at += 1 + random() % (all / 2)) {
        run_until(data, options, at, state);
        state = passed_on(state);
      }
      run_until(data, options, all, state);
      EXPECT_EQ(bits_of(state), bits_of(whole));
      // Only near: the rounding of this sum depends on where batches end.
      EXPECT_NEAR(state.largest_weight, whole.largest_weight, 1e-9 * whole.largest_weight);
    }
}

// Includes evaluations, patience and the best weights.
TEST(RunState, ResumedBetweenEvaluationsEndsTheSame) {
  const Dataset made = random_data({.rows = 400, .classes = 12, .features = 10});
  const RowSplit split = set_aside(made, 0.3, 1);
  const TrainSets sets{split.rest, {}, split.valid};
  Recipe options = options_of("implicit", 1, Visit::shuffle);
  options.step = 30, options.decay = 1;
  options.epochs = 40, options.eval_every = 1, options.patience = 4;
  for (const std::string& folder : {std::string(), std::string(".")}) {
    std::vector<StateBuffer> kept;
    const std::atomic<bool> stop{false};
    const auto train_from = [&](RunState& state, const std::function<void(const RunState&, bool)>& save) {
      Stopwatch watch;
      watch.resume();
      return train(sets, planned(sets, options), state, watch, {}, stop,
                   {.recording = nullptr, .best_folder = folder, .saving = {.epochs = 1, .save = save}});
    };
    RunState whole = make_state(sets.data, options);
    const TrainOutcome outcome =
        train_from(whole, [&](const RunState& state, bool) { write(state, kept.emplace_back()); });
    ASSERT_TRUE(outcome.kept_best);
    ASSERT_LT(outcome.epochs, options.epochs) << "patience ends it";
    ASSERT_GE(kept.size(), 5U);
    for (StateBuffer& bytes : kept) {
      RunState state;
      read(state, bytes);
      const TrainOutcome again = train_from(state, {});
      EXPECT_EQ(again.epochs, outcome.epochs);
      EXPECT_EQ(again.last->steps, outcome.last->steps);
      EXPECT_EQ(again.last->valid->log_loss, outcome.last->valid->log_loss);
      EXPECT_EQ(bits_of(state), bits_of(whole));
    }
  }
}

TEST(RunState, RefusesTruncatedOrInvalidBytes) {
  const Dataset made = random_data({.rows = 20});
  Recipe options = options_of("composition", 2);
  options.epochs = 1;
  StateBuffer whole;
  write(run_epochs(made, options), whole);
  std::vector<char> bytes(whole.size());
  whole.read(bytes);
  for (std::size_t length = 0; length < bytes.size(); length += 1 + length / 50) {
    StateBuffer cut;
    cut.write(std::span(bytes).first(length));
    RunState state;
    EXPECT_THROW(read(state, cut), UserError) << length;
  }
  // Array lengths beyond the input are refused before allocating.
  for (std::size_t at = 0; at + 8 < bytes.size(); at += 1 + at / 20) {
    std::vector<char> changed = bytes;
    for (std::size_t i = 0; i < 8; ++i) changed[at + i] = '\x7f';
    StateBuffer buffer;
    buffer.write(changed);
    RunState state;
    try {
      read(state, buffer);  // changed numbers may be valid
    } catch (const UserError&) {
    }
  }
}

// A forged state has a right checksum, so each part is compared with the others.
TEST(RunState, RefusesPartsThatDoNotFitEachOther) {
  const Dataset made = random_data({.rows = 20, .classes = 5, .features = 4});
  Recipe options = options_of("composition", 2);
  options.epochs = 1;
  const auto refused = [&](const std::function<void(RunState&)>& spoil) {
    RunState state = run_epochs(made, options);
    spoil(state);
    StateBuffer bytes;
    write(state, bytes);
    RunState out;
    try {
      read(out, bytes);
    } catch (const UserError&) {
      return true;
    }
    return false;
  };
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(refused([](RunState&) {}));
  EXPECT_TRUE(refused([](RunState& s) { s.rows[3].u = kInfinite; }));
  EXPECT_TRUE(refused([](RunState& s) { s.largest_weight = -1; }));
  EXPECT_TRUE(refused([](RunState& s) { s.weights = Weights(4, 4, false); }));
  EXPECT_TRUE(refused([](RunState& s) { s.draw_memory = {5}; }));
  EXPECT_FALSE(refused([](RunState& s) { s.draw_memory = {4, kUnseenClass}; }));
  EXPECT_TRUE(refused([](RunState& s) { s.norms.of_class = {1, 2}; }));
  EXPECT_TRUE(refused([](RunState& s) { s.companion.touched.pop_back(); }));
  EXPECT_TRUE(refused([](RunState& s) { s.companion.journal_limit = std::size_t{1} << 60; }));
  EXPECT_TRUE(refused([](RunState& s) { s.companion.journal[0] = {ExampleId{20}}; }));
  EXPECT_TRUE(refused([](RunState& s) { s.plan.segments = {{1, 0.5}}; }));
  EXPECT_TRUE(refused([](RunState& s) { s.plan.segments = {{0, 0.5}, {0, 0.5}}; }));
  EXPECT_TRUE(refused([](RunState& s) { s.learnt.tables.features = Embedding(4, 3); }));
  EXPECT_TRUE(refused([](RunState& s) { s.learnt.intercept = {1, 2, 3, 4, 5}; }));
  EXPECT_TRUE(refused([](RunState& s) {
    s.patience.weights = std::make_shared<KeptWeights>("");
    s.patience.weights->keep(Weights(3, 4, false));
  }));
  options.method = "scent", options.hidden = 2, options.rows_per_step = 4, options.draw = "frequency";
  EXPECT_FALSE(refused([](RunState&) {}));
  EXPECT_TRUE(refused([](RunState& s) { s.learnt.tables.features.rows = std::size_t{1} << 63; }));
  EXPECT_TRUE(refused([](RunState& s) { s.learnt.tables.features.columns = 4; }));
  EXPECT_TRUE(refused([](RunState& s) { s.learnt.classes = Embedding(4, 2); }));
  EXPECT_TRUE(refused([](RunState& s) { s.learnt.features_square.pop_back(); }));
  EXPECT_TRUE(refused([](RunState& s) { s.learnt.classes_square[0] = -1; }));
  EXPECT_TRUE(refused([](RunState& s) { s.learnt.tables.layers = 1; }));
  options = options_of("adam", 1);
  options.epochs = 1, options.intercept = true;
  EXPECT_FALSE(refused([](RunState&) {}));
  EXPECT_TRUE(refused([](RunState& s) { s.moments.mean = Weights(); }));
  EXPECT_TRUE(refused([](RunState& s) { s.moments.square = Weights(5, 4, false); }));
  EXPECT_TRUE(refused([](RunState& s) { s.moments.mean.intercept()[0] = static_cast<float>(kInfinite); }));
  EXPECT_TRUE(refused([](RunState& s) { s.moments.square.intercept()[0] = -1; }));
  EXPECT_TRUE(refused([](RunState& s) { s.moments.square.set_class(1, std::vector<float>(4, -1.0F)); }));
  options = options_of("lbfgs", 1);
  options.epochs = 3, options.intercept = true;
  ASSERT_GT(run_epochs(made, options).lbfgs.pairs.count(), 0U);
  EXPECT_FALSE(refused([](RunState&) {}));
  EXPECT_TRUE(refused([](RunState& s) { s.lbfgs.gradient = Weights(); }));
  EXPECT_TRUE(refused([](RunState& s) { s.lbfgs.direction = Weights(5, 4, false); }));
  EXPECT_TRUE(refused([](RunState& s) { s.lbfgs.moves.pop_back(); }));
  EXPECT_TRUE(refused([](RunState& s) { s.lbfgs.moves.pop_back(), s.lbfgs.changes.pop_back(); }));
  EXPECT_TRUE(refused([](RunState& s) { s.lbfgs.changes[1] = Weights(5, 3, true); }));
  EXPECT_TRUE(refused([](RunState& s) { s.lbfgs.moves[0].intercept()[0] = static_cast<float>(kInfinite); }));
  EXPECT_TRUE(refused([](RunState& s) { s.lbfgs.pairs.used = s.lbfgs.pairs.rooms + 1; }));
  EXPECT_TRUE(refused([](RunState& s) { s.lbfgs.pairs.oldest = s.lbfgs.pairs.rooms; }));
  EXPECT_TRUE(refused([](RunState& s) { s.lbfgs.pairs.rooms = std::uint64_t{1} << 32; }));
  EXPECT_TRUE(refused([](RunState& s) { s.lbfgs.pairs.move_change[0] = 0; }));
  EXPECT_TRUE(refused([](RunState& s) { s.lbfgs.pairs.change_change.pop_back(); }));
  EXPECT_TRUE(refused([](RunState& s) { s.lbfgs.search.length = kInfinite; }));
}

// Clearing them ahead must not make a run of a few steps take the memory of a long one.
TEST(RunState, PagesAreClearedAheadIfStepsWillTouchThem) {
  const Dataset made = random_data({.rows = 400, .classes = 300, .features = 20000});
  const DataView data(made);
  Recipe options = options_of("prox", 16);
  options.draw = "blocks", options.epochs = 2;
  RunState state = make_state(data, options);
  ASSERT_GT(state.weights.bytes(), 10U << 21);
  EXPECT_TRUE(has_fresh_pages(state, data, options));
  Recipe few = options, none = options;
  few.steps = 20, none.epochs = 0;
  EXPECT_FALSE(has_fresh_pages(state, data, few));
  EXPECT_FALSE(has_fresh_pages(state, data, none));
  clear_fresh_pages(state, data, options, 2);
  EXPECT_TRUE(state.pages_cleared);
  EXPECT_FALSE(has_fresh_pages(state, data, options));
  StateBuffer bytes;
  write(state, bytes);
  RunState read_again = make_state(data, options);
  read(read_again, bytes);
  EXPECT_FALSE(has_fresh_pages(read_again, data, options));  // it would write over W
}

}  // namespace
}  // namespace truemax
