// ComplEx: steps against the formulas in double, with gradients by differences; bits, extremes, whole runs.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>

#include "core/error.hpp"
#include "data/triples.hpp"
#include "train/evaluate_state.hpp"
#include "train/fit.hpp"
#include "train/learnt_lane.hpp"
#include "train/learnt_test_support.hpp"
#include "train/require.hpp"
#include "train/search.hpp"
#include "train/test_support.hpp"

namespace truemax {
namespace {

// The step as the formulas say it.
class SlowComplex {
 public:
  SlowComplex(const DataView& data, const Recipe& options, const RunState& from)
      : data_(data), options_(options), half_(options.hidden / 2) {
    const HugeVector<float>& numbers = from.learnt.tables.features.numbers;
    e.assign(numbers.begin(), numbers.end());
    square.assign(e.size(), 0);
    for (const RowState& row : from.rows) u.push_back(row.u);
  }

  std::complex<double> at(std::size_t vector, std::size_t c) const {
    return {e[2 * half_ * vector + c], e[2 * half_ * vector + half_ + c]};
  }
  double score(ExampleId i, ClassId k) const {
    std::complex<double> sum = 0;
    const RowView x = data_.x(i);
    for (std::size_t c = 0; c < half_; ++c)
      sum += at(x.index[0], c) * at(x.index[1], c) * std::conj(at(k, c));
    return sum.real();
  }
  double cubes(std::size_t vector) const {
    double sum = 0;
    for (std::size_t c = 0; c < half_; ++c) sum += std::pow(std::abs(at(vector, c)), 3);
    return sum;
  }
  double sum_of(ExampleId i, const std::vector<ClassId>& drawn, const std::vector<double>& weight) const {
    double sum = 0;
    for (std::size_t j = 0; j < drawn.size(); ++j)
      if (drawn[j] != data_.label(i))
        sum += weight[j] * std::exp(score(i, drawn[j]) - score(i, data_.label(i)));
    return sum;
  }
  // Of a step, at these u.
  double loss(const std::vector<ExampleId>& rows, const std::vector<ClassId>& drawn,
              const std::vector<double>& weight, const std::vector<double>& at_u) const {
    double sum = 0;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const RowView x = data_.x(rows[r]);
      sum += data_.weight(rows[r]) *
             (sum_of(rows[r], drawn, weight) * std::exp(-at_u[r]) +
              options_.ridge * (cubes(x.index[0]) + cubes(x.index[1]) + cubes(data_.label(rows[r]))));
    }
    return sum / static_cast<double>(rows.size());
  }

  void step(const std::vector<ExampleId>& rows, const std::vector<ClassId>& drawn,
            const std::vector<double>& weight, double rho) {
    constexpr double kKeep = 0.999, kMove = 1e-5;
    std::vector<double> new_u, normaliser;
    for (const ExampleId i : rows) {
      const double z = score(i, data_.label(i)), old = std::max(0.0, u[data_.input_of(i)] - z);
      new_u.push_back(
          std::max(0.0, std::log((std::exp(old) + rho * (1 + sum_of(i, drawn, weight))) / (1 + rho))));
      normaliser.push_back(new_u.back() + z);
    }
    std::vector<double> slope(e.size());
    for (std::size_t n = 0; n < e.size(); ++n) {
      const double before = e[n];
      e[n] = before + kMove;
      const double up = loss(rows, drawn, weight, new_u);
      e[n] = before - kMove;
      slope[n] = (up - loss(rows, drawn, weight, new_u)) / (2 * kMove);
      e[n] = before;
    }
    for (std::size_t r = 0; r < rows.size(); ++r) u[data_.input_of(rows[r])] = normaliser[r];
    std::vector<bool> used(e.size() / (2 * half_));
    for (const ExampleId i : rows)
      used[data_.label(i)] = used[data_.x(i).index[0]] = used[data_.x(i).index[1]] = true;
    for (const ClassId k : drawn) used[k] = true;
    ++updates_;
    const double rate = options_.step * std::sqrt(1 - std::pow(kKeep, updates_));
    for (std::size_t n = 0; n < e.size(); ++n) {
      if (!used[n / (2 * half_)]) continue;
      square[n] = kKeep * square[n] + (1 - kKeep) * slope[n] * slope[n];
      e[n] -= rate * slope[n] / (std::sqrt(square[n]) + 1e-8);
    }
  }

  std::vector<double> e, square;
  std::vector<double> u;  // by input: the log-normaliser

 private:
  const DataView& data_;
  const Recipe& options_;
  std::size_t half_;
  double updates_ = 0;
};

TEST(ComplexEncoder, TakesTheStepsOfTheFormulas) {
  struct Case {
    std::uint64_t rows, classes, hidden;
    const char* draw;
    double ridge;
    bool weights;
  };
  for (const Case& c : {Case{1, 3, 4, "frequency", 0, false}, Case{7, 6, 6, "frequency", 0.2, true},
                        Case{40, 15, 10, "all", 0.05, false}, Case{16, 9, 2, "uniform", 1, true}}) {
    SCOPED_TRACE(std::string(c.draw) + " rows " + std::to_string(c.rows));
    const DataView data = some_triples(20, 15, 3, c.weights);
    Recipe options = complex_options(c.rows, c.classes, c.hidden);
    options.draw = c.draw, options.ridge = c.ridge;
    RunState state = make_state(data, options);
    fill_normal(state.learnt.tables.features, 0.5, 3, 0, 1);
    SlowComplex slow(data, options, state);
    for_each_step(data, options, [&](const auto& rows, const auto& drawn, const auto& weights, double rho) {
      slow.step(rows, drawn, weights, rho);
    });
    StepLoop loop(data, planned(data, options));
    const std::atomic<bool> stop{false};
    ASSERT_TRUE(loop.run(state, stop, {}));
    // A step divides by the square root of squares: where those are tiny, rounding decides the direction.
    for (std::size_t n = 0; n < slow.e.size(); ++n) {
      if (std::sqrt(slow.square[n]) < 1e-5) continue;
      EXPECT_NEAR(static_cast<double>(state.learnt.tables.features.numbers[n]), slow.e[n], 2e-3) << n;
    }
    ASSERT_EQ(state.rows.size(), data.inputs());
    EXPECT_LT(data.inputs(), data.size());
    for (std::size_t r = 0; r < slow.u.size(); ++r) EXPECT_NEAR(state.rows[r].u, slow.u[r], 5e-3);
  }
}

TEST(ComplexEncoder, HasTheSameBitsForAnyNumberOfThreadsAndPublishesItsEntities) {
  const DataView data = some_triples(300, 40, 4, true);
  Recipe options = complex_options(64, 20, 34);
  options.epochs = 2;
  const RunState one = run_epochs(data, options);
  for (const std::uint64_t threads : {2U, 5U}) {
    options.threads = threads;
    EXPECT_EQ(bits_of(run_epochs(data, options)), bits_of(one)) << threads << " threads";
  }
  std::vector<float> of_class(options.hidden);
  for (ClassId k = 0; k < data.classes->size(); ++k) {
    one.weights.copy_class(k, of_class);
    EXPECT_TRUE(std::equal(of_class.begin(), of_class.end(), one.learnt.tables.features.row(k)));
  }
}

TEST(ComplexEncoder, ResumedAtAnyStepGivesTheSameBits) {
  const DataView data = some_triples(60, 12);
  Recipe options = complex_options(16, 8, 6);
  const std::atomic<bool> stop{false};
  const auto run_until = [&](std::uint64_t steps, RunState&& from) {
    options.epochs = 3, options.steps = steps;
    Fit fit(data, planned(data, options), std::move(from));
    EXPECT_EQ(fit.run({}, stop), Fit::End::used_up);
    return std::move(fit.state());
  };
  const RunState whole = run_until(20, make_state(data, options));
  for (const std::uint64_t at : {1U, 7U, 8U, 13U}) {
    StateBuffer bytes;
    write(run_until(at, make_state(data, options)), bytes);
    RunState state;
    read(state, bytes);
    EXPECT_EQ(bits_of(run_until(20, std::move(state))), bits_of(whole));
  }
}

TEST(ComplexEncoder, StaysFiniteOrStopsAtAnyStepAndPenalty) {
  const DataView data = some_triples(60);
  for (const double step : {1e-12, 0.01, 1.0, 1e3, 1e15})
    for (const double ridge : {0.0, 0.05, 1e6, 1e15})
      for (const double rho : {1e-12, 1.0}) {
        SCOPED_TRACE(testing::Message() << "step " << step << " ridge " << ridge << " rho " << rho);
        Recipe options = complex_options(8, 5, 6);
        options.step = step, options.ridge = ridge, options.rule.rho = rho, options.epochs = 3;
        Fit fit(data, planned(data, options), make_state(data, options));
        const std::atomic<bool> stop{false};
        const Fit::End end = fit.run({}, stop);
        EXPECT_TRUE(end == Fit::End::used_up || end == Fit::End::diverged);
        for (const float v : fit.state().learnt.tables.features.numbers) ASSERT_TRUE(std::isfinite(v));
        for (const RowState& row : fit.state().rows) ASSERT_TRUE(std::isfinite(row.u));
        const auto metrics = evaluate({}, 1, fit.state(), data, 1, &stop);
        ASSERT_TRUE(metrics && std::isfinite(metrics->log_loss));
      }
}

TEST(ComplexEncoder, LearnsWhatTheTailsDependOn) {
  const RawRows raw = raw_triples(900, 30, 4, false, 2);
  DataView data = make_triples_set(RawRows(raw), {}, "");
  RankingBuilder builder(data.classes, *data.space, nullptr);
  builder.add_test(raw_triples(200, 30, 4, false, 3));
  builder.add_known(data);
  Recipe options = complex_options(32, 30, 32);
  options.draw = "all", options.epochs = 40, options.schedule = Schedule::linear, options.ridge = 0.01;
  const RunState state = run_epochs(data, options);
  data.ranking = builder.finish();
  const std::atomic<bool> stop{false};
  const auto metrics = evaluate({}, 1, state, data, 1, &stop);
  EXPECT_LT(metrics->log_loss, 0.6 * std::log(30.0));
  ASSERT_TRUE(metrics->ranking);
  EXPECT_GT(metrics->ranking->mrr, 0.5);
}

TEST(ComplexEncoder, PenaltyShrinksTheVectors) {
  const DataView data = some_triples(300, 20);
  const auto size_with = [&](double ridge) {
    Recipe options = complex_options(32, 20, 8);
    options.epochs = 20, options.ridge = ridge;
    double sum = 0;
    for (const float v : run_epochs(data, options).learnt.tables.features.numbers)
      sum += std::abs(static_cast<double>(v));
    return sum;
  };
  EXPECT_LT(size_with(1), 0.7 * size_with(0));
}

TEST(ComplexOptions, OddNumbersAndInterceptsAreRefused) {
  const DataView data = some_triples(30);
  const Problem problem = facts_of(data);
  Recipe options = complex_options(8, 5, 6);
  EXPECT_NO_THROW(require_shape(options, problem));
  for (const std::uint64_t hidden : {0U, 7U}) {
    options.hidden = hidden;
    EXPECT_THROW(require_shape(options, problem), UserError);
  }
  options.hidden = 6, options.intercept = true;
  EXPECT_THROW(require_shape(options, problem), UserError);
}

TEST(ComplexOptions, PlainTriplesLearnVectorsAndAreNotComparedWithALinearModel) {
  const Reading reading = resolve_reading({}, {.encoder = EncoderKind::complex, .triples = true}, {});
  const Recipe& draft = reading.draft;
  EXPECT_EQ(draft.encoder, EncoderKind::complex);
  EXPECT_EQ(draft.hidden, 200U);
  EXPECT_TRUE(draft.learnt() && draft.sought.step && draft.sought.ridge && draft.sought.epochs);
  EXPECT_FALSE(reading.is_open("encoder") || draft.sought.encoder || draft.sought.hidden ||
               draft.sought.layers);
  EXPECT_FALSE(draft.intercept || draft.start_at_frequencies);
  const DataView data = some_triples(300);
  const Decided decided({}, data);
  const Recipe& options = decided.recipe;
  EXPECT_EQ(options.method, "scent");
  EXPECT_EQ(options.hidden, 200U);
  EXPECT_FALSE(options.sought.encoder || options.rival);
  EXPECT_NO_THROW(require_shape(options, decided.problem));
}

TEST(ComplexOptions, APartOfAGraphDecidesNothing) {
  const TrainSets sets{some_triples(16000)};
  Asked asked;
  asked.hidden = 1024, asked.epochs = 2000, asked.device = device::kCpu;
  const Decided before(asked, sets);
  EXPECT_TRUE(before.recipe.sought.ridge && before.recipe.sought.step);
  const Stopwatch watch;
  const std::atomic<bool> stop{false};
  const Found found = search(before.recipe, {sets, before.problem, before.machine, watch, {}, stop});
  EXPECT_TRUE(found.search.finished);
  EXPECT_EQ(found.search.trials, 0U);
  EXPECT_EQ(found.recipe.ridge, before.recipe.ridge);
  EXPECT_EQ(found.recipe.step, before.recipe.step);
}

TEST(ComplexOptions, EncodersOfOtherDataAreRefused) {
  const DataView data = some_triples(30);
  const Problem problem = facts_of(data);
  Recipe options = complex_options(8, 5, 6);
  for (const EncoderKind other : {EncoderKind::linear, EncoderKind::bag, EncoderKind::context}) {
    options.encoder = other;
    EXPECT_THROW(require_shape(options, problem), UserError);
  }
  options.encoder = EncoderKind::complex;
  EXPECT_NO_THROW(require_shape(options, problem));
  const Dataset rows = random_data({.rows = 40});
  EXPECT_THROW(require_shape(options, facts_of(rows)), UserError);
}

}  // namespace
}  // namespace truemax
