// Groups of rows: against steps of single rows from the same W, over 1 to 4 ranks, and at extreme numbers.
#include "train/group_lane.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "ranks/thread_ranks.hpp"
#include "train/all_classes_lane.hpp"
#include "train/general_lane.hpp"
#include "train/lane_test_support.hpp"
#include "train/step_inputs.hpp"
#include "train/test_support.hpp"
#include "train/trainer.hpp"

namespace truemax {
namespace {

Recipe group_options(const std::string& method, std::uint64_t group) {
  Recipe options;
  options.method = method, options.draw = "head-blocks", options.draws.head = 16;
  options.classes_per_step = 32;
  options.visit = Visit::shuffle, options.step = 1, options.epochs = 2, options.threads = 1;
  options.group = group;
  return options;
}

// Intercepts and ridge.
enum class Extra { none, intercept, ridge, ridge_and_intercept, all_in_ridge };
constexpr Extra kExtras[] = {Extra::none, Extra::intercept, Extra::ridge, Extra::ridge_and_intercept,
                             Extra::all_in_ridge};
void add(Extra extra, Recipe& options) {
  options.intercept =
      extra == Extra::intercept || extra == Extra::ridge_and_intercept || extra == Extra::all_in_ridge;
  options.start_at_frequencies = extra == Extra::intercept;
  if (extra != Extra::none && extra != Extra::intercept) options.ridge = 3;
  options.ridge_intercept = extra == Extra::all_in_ridge;
}

Dataset some_data(std::size_t rows = 240, std::size_t classes = 100) {
  Dataset data = random_data({.rows = rows, .classes = classes, .features = 40, .weights = true});
  std::vector<std::string> names;
  std::vector<double> counts;
  for (std::size_t k = 0; k < classes; ++k)
    names.push_back(std::to_string(k)), counts.push_back(1000.0 / static_cast<double>(k + 1));
  data.classes = std::make_shared<ClassList>(names, counts);
  return data;
}

// The weights of all classes in double, [classes][features + 1], the intercept last.
std::vector<double> numbers_of(const Weights& w) {
  std::vector<double> out;
  std::vector<float> of_class(w.features());
  for (ClassId k = 0; k < w.classes(); ++k) {
    w.copy_class(k, of_class);
    out.insert(out.end(), of_class.begin(), of_class.end());
    out.push_back(w.intercept_of(k));
  }
  return out;
}

void set_numbers(Weights& w, const std::vector<double>& from) {
  std::vector<float> of_class(w.features());
  for (ClassId k = 0; k < w.classes(); ++k) {
    const double* const at = &from[k * (w.features() + 1)];
    for (std::size_t f = 0; f < w.features(); ++f) of_class[f] = static_cast<float>(at[f]);
    w.set_class(k, of_class);
    if (w.has_intercept()) w.intercept()[k] = static_cast<float>(at[w.features()]);
  }
}

// The slow, obvious group: each row is a step of the lane in double from the W before the group, and what it
// adds to W before its ridge is added up.
class SlowGroups {
 public:
  SlowGroups(const DataView& data, const Recipe& options)
      : data_(data),
        options_(options),
        plan_(plan_of_single_rows(data, options)),
        draw_(draw_for(options, plan_.problem)),
        problem_(rule_problem(data, options)),
        rule_(make_rule(options.method, options.rule, problem_)),
        ridge_(data, options, problem_, draw_.get()),
        guard_("slow", options.step),
        setup_{data_, plan_, problem_, ridge_, guard_, *rule_, draw_.get()} {
    rule_->reserve(plan_.shape);
    if (draw_ == nullptr)
      lane_ = std::make_unique<AllClassesLane>(setup_);
    else
      lane_ = std::make_unique<GeneralLane>(setup_);
  }

  void epoch(RunState& state) {
    VisitOrder order(options_.visit, options_.seed, data_.size());
    order.start_epoch(state.epoch);
    const CounterRandom random(options_.seed, Stream::draw, state.epoch);
    const std::atomic<bool> stop{false};
    const double step = options_.step_at(state.epoch);
    for (std::uint64_t first = 0; first < data_.size(); first += options_.group) {
      const std::size_t count = std::min<std::size_t>(options_.group, data_.size() - first);
      const std::vector<double> before = numbers_of(state.weights);
      std::vector<double> now = before;
      std::vector<std::pair<ExampleId, double>> new_u;
      const std::vector<RowState> old_rows = state.rows;
      for (std::size_t t = 0; t < count; ++t) {
        set_numbers(state.weights, before);
        state.rows = old_rows;
        const Batch batch{order, random, first + t, 1, step, step / options_.step};
        lane_->start_epoch(state, stop, StepSchedule(options_, data_.size()));
        lane_->take(batch, state);
        std::vector<ExampleId> example(1);
        order.fill(first + t, example);
        new_u.emplace_back(example[0], state.row(example[0]).u);
        add_row(before, numbers_of(state.weights), factors(random, first + t, example[0], step), now);
      }
      set_numbers(state.weights, now);
      state.rows = old_rows;
      for (const auto& [example, u] : new_u) state.row(example).u = u;
    }
    ++state.epoch, state.step = 0;
  }

 private:
  static Plan plan_of_single_rows(const DataView& data, Recipe recipe) {
    recipe.group = 0;
    return planned(data, recipe);
  }

  // r of every class in the step of a row; 1 for classes that it does not move.
  std::vector<double> factors(const CounterRandom& random, std::uint64_t t, ExampleId i, double step) const {
    std::vector<double> r(data_.classes->size(), 1.0);
    if (!ridge_.on()) return r;
    const double strength = ridge_.strength(step, data_.weight(i));
    const auto shrink = [&](ClassId k) { r[k] = ridge_factor(strength, ridge_.beta(1)[k]); };
    if (draw_ == nullptr) {
      for (ClassId k = 0; k < r.size(); ++k) shrink(k);
      return r;
    }
    BlockBuffer drawn;
    drawn.shape(1, draw_->most_blocks());
    const std::vector<ClassId> label{data_.label(i)};
    draw_->fill_blocks(random, t, 1, label, {}, drawn);
    for (std::size_t b = 0; b < drawn.count[0]; ++b)
      for (std::size_t k = drawn.blocks[b] * kLanes; k < std::min(r.size(), (drawn.blocks[b] + 1) * kLanes);
           ++k)
        shrink(static_cast<ClassId>(k));
    return r;
  }

  void add_row(const std::vector<double>& before, const std::vector<double>& after,
               const std::vector<double>& r, std::vector<double>& now) const {
    const std::size_t width = before.size() / r.size();
    for (std::size_t i = 0; i < now.size(); ++i) {
      const bool intercept = i % width == width - 1;
      const double by = intercept && !options_.ridge_intercept ? 1 : r[i / width];
      now[i] = (now[i] + (after[i] * by - before[i])) / by;
    }
  }

  const DataView& data_;
  Recipe options_;
  Plan plan_;
  std::unique_ptr<Draw> draw_;
  ProblemInfo problem_;
  std::unique_ptr<AnyRule> rule_;
  Ridge ridge_;
  GrowthGuard guard_;
  LaneSetup setup_;
  std::unique_ptr<Lane> lane_;
};

struct Named {
  std::string method;
  std::uint64_t group;
};
class Groups : public testing::TestWithParam<Named> {};
INSTANTIATE_TEST_SUITE_P(Methods, Groups,
                         testing::Values(Named{"prox", 1}, Named{"prox", 7}, Named{"prox", 64},
                                         Named{"scent", 1}, Named{"scent", 7}, Named{"umax", 1},
                                         Named{"umax", 7}, Named{"exact", 1}, Named{"exact", 7}));

double step_of(const std::string& method) {
  return method == "prox" ? 1 : 0.1;
}

TEST_P(Groups, AreStepsOfSingleRowsFromTheSameWeights) {
  const Dataset made = some_data();
  const DataView data(made);
  for (const Extra extra : kExtras) {
    Recipe options = group_options(GetParam().method, GetParam().group);
    options.step = step_of(options.method), options.epochs = 1;
    add(extra, options);
    const RunState fast = run_epochs(data, options);
    RunState slow = make_state(data, options);
    Recipe ordinary = options;
    SlowGroups(data, ordinary).epoch(slow);
    const std::vector<double> expected = numbers_of(slow.weights), found = numbers_of(fast.weights);
    double largest = 0, worst = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      largest = std::max(largest, std::abs(expected[i]));
      worst = std::max(worst, std::abs(found[i] - expected[i]));
    }
    EXPECT_LT(worst, 1e-3 * largest) << static_cast<int>(extra);
    EXPECT_GT(largest, 0.01);
    for (std::size_t i = 0; i < fast.rows.size(); ++i)
      EXPECT_NEAR(fast.rows[i].u, slow.rows[i].u, 2e-3) << static_cast<int>(extra);
    const double a = evaluate(fast.weights, data, 1)->log_loss, b = evaluate(slow.weights, data, 1)->log_loss;
    EXPECT_NEAR(a, b, 1e-4 * b) << static_cast<int>(extra);
  }
}

// What all ranks must agree on.
struct Outcome {
  double train = 0, test = 0;
  std::vector<double> u;
};

Outcome outcome_of(const DataView& data, const DataView& test, const Recipe& options) {
  Fit fit(data, planned(data, options), make_state(data, options));
  const std::atomic<bool> stop{false};
  EXPECT_EQ(fit.run({}, stop), Fit::End::used_up) << fit.divergence();
  Outcome outcome;
  outcome.train = fit.evaluate({}, data, 1, &stop)->log_loss;
  outcome.test = fit.evaluate({}, test, 1, &stop)->log_loss;
  for (const RowState& row : fit.state().rows) outcome.u.push_back(row.u);
  return outcome;
}

void expect_near(const Outcome& found, const Outcome& expected, const std::string& what) {
  EXPECT_NEAR(found.train, expected.train, 1e-6 * expected.train) << what;
  EXPECT_NEAR(found.test, expected.test, 1e-6 * expected.test) << what;
}

class OverRanks : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Sizes, OverRanks, testing::Values(1, 2, 3, 4));

TEST_P(OverRanks, RunsEndWithTheSameLossesAsOneProcess) {
  const Dataset made = some_data();
  const Dataset other = some_data(60);
  const DataView data(made), test(other);
  for (const char* method : {"prox", "scent", "umax", "exact"})
    for (const Extra extra : kExtras)
      for (const std::uint64_t group : {3, 32}) {
        Recipe options = group_options(method, group);
        options.step = step_of(method);
        add(extra, options);
        const std::string what = fmt::format("{} {} {}", method, static_cast<int>(extra), group);
        const Outcome expected = outcome_of(data, test, options);
        run_thread_ranks(GetParam(), [&](Ranks& ranks) {
          const Outcome found = outcome_of(data, test, options);
          expect_near(found, expected, what);
          for (std::size_t i = 0; i < found.u.size(); ++i)
            EXPECT_NEAR(found.u[i], expected.u[i], 1e-4) << what;
          // One rank has the bits of the ordinary program; all have the same u.
          if (ranks.alone()) {
            EXPECT_EQ(found.u, expected.u) << what;
          }
          std::vector<double> of_first = found.u;
          ranks.broadcast(std::as_writable_bytes(std::span(of_first)), 0);
          EXPECT_EQ(found.u, of_first) << what;
        });
      }
}

TEST_P(OverRanks, SchedulesWeightsAndVisitsAreThoseOfOneProcess) {
  Dataset made = some_data();
  const Dataset other = some_data(60);
  const DataView data(made), test(other);
  for (const Visit visit : {Visit::random, Visit::file})
    for (const char* draw : {"blocks", "head-blocks"})
      for (const std::uint64_t head : {0, 48, 112}) {
        Recipe options = group_options("prox", 16);
        options.visit = visit, options.draw = draw, options.draws.head = head;
        options.schedule = Schedule::linear;
        const Outcome expected = outcome_of(data, test, options);
        run_thread_ranks(GetParam(), [&](Ranks& /*ranks*/) {
          expect_near(outcome_of(data, test, options), expected, fmt::format("{} {}", draw, head));
        });
      }
}

// More ranks than blocks: some own nothing.
TEST_P(OverRanks, MayHaveNoClassesOfTheirOwn) {
  const Dataset made = random_data({.rows = 100, .classes = 20});
  const DataView data(made);
  for (const char* method : {"prox", "scent", "umax", "exact"}) {
    Recipe options = group_options(method, 8);
    options.step = step_of(method), options.intercept = true, options.ridge = 1;
    const Outcome expected = outcome_of(data, data, options);
    run_thread_ranks(GetParam(), [&](Ranks& /*ranks*/) {
      expect_near(outcome_of(data, data, options), expected, method);
    });
  }
}

TEST_P(OverRanks, UmaxProjectsTheWholeOfW) {
  const Dataset made = some_data(60);
  const DataView data(made);
  Recipe options = group_options("umax", 8);
  options.step = 2, options.ridge = 40, options.intercept = true;
  const double bound = rule_problem(data, options).weight_bound();
  const auto norm = [](const Weights& w) {
    double sum = 0;
    for (ClassId k = 0; k < w.classes(); ++k) sum += w.squared_norm(k);
    return std::sqrt(ranks().sum_of(sum));
  };
  const double expected = norm(run_epochs(data, options).weights);
  EXPECT_LE(expected, bound * (1 + 1e-4));
  run_thread_ranks(GetParam(), [&](Ranks& /*ranks*/) {
    EXPECT_NEAR(norm(run_epochs(data, options).weights), expected, 1e-5 * expected);
  });
}

// Every row in double: scores and steps outside the range of the float32 solver.
TEST_P(OverRanks, StayFiniteAtAnyStep) {
  const Dataset made = some_data(60, 50);
  const DataView data(made);
  for (const char* method : {"prox", "scent", "umax", "exact"})
    for (const double step : {1e-300, 1e-30, 1e-8, 1e3, 1e9, 1e15})
      for (const bool more : {false, true}) {
        Recipe options = group_options(method, 16);
        options.step = step, options.epochs = 2;
        if (more) options.intercept = true, options.ridge = 10;
        run_thread_ranks(GetParam(), [&](Ranks& /*ranks*/) {
          Fit fit(data, planned(data, options), make_state(data, options));
          const std::atomic<bool> stop{false};
          const Fit::End end = fit.run({}, stop);
          // Only explicit steps may be so long that the run stops.
          if (options.method == "prox") {
            EXPECT_EQ(end, Fit::End::used_up) << fit.divergence();
          }
          EXPECT_TRUE(std::isfinite(fit.state().weights.largest())) << method << ' ' << step;
          for (const RowState& row : fit.state().rows) EXPECT_TRUE(std::isfinite(row.u)) << method;
          const double loss = fit.evaluate({}, data, 1, &stop)->log_loss;
          EXPECT_TRUE(std::isfinite(loss)) << method << ' ' << step;
        });
      }
}

TEST_P(OverRanks, ExtremeStepsAgreeWithOneProcess) {
  const Dataset made = some_data(60, 50);
  const DataView data(made);
  for (const double step : {1e-8, 1e6, 1e12}) {
    Recipe options = group_options("prox", 16);
    options.step = step, options.epochs = 1;
    const Outcome expected = outcome_of(data, data, options);
    run_thread_ranks(GetParam(), [&](Ranks& /*ranks*/) {
      const Outcome found = outcome_of(data, data, options);
      EXPECT_NEAR(found.train, expected.train, 1e-4 * expected.train) << step;
    });
  }
}

TEST_P(OverRanks, RunsResumedBetweenGroupsHaveTheSameBits) {
  const Dataset made = some_data();
  const DataView data(made);
  Recipe options = group_options("prox", 16);
  options.steps = 160;
  const std::atomic<bool> stop{false};
  run_thread_ranks(GetParam(), [&](Ranks& /*ranks*/) {
    Fit unbroken(data, planned(data, options), make_state(data, options));
    unbroken.run({}, stop);
    Recipe half = options;
    half.steps = 64;
    Fit first(data, planned(data, half), make_state(data, half));
    first.run({}, stop);
    EXPECT_EQ(first.state().step, 64U);
    Fit second(data, planned(data, options), std::move(first.state()));
    second.run({}, stop);
    EXPECT_EQ(bits_of(second.state()), bits_of(unbroken.state()));
  });
}

// Returns whether the run diverged.
bool expect_same_bits(const DataView& data, const Recipe& options, const std::string& what) {
  const Ended one = run_on<GroupLane>(data, options, 1);
  constexpr double kRounded = 1 + 1e-5;  // numbers in memory are float32
  EXPECT_LE(one.state.weights.largest(), kRounded * one.state.largest_weight) << what;
  for (const std::size_t threads : {2, 3, 5}) {
    const Ended several = run_on<GroupLane>(data, options, threads);
    const bool projects = options.method == "umax" && options.ridge > 0;
    EXPECT_EQ(several.threads, projects ? 1U : std::clamp<std::size_t>(options.group / 4, 1, threads));
    EXPECT_EQ(bits_of(one.state), bits_of(several.state)) << what << ' ' << threads;
    EXPECT_EQ(one.state.largest_weight, several.state.largest_weight) << what << ' ' << threads;
    EXPECT_EQ(one.divergence, several.divergence) << what << ' ' << threads;
  }
  return !one.divergence.empty();
}

// With a head and without, for the visits in which an example comes once or often, with row weights.
TEST(GroupThreads, HaveTheBitsOfOne) {
  const Dataset made = some_data(300, 300);
  const DataView data(made);
  for (const char* method : {"prox", "scent", "umax", "exact"})
    for (const char* draw : {"head-blocks", "blocks"})
      for (const Extra extra : kExtras)
        for (const Visit visit : {Visit::shuffle, Visit::random}) {
          Recipe options = group_options(method, 32);
          options.draw = draw, options.visit = visit, options.step = step_of(method);
          add(extra, options);
          expect_same_bits(
              data, options,
              fmt::format("{} {} {} {}", method, draw, static_cast<int>(extra), static_cast<int>(visit)));
        }
}

// Rows are dealt out by the speed of the threads in the batches before, which is another one in every run.
TEST(GroupThreads, HaveTheBitsOfOneWhenRowsChangeTheirThreads) {
  const Dataset made = some_data(300, 300);
  const DataView data(made);
  for (const Extra extra : kExtras) {
    Recipe options = group_options("prox", 32);
    options.draw = "head-blocks", options.epochs = 30;  // of at least one batch
    add(extra, options);
    expect_same_bits(data, options, fmt::format("{}", static_cast<int>(extra)));
  }
}

// So many rows that a thread shuffles those of the next epoch while it waits for others.
TEST(GroupThreads, HaveTheBitsOfOneWhenTheyShuffleMeanwhile) {
  const Dataset made = some_data(17000, 60);
  const DataView data(made);
  Recipe options = group_options("prox", 64);
  options.visit = Visit::shuffle, options.epochs = 3;
  expect_same_bits(data, options, "");
}

// Groups that do not divide the rows, also fewer rows than threads.
TEST(GroupThreads, TakeGroupsOfAnySize) {
  const Dataset made = some_data(253, 300);
  const DataView data(made);
  for (const std::uint64_t group : {1U, 3U, 4U, 9U, 21U, 64U, 252U, 253U})
    for (const double ridge : {0.0, 3.0}) {
      Recipe options = group_options("prox", group);
      options.ridge = ridge;
      expect_same_bits(data, options, fmt::format("{} {}", group, ridge));
    }
}

// A ridge so strong that scales are multiplied into memory in every group, and steps from tiny to huge, which
// float32 declines or which end the run.
TEST(GroupThreads, HaveTheBitsOfOneAtExtremes) {
  const Dataset made = some_data(120, 100);
  const DataView data(made);
  std::size_t diverged = 0;
  for (const char* method : {"prox", "scent", "exact"})
    for (const double ridge : {0.0, 3.0, 1e9})
      for (const double step : {1e-8, 1e6, 1e12, 1e30})
        for (const bool ridge_intercept : {false, true}) {
          Recipe options = group_options(method, 20);
          options.step = step, options.ridge = ridge, options.intercept = true;
          options.ridge_intercept = ridge_intercept && ridge > 0;
          diverged += expect_same_bits(data, options, fmt::format("{} {} {}", method, ridge, step)) ? 1 : 0;
        }
  EXPECT_GT(diverged, 0U);
}

// With one more row, which has no features.
Dataset with_empty_row(Dataset data) {
  const std::size_t rows = data.rows.rows();
  data.rows.begin.push_back(data.rows.index.size());
  data.label.push_back(3), data.label_set.push_back(3), data.weight.push_back(1);
  data.example_row.push_back(static_cast<RowId>(rows)), data.label_begin.push_back(data.label_set.size());
  return data;
}

// All threads share one block, and it has padding.
TEST(GroupThreads, ShareTheOnlyBlock) {
  const Dataset made = with_empty_row(some_data(120, 11));
  const DataView data(made);
  for (const char* method : {"prox", "exact"})
    for (const Extra extra : kExtras) {
      Recipe options = group_options(method, 20);
      add(extra, options);
      expect_same_bits(data, options, fmt::format("{} {}", method, static_cast<int>(extra)));
    }
}

TEST(GroupLane, RowsWithoutFeaturesAreSteps) {
  const Dataset made = with_empty_row(some_data(60, 50));
  const DataView data(made);
  for (const Extra extra : kExtras) {
    Recipe options = group_options("prox", 8);
    add(extra, options);
    EXPECT_TRUE(std::isfinite(outcome_of(data, data, options).train));
    expect_same_bits(data, options, fmt::format("{}", static_cast<int>(extra)));
  }
}

TEST(GroupLane, SaysWhatItCannotDo) {
  const Dataset made = some_data();
  const DataView data(made);
  const auto why = [&](auto change) {
    Recipe options = group_options("prox", 8);
    change(options);
    return GroupLane::why_not(Told(data, options).facts());
  };
  EXPECT_EQ(why([](Recipe&) {}), "");
  EXPECT_NE(why([](Recipe& o) { o.method = "implicit"; }).find("give --method prox"), std::string::npos);
  EXPECT_NE(why([](Recipe& o) { o.draw = "uniform"; }).find("give --draw blocks"), std::string::npos);
  EXPECT_NE(why([](Recipe& o) { o.method = "exact", o.rows_per_step = 5; }).find("--rows-per-step"),
            std::string::npos);
  EXPECT_NE(why([](Recipe& o) { o.newton = 5; }).find("--newton"), std::string::npos);
  Dataset large = some_data();
  for (float& v : large.rows.value) v *= 1e10F;
  EXPECT_NE(GroupLane::why_not(Told(large, group_options("prox", 8)).facts()).find("--normalize"),
            std::string::npos);
}

TEST(GroupLane, SaysWhichGroupsOvershoot) {
  const Dataset made = some_data();
  const DataView data(made);
  const auto words_of = [&](const Recipe& options) { return warn_of_groups(Told(data, options).facts()); };
  const auto words = [&](std::uint64_t group) { return words_of(group_options("prox", group)); };
  EXPECT_EQ(words(1), "");
  std::uint64_t safe = 1;
  while (words(2 * safe).empty()) safe *= 2;
  EXPECT_LT(safe, 240U);
  EXPECT_THAT(words(65536), testing::HasSubstr(fmt::format("up to --group {} is safe", safe)));
  Recipe without = group_options("prox", 0);
  EXPECT_EQ(words_of(without), "");
  Recipe learnt = group_options("prox", 65536);
  learnt.hidden = 8;
  EXPECT_EQ(words_of(learnt), "");
}

// Clocks and Ctrl-C wait for the end of a batch.
TEST(GroupLane, BatchesAreWholeGroupsAndShorterIfRowsCostMore) {
  const Dataset made = some_data(240, 20000);
  const DataView data(made);
  const auto steps = [&](const std::string& method, std::uint64_t group) {
    return planned(data, group_options(method, group)).steps_ahead;
  };
  const Recipe options = group_options("prox", 240);
  const auto draw = draw_for(options, facts_of(data));
  const double lines = data.nonzeros_per_row() * static_cast<double>(draw->most_blocks());
  const std::size_t most = steps("prox", 240);
  EXPECT_EQ(most % 240, 0U);
  EXPECT_LE(static_cast<double>(most) * lines, 1 << 18);
  EXPECT_GT(static_cast<double>(most + 240) * lines, 1 << 18);
  EXPECT_EQ(steps("exact", 240), 240U);
  const std::size_t short_groups = steps("exact", 2);
  EXPECT_EQ(short_groups % 2, 0U);
  EXPECT_LT(static_cast<double>(short_groups) * data.nonzeros_per_row() * 1250, 1 << 18);
}

TEST(GroupLane, ChoosesAPowerOfTwoForAnyRanks) {
  const Dataset made = some_data(20000);
  const DataView data(made);
  const Recipe options = group_options("prox", 0);
  const std::size_t rows = GroupLane::rows_of_group(Told(data, options).facts());
  EXPECT_GT(rows, 1U);
  EXPECT_LE(rows, 512U);
  EXPECT_EQ(rows & (rows - 1), 0U);
  for (const std::size_t size : {1, 2, 3})  // here, ranks are not on one machine
    run_thread_ranks(size,
                     [&](Ranks&) { EXPECT_EQ(GroupLane::rows_of_group(Told(data, options).facts()), rows); });
}

}  // namespace
}  // namespace truemax
