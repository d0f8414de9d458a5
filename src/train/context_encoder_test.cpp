// Encoders of plain text: forward against the formulas, gradients against differences, steps against the
// formulas, and whole runs.
#include <gtest/gtest.h>

#include <cmath>

#include "data/hold_out.hpp"
#include "data/text_set.hpp"
#include "train/encoder.hpp"
#include "train/evaluate_state.hpp"
#include "train/learnt_test_support.hpp"
#include "train/trainer.hpp"

namespace truemax {
namespace {

struct EncoderCase {
  const char* name;
  EncoderKind encoder;
  std::uint64_t layers;
  double dropout;
};
constexpr EncoderCase kEncoderCases[] = {{"log-bilinear", EncoderKind::context, 0, 0},
                                         {"cbow", EncoderKind::cbow, 0, 0},
                                         {"skip-gram", EncoderKind::skipgram, 0, 0},
                                         {"tanh", EncoderKind::context, 1, 0},
                                         {"tanh with dropout", EncoderKind::context, 1, 0.4}};

TEST(ContextEncoders, MakeTheRowsOfTheFormulas) {
  for (const EncoderCase& c : kEncoderCases) {
    if (c.dropout > 0) continue;
    SCOPED_TRACE(c.name);
    const Dataset made = random_text({.encoder = c.encoder});
    const DataView data(made);
    Recipe options = learnt_options(9, 5, 21);
    options.layers = c.layers;
    const RunState state = make_state(data, options);
    const EncoderTables& tables = state.learnt.tables;
    const std::size_t h = options.hidden, n = 9;
    std::vector<ExampleId> examples;
    for (std::uint32_t i = 0; i < n; ++i) examples.push_back(ExampleId{20 * i});
    Team team(2);
    const auto encoder = make_encoder(data, options);
    encoder->reserve(n, 0, data.space->features, team);
    StepRows rows(data, nullptr, h);
    rows.fill(state.learnt, examples, ranks());
    std::vector<float> x(n * h);
    encoder->forward(state.learnt, rows, x.data(), team);
    Csr scratch;
    const DataView encoded = data.encoded(make_row_encoder(data.space->encoder, tables));
    for (std::size_t i = 0; i < n; ++i) {
      const RowView words = data.x(examples[i]);
      const RowSlice slice = encoded.slice(number_of(data.row_of(examples[i])), 1, scratch);
      const bool mixes = mixes_places(c.encoder);
      for (std::size_t d = 0; d < h; ++d) {
        double sum = c.layers > 0 ? static_cast<double>(tables.mixing.row(tables.mixing.rows - 1)[d]) : 0;
        for (std::size_t p = 0; p < words.index.size(); ++p) {
          const float* const e = tables.features.row(words.index[p]);
          if (c.layers == 0)
            sum += static_cast<double>(e[d]) * (mixes ? static_cast<double>(tables.mixing.row(p)[d]) : 1.0);
          for (std::size_t j = 0; j < h && c.layers > 0; ++j)
            sum += static_cast<double>(e[j]) * static_cast<double>(tables.mixing.row(p * h + j)[d]);
        }
        const double wanted = c.layers > 0 ? std::tanh(sum) : sum;
        EXPECT_NEAR(static_cast<double>(x[i * h + d]), wanted, 1e-6);
        EXPECT_NEAR(static_cast<double>(slice.x().row(0).value[d]), wanted, 1e-6);
      }
    }
  }
}

// With squares of 1 that are kept, a step of rate 1 moves a parameter by its gradient.
TEST(ContextEncoders, HaveTheGradientsOfDifferences) {
  for (const EncoderCase& c : kEncoderCases) {
    SCOPED_TRACE(c.name);
    const Dataset made = random_text({.words = 40, .kinds = 6, .encoder = c.encoder});
    const DataView data(made);
    Recipe options = learnt_options(7, 5, 4);
    options.layers = c.layers, options.dropout = c.dropout;
    RunState state = make_state(data, options);
    LearntState& learnt = state.learnt;
    fill_normal(learnt.tables.features, 0.5, 5, 0, 1);
    std::fill(learnt.features_square.begin(), learnt.features_square.end(), 1.0F);
    std::fill(learnt.mixing_square.begin(), learnt.mixing_square.end(), 1.0F);
    const std::size_t h = options.hidden, n = 7;
    std::vector<ExampleId> examples;
    for (std::uint32_t i = 0; i < n; ++i) examples.push_back(ExampleId{5 * i});
    StepRows rows(data, nullptr, h);
    rows.fill(learnt, examples, ranks());
    Embedding slope(n, h);
    fill_normal(slope, 1, 8, 0, 1);
    // Gradients from elsewhere, of two vectors.
    const std::vector<std::uint32_t> others{2, 0};
    Embedding elsewhere(2, h);
    fill_normal(elsewhere, 1, 9, 0, 1);
    Team team(2);
    const auto encoder = make_encoder(data, options);
    encoder->reserve(n, 2, data.space->features, team);
    std::vector<float> x(n * h);
    const auto loss = [&] {
      encoder->forward(learnt, rows, x.data(), team);
      double sum = 0;
      for (std::size_t i = 0; i < x.size(); ++i)
        sum += static_cast<double>(x[i]) * static_cast<double>(slope.numbers[i]);
      for (std::size_t o = 0; o < others.size(); ++o)
        for (std::size_t d = 0; d < h; ++d)
          sum += static_cast<double>(elsewhere.row(o)[d]) *
                 static_cast<double>(learnt.tables.features.row(others[o])[d]);
      return sum;
    };
    std::vector<double> wanted;
    const bool fixed = c.encoder == EncoderKind::cbow;
    for (Embedding* table : {&learnt.tables.features, &learnt.tables.mixing})
      for (float& v : table->numbers) {
        if (fixed && table == &learnt.tables.mixing) continue;
        constexpr float kMove = 0.01F;
        const float before = v;
        v = before + kMove;
        const double up = loss();
        v = before - kMove;
        const double down = loss();
        v = before;
        wanted.push_back((up - down) / (2 * static_cast<double>(kMove)));
      }
    loss();
    const EncoderTables before = learnt.tables;
    std::vector<float> dx(slope.numbers.begin(), slope.numbers.end());
    encoder->backward(learnt, rows, dx.data(), {others, elsewhere.numbers.data()}, {1, 1, 0}, team);
    std::size_t at = 0;
    for (const auto& [now, then] : {std::pair(&learnt.tables.features, &before.features),
                                    std::pair(&learnt.tables.mixing, &before.mixing)})
      for (std::size_t i = 0; i < now->numbers.size(); ++i) {
        const double moved = static_cast<double>(then->numbers[i]) - static_cast<double>(now->numbers[i]);
        if (fixed && now == &learnt.tables.mixing)
          EXPECT_EQ(moved, 0);
        else
          EXPECT_NEAR(moved, wanted[at++], 2e-3);
      }
  }
}

TEST(ContextEncoders, TakeTheStepsOfTheFormulas) {
  for (const bool tied : {false, true})
    for (const double ridge : {0.0, 3.0}) {
      SCOPED_TRACE(testing::Message() << (tied ? "tied" : "separate") << " ridge " << ridge);
      const Dataset made = random_text({.kinds = 30});
      Recipe options = learnt_options(16, 8, 5);
      options.row_state = ridge > 0;
      options.tied = tied, options.ridge = ridge, options.epochs = 1;
      expect_the_steps_of_the_formulas(DataView(made), options);
    }
}

// Examples of a word share its scores and its normaliser; in random order they do not follow each other, and
// with few classes a word often has the same neighbour twice.
TEST(SkipGram, TakesTheStepsOfTheFormulas) {
  for (const Visit visit : {Visit::shuffle, Visit::file, Visit::random})
    for (const std::size_t kinds : {4U, 30U})
      for (const std::uint64_t drawn : {1U, 8U, 30U}) {
        SCOPED_TRACE(testing::Message() << kinds << " words, " << drawn << " drawn");
        const Dataset made = random_text({.words = 60, .kinds = kinds, .encoder = EncoderKind::skipgram});
        Recipe options = learnt_options(16, std::min<std::uint64_t>(drawn, kinds), 5);
        options.visit = visit, options.epochs = 1;
        expect_the_steps_of_the_formulas(DataView(made), options);
      }
}

// One class with nearly all of the probability: what is left without it must not be lost in rounding.
TEST(SkipGram, KeepsSmallProbabilitiesBesideALargeOne) {
  const Dataset made = random_text({.words = 60, .kinds = 6, .encoder = EncoderKind::skipgram});
  const DataView data(made);
  Recipe options = learnt_options(16, 6, 5);
  options.epochs = 1;
  RunState state = make_state(data, options);
  move_classes(state);
  state.learnt.intercept[0] = 30;
  state.largest_weight = 30;
  SlowLearnt slow(data, options, state);
  take_slow_epoch(data, options, slow);
  StepLoop loop(data, planned(data, options));
  const std::atomic<bool> stop{false};
  ASSERT_TRUE(loop.run(state, stop, {}));
  for (std::size_t r = 0; r < slow.u.size(); ++r)
    EXPECT_NEAR(state.rows[r].u, slow.u[r], 1e-3 * (1 + std::abs(slow.u[r])));
  for (std::size_t k = 0; k < slow.b.size(); ++k)
    EXPECT_NEAR(static_cast<double>(state.learnt.intercept[k]), slow.b[k], 1e-3 * (1 + std::abs(slow.b[k])));
}

TEST(ContextEncoders, HaveTheSameBitsForAnyNumberOfThreads) {
  for (const EncoderCase& c : kEncoderCases) {
    SCOPED_TRACE(c.name);
    const Dataset made = random_text({.words = 500, .kinds = 40, .encoder = c.encoder});
    const DataView data(made);
    Recipe options = learnt_options(64, 20, 17);
    options.layers = c.layers, options.dropout = 0.3, options.tied = c.layers > 0, options.ridge = 1;
    options.epochs = 2;
    const RunState one = run_epochs(data, options);
    for (const std::uint64_t threads : {2U, 5U}) {
      options.threads = threads;
      EXPECT_EQ(bits_of(run_epochs(data, options)), bits_of(one)) << threads << " threads";
    }
  }
}

TEST(ContextEncoders, LearnWhatFollowsWhat) {
  for (const EncoderCase& c : kEncoderCases) {
    SCOPED_TRACE(c.name);
    // Of the words around a word only its neighbours are easy to guess.
    const std::uint64_t context = c.encoder == EncoderKind::skipgram ? 1 : 3;
    const Dataset made = random_text({.words = 4000, .kinds = 20, .encoder = c.encoder, .context = context});
    const RowSplit split = set_aside(DataView(made), 0.2, 1);
    Recipe options = learnt_options(32, 20, 16);
    options.layers = c.layers, options.dropout = c.dropout, options.tied = c.layers > 0;
    options.epochs = 10, options.schedule = Schedule::linear;
    const RunState state = run_epochs(split.rest, options);
    const std::atomic<bool> stop{false};
    const auto learnt = evaluate({}, 1, state, split.valid, 1, &stop);
    EXPECT_LT(learnt->log_loss, 0.75 * evaluate_class_frequencies(split.valid).log_loss);
  }
}

TEST(ContextEncoders, StayFiniteOrStopAtAnyStep) {
  for (const EncoderCase& c : kEncoderCases)
    for (const double step : {1e-12, 1.0, 1e3, 1e8, 1e11, 1e12, 1e13, 1e15})
      for (const double ridge : {0.0, 1e15}) {
        SCOPED_TRACE(testing::Message() << c.name << " step " << step << " ridge " << ridge);
        const Dataset made = random_text({.encoder = c.encoder});
        const DataView data(made);
        Recipe options = learnt_options(16, 5);
        options.layers = c.layers, options.dropout = c.dropout, options.tied = c.layers > 0;
        options.step = step, options.ridge = ridge, options.epochs = 3;
        Fit fit(data, planned(data, options), make_state(data, options));
        const std::atomic<bool> stop{false};
        const Fit::End end = fit.run({}, stop);
        EXPECT_TRUE(end == Fit::End::used_up || end == Fit::End::diverged);
        const LearntState& learnt = fit.state().learnt;
        for (const Embedding* table : {&learnt.tables.features, &learnt.tables.mixing, &learnt.classes})
          for (const float v : table->numbers) ASSERT_TRUE(std::isfinite(v));
        const auto metrics = evaluate({}, 1, fit.state(), data, 1, &stop);
        ASSERT_TRUE(metrics && std::isfinite(metrics->log_loss));
      }
}

class TextRun : public testing::TestWithParam<EncoderKind> {};
INSTANTIATE_TEST_SUITE_P(Encoders, TextRun, testing::Values(EncoderKind::context, EncoderKind::skipgram));

TEST_P(TextRun, ResumesWithTheSameBits) {
  const Dataset made = random_text({.words = 300, .kinds = 20, .encoder = GetParam()});
  const DataView data(made);
  Recipe options = learnt_options(16, 8, 6);
  options.layers = GetParam() == EncoderKind::context ? 1 : 0, options.tied = options.layers > 0;
  options.dropout = 0.2, options.epochs = 4;
  const RunState whole = run_epochs(data, options);
  Recipe half = options;
  half.epochs = 2;
  RunState first = run_epochs(data, half), second;
  StateBuffer buffer;
  write(first, buffer);
  read(second, buffer);
  StepLoop loop(data, planned(data, options));
  const std::atomic<bool> stop{false};
  while (second.epoch < options.epochs) loop.run(second, stop, {});
  loop.publish(second);
  EXPECT_EQ(bits_of(second), bits_of(whole));
}

TEST(Dropout, KeepsItsShareAndTheMean) {
  Team team(3);
  constexpr std::size_t kRows = 200, kColumns = 100;
  for (const double rate : {0.1, 0.5, 0.95}) {
    Dropout dropout(rate, 1, 0);
    dropout.reserve(kRows, kColumns);
    std::vector<float> x(kRows * kColumns, 1.0F), again(x), other(x);
    dropout.draw(5, x.data(), kRows, kColumns, team);
    dropout.apply(again.data(), kRows, kColumns, team);
    EXPECT_EQ(x, again);
    dropout.draw(6, other.data(), kRows, kColumns, team);
    EXPECT_NE(x, other);
    double sum = 0;
    for (const float v : x) {
      EXPECT_TRUE(v == 0.0F || std::abs(static_cast<double>(v) - 1 / (1 - rate)) < 1e-5 / (1 - rate));
      sum += static_cast<double>(v);
    }
    const double n = kRows * kColumns;
    EXPECT_NEAR(sum / n, 1, 5 * std::sqrt(rate / (1 - rate) / n));
  }
}

}  // namespace
}  // namespace truemax
