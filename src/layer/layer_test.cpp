#include "layer/layer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "core/counted_allocations.hpp"
#include "core/error.hpp"
#include "layer/layer_oracle.hpp"

namespace truemax {
namespace {

using ::testing::HasSubstr;
constexpr double kForever = std::numeric_limits<double>::infinity();

// Forward and backward with given classes.
struct Stepped {
  std::vector<float> loss, dx;
  LayerWork work;
};
Stepped step_with(TestLayer& layer, const TestBatch& batch, std::span<const ClassId> drawn,
                  std::span<const double> weights, double rho, double step, bool with_index) {
  Team team(2);
  Stepped out;
  out.loss.resize(batch.target.size());
  out.dx.resize(batch.x.size());
  LayerPass pass;
  pass.take_rows({layer.classes, layer.features, rho, false}, layer.arrays(), batch.batch(with_index), team);
  pass.score(layer.arrays(), drawn, weights, out.work, team);
  pass.losses(out.loss.data());
  if (pass.differentiate(layer.arrays(), batch.gradient.data(), step, out.dx.data(),
                         static_cast<std::ptrdiff_t>(batch.features), out.work, team))
    pass.move(layer.arrays(), step, out.work, team);
  return out;
}

template <class Number>
double largest_difference(const std::vector<Number>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    most = std::max(most, std::abs(static_cast<double>(a[i]) - b[i]));
  return most;
}

TEST(LayerPass, IsTheStepOfTheOracle) {
  constexpr std::size_t kClasses = 40;
  for (const std::size_t features : {1U, 7U, 64U})
    for (const bool bias : {false, true})
      for (const std::size_t m : {0U, 1U, 5U, 33U})
        for (const double rho : {0.05, 0.3, kForever}) {
          TestLayer layer(kClasses, features, 30, bias, 3, 0.7, 5);
          TestBatch batch(30, features, kClasses, 4);
          for (std::size_t i = 0; i < 20; ++i) layer.u[i] = static_cast<float>(i) / 4;
          batch.target[2] = batch.target[9] = -100;
          batch.target[5] = batch.target[6] = 3;
          batch.gradient[7] = -1, batch.gradient[8] = 0;
          std::vector<ClassId> drawn(m);
          std::vector<double> weights(m);
          for (std::size_t j = 0; j < m; ++j)
            drawn[j] = static_cast<ClassId>((7 * j + 3) % kClasses),
            weights[j] = 0.5 + static_cast<double>(j);
          const OracleStep wanted = oracle_step(layer, batch, drawn, weights, rho, 0.01);
          TestLayer moved = layer;
          const Stepped found = step_with(moved, batch, drawn, weights, rho, 0.01, true);
          EXPECT_LT(largest_difference(found.loss, wanted.loss), 2e-5);
          EXPECT_LT(largest_difference(found.dx, wanted.dx), 2e-4);
          for (std::size_t k = 0; k < kClasses; ++k) {
            for (std::size_t c = 0; c < features; ++c)
              ASSERT_NEAR(moved.w(k, c), wanted.weight[k * features + c], 2e-5);
            ASSERT_EQ(moved.moments[k].mean_weight > 0, wanted.touched[k]);
            if (bias && std::abs(wanted.of_b[k]) > 1e-4) {
              ASSERT_NEAR(moved.b(k) - layer.b(k), wanted.of_b[k] > 0 ? -0.01 : 0.01, 1e-5);
            }
          }
          for (std::size_t i = 0; i < 30; ++i) {
            const bool moves = batch.target[i] >= 0 && batch.gradient[i] != 0;
            const float& wanted_u = moves ? found.loss[i] : layer.u[i];
            ASSERT_EQ(std::memcmp(&moved.u[i], &wanted_u, sizeof(float)), 0) << "row " << i;
          }
        }
}

// Over many steps, each with other rows and classes: running means, and classes that come back after a while.
TEST(LayerPass, FollowsThePathOfTheOracle) {
  constexpr std::size_t kClasses = 30, kFeatures = 9;
  constexpr double kStep = 0.01;
  TestLayer layer(kClasses, kFeatures, 12, true, 3, 0.3);
  OraclePath path(layer);
  for (unsigned t = 0; t < 60; ++t) {
    TestBatch batch(12, kFeatures, 5, 100 + t);
    for (float& v : batch.x) v += 0.7F;
    std::vector<ClassId> drawn;
    for (ClassId k = t % 7; k < kClasses; k += 7 + k % 3) drawn.push_back(k);
    const std::vector<double> weights(drawn.size(), 4.0);
    path.take(oracle_step(layer, batch, drawn, weights, 0.1, kStep), batch, kStep);
    step_with(layer, batch, drawn, weights, 0.1, kStep, true);
    ++layer.counters[0];
  }
  for (std::size_t k = 0; k < kClasses; ++k) {
    for (std::size_t c = 0; c < kFeatures; ++c) ASSERT_NEAR(layer.w(k, c), path.w[k * kFeatures + c], 1e-4);
    ASSERT_NEAR(layer.b(k), path.b[k], 1e-4);
  }
}

// Step numbers turn around where float cannot count any more.
TEST(LayerPass, ManyStepsChangeNothingInTheirCount) {
  std::vector<TestLayer> ends;
  for (const std::int64_t start :
       {std::int64_t{1} << 20, std::int64_t{1} << 40, (std::int64_t{1} << 24) - 3}) {
    TestLayer layer(20, 5, 12, true, 3, 0.3);
    layer.counters[0] = start;
    for (unsigned t = 0; t < 8; ++t) {
      const TestBatch batch(12, 5, 5, 100 + t);
      const std::vector<ClassId> drawn{t % 3, 5 + t, 13 + t % 2};
      step_with(layer, batch, drawn, std::vector<double>(3, 4.0), 0.1, 0.01, true);
      ++layer.counters[0];
    }
    ends.push_back(std::move(layer));
  }
  EXPECT_EQ(ends[0].weight, ends[1].weight);
  EXPECT_EQ(ends[0].weight, ends[2].weight);
  EXPECT_EQ(ends[0].bias, ends[2].bias);
}

// With u at its optimum and a rho that leaves it there, the mean over all draws is the softmax gradient.
TEST(LayerPass, MeanGradientOverAllDrawsIsThatOfTheSoftmax) {
  constexpr std::size_t kClasses = 6, kFeatures = 3, kRows = 4;
  constexpr double kHardly = 1e-9;
  TestLayer layer(kClasses, kFeatures, kRows, true, 5);
  const TestBatch batch(kRows, kFeatures, kClasses, 6);
  std::vector<ClassId> all(kClasses);
  std::iota(all.begin(), all.end(), 0U);
  const std::vector<double> ones(kClasses, 1.0);
  const OracleStep exact = oracle_step(layer, batch, all, ones, kForever, 0);
  for (std::size_t i = 0; i < kRows; ++i) layer.u[i] = static_cast<float>(exact.loss[i]);
  std::vector<double> dx(kRows * kFeatures), of_w(kClasses * kFeatures);
  double draws = 0;
  for (ClassId a = 0; a < kClasses; ++a)
    for (ClassId b = a + 1; b < kClasses; ++b, ++draws) {
      const std::vector<ClassId> drawn{a, b};
      const std::vector<double> weights(2, kClasses / 2.0);
      TestLayer copy = layer;
      const Stepped found = step_with(copy, batch, drawn, weights, kHardly, 0, true);
      for (std::size_t i = 0; i < dx.size(); ++i) dx[i] += static_cast<double>(found.dx[i]);
      std::vector<ClassId> touched = drawn;
      for (const std::int64_t y : batch.target)
        if (std::find(touched.begin(), touched.end(), y) == touched.end())
          touched.push_back(static_cast<ClassId>(y));
      for (std::size_t j = 0; j < touched.size(); ++j)
        for (std::size_t c = 0; c < kFeatures; ++c)
          of_w[touched[j] * kFeatures + c] += static_cast<double>(found.work.gradient[j * kFeatures + c]);
    }
  for (double& v : dx) v /= draws;
  for (double& v : of_w) v /= draws;
  EXPECT_LT(largest_difference(dx, exact.dx), 1e-5);
  EXPECT_LT(largest_difference(of_w, exact.of_w), 1e-5);
}

LayerOptions options_of(const TestLayer& layer, std::size_t drawn, LayerDraw draw, std::size_t threads = 1) {
  LayerOptions o;
  o.classes = layer.classes, o.features = layer.features, o.drawn = drawn, o.draw = draw, o.threads = threads;
  if (draw == LayerDraw::counts)
    for (std::size_t k = 0; k < layer.classes; ++k) o.counts.push_back(static_cast<double>(k % 5));
  return o;
}

void train(Layer& native, TestLayer& layer, const TestBatch& batch, double step, std::vector<float>& dx) {
  std::vector<float> loss(batch.target.size());
  dx.resize(batch.x.size());
  auto pass = native.forward(layer.arrays(), batch.batch(true), loss.data());
  native.backward(layer.arrays(), *pass, batch.gradient.data(), step, dx.data(),
                  static_cast<std::ptrdiff_t>(batch.features));
  native.recycle(std::move(pass));
}

bool same_state(const TestLayer& a, const TestLayer& b) {
  const auto same = [](const auto& v, const auto& w) {
    return v.size() == w.size() && std::memcmp(v.data(), w.data(), v.size() * sizeof(v[0])) == 0;
  };
  return same(a.weight, b.weight) && same(a.bias, b.bias) && same(a.u, b.u) && same(a.moments, b.moments) &&
         same(a.columns, b.columns) && same(a.recent, b.recent) && same(a.recent_count, b.recent_count) &&
         a.counters == b.counters;
}

constexpr LayerDraw kDraws[] = {LayerDraw::uniform, LayerDraw::counts, LayerDraw::recent};

TEST(Layer, AllClassesGiveTheExactSoftmaxForEveryDraw) {
  for (const LayerDraw draw : kDraws) {
    TestLayer layer(23, 9, 50, true, 1);
    const TestBatch batch(50, 9, 23, 2);
    std::vector<ClassId> all(23);
    std::iota(all.begin(), all.end(), 0U);
    const OracleStep wanted = oracle_step(layer, batch, all, std::vector<double>(23, 1.0), kForever, 0.1);
    Layer native(options_of(layer, 23, draw));
    std::vector<float> loss(50), dx;
    native.forward(layer.arrays(), batch.batch(true), loss.data());
    EXPECT_LT(largest_difference(loss, wanted.loss), 1e-5);
    train(native, layer, batch, 0.1, dx);
    EXPECT_LT(largest_difference(dx, wanted.dx), 1e-5);
  }
}

TEST(Layer, ForwardChangesNothingAndBackwardIsOneStep) {
  for (const LayerDraw draw : kDraws) {
    TestLayer layer(300, 8, 40, true, 1);
    const TestBatch batch(40, 8, 300, 2);
    Layer native(options_of(layer, 20, draw));
    const TestLayer before = layer;
    std::vector<float> first(40), second(40);
    auto pass = native.forward(layer.arrays(), batch.batch(true), first.data());
    native.forward(layer.arrays(), batch.batch(true), second.data());
    EXPECT_EQ(first, second);
    EXPECT_TRUE(same_state(layer, before));
    native.backward(layer.arrays(), *pass, batch.gradient.data(), 0.01, nullptr, 0);
    EXPECT_FALSE(same_state(layer, before));
    EXPECT_EQ(layer.counters[0], 1);
    EXPECT_EQ(layer.counters[1], draw == LayerDraw::recent ? 40 : 0);
    const TestLayer after = layer;
    EXPECT_THROW(native.backward(layer.arrays(), *pass, batch.gradient.data(), 0.01, nullptr, 0), UserError);
    EXPECT_TRUE(same_state(layer, after));
    native.forward(layer.arrays(), batch.batch(true), second.data());
    EXPECT_NE(first, second);
  }
}

TEST(Layer, SameBitsForAnyNumberOfThreadsAndAfterARestart) {
  for (const LayerDraw draw : kDraws) {
    TestLayer wanted(500, 33, 200, true, 1);
    TestBatch batch(200, 33, 500, 2);
    std::vector<float> dx, other;
    Layer one(options_of(wanted, 50, draw));
    TestLayer start = wanted;
    for (int t = 0; t < 6; ++t) train(one, wanted, batch, 0.01, dx);
    for (const std::size_t threads : {1U, 2U, 3U}) {
      TestLayer layer = start;
      for (int t = 0; t < 6; ++t) {  // nothing but the arrays lasts from step to step
        Layer native(options_of(layer, 50, draw, threads));
        train(native, layer, batch, 0.01, other);
      }
      EXPECT_TRUE(same_state(layer, wanted));
      EXPECT_EQ(other, dx);
    }
  }
}

TEST(Layer, ACommonFactorOfTheGradientScalesOnlyDx) {
  TestLayer a(100, 8, 40, true, 1), b = a;
  TestBatch batch(40, 8, 100, 2);
  Layer native(options_of(a, 10, LayerDraw::uniform));
  std::vector<float> dx, scaled;
  train(native, a, batch, 0.01, dx);
  for (float& g : batch.gradient) g *= 1024;
  train(native, b, batch, 0.01, scaled);
  EXPECT_TRUE(same_state(a, b));
  for (float& v : dx) v *= 1024;
  EXPECT_EQ(dx, scaled);
}

TEST(Layer, WithoutRowsThatCountNothingMoves) {
  TestLayer layer(100, 8, 40, true, 1);
  const TestLayer before = layer;
  TestBatch batch(40, 8, 100, 2);
  Layer native(options_of(layer, 10, LayerDraw::recent));
  std::vector<float> dx(40 * 8, 7.0F);
  batch.gradient.assign(40, 0.0F);
  train(native, layer, batch, 0.01, dx);
  EXPECT_EQ(dx, std::vector<float>(40 * 8, 0.0F));
  batch.gradient.assign(40, 1.0F);
  batch.target.assign(40, -100);
  train(native, layer, batch, 0.01, dx);
  EXPECT_EQ(dx, std::vector<float>(40 * 8, 0.0F));
  const TestBatch none(0, 8, 100, 2);
  train(native, layer, none, 0.01, dx);
  EXPECT_TRUE(same_state(layer, before));
}

// Whatever finite numbers come: a step leaves finite numbers, or is refused and changes nothing.
TEST(Layer, StaysFiniteAtAnyStepAndScale) {
  int taken = 0, refused = 0;
  for (const double step : {1e-8, 1.0, 1e8, 1e13, 1e300})
    for (const double x_scale : {0.0, 1e-38, 1e-3, 1e6, 1e14, 1e30})
      for (const double w_scale : {0.0, 1e-38, 1.0, 1e14, 1e37})
        for (const double rho : {1e-9, 0.3, kForever}) {
          TestLayer layer(30, 5, 20, true, 1, w_scale);
          const TestBatch batch(20, 5, 30, 2, x_scale);
          LayerOptions options = options_of(layer, 8, LayerDraw::recent);
          options.rho = rho;
          Layer native(options);
          std::vector<float> dx;
          for (int t = 0; t < 4; ++t) {
            const TestLayer before = layer;
            try {
              train(native, layer, batch, step, dx);
              ++taken;
            } catch (const UserError&) {
              ++refused;
              ASSERT_TRUE(same_state(layer, before));
            } catch (const DivergenceError&) {
              ++refused;
              ASSERT_TRUE(same_state(layer, before));
            }
            for (const float w : layer.weight) ASSERT_TRUE(std::isfinite(w));
            for (const float b : layer.bias) ASSERT_TRUE(std::isfinite(b));
            for (const float u : layer.u) ASSERT_FALSE(std::isinf(u));
            for (const ClassMoments& m : layer.moments)
              ASSERT_TRUE(std::isfinite(m.square + m.bias_square + m.along + m.bias_mean));
            for (const float v : dx) ASSERT_TRUE(std::isfinite(v));
          }
        }
  EXPECT_GT(taken, 100);
  EXPECT_GT(refused, 100);
}

TEST(Layer, AStepTakesNoMemoryOnceItsBuffersAreThere) {
  for (const LayerDraw draw : kDraws) {
    TestLayer layer(5000, 16, 128, true, 1);
    const TestBatch batch(128, 16, 5000, 2);
    Layer native(options_of(layer, 256, draw, 2));
    std::vector<float> loss(128), dx(128 * 16);
    const auto step = [&] {
      auto pass = native.forward(layer.arrays(), batch.batch(true), loss.data());
      native.backward(layer.arrays(), *pass, batch.gradient.data(), 0.01, dx.data(), 16);
      native.recycle(std::move(pass));
    };
    for (int t = 0; t < 20; ++t) step();
    EXPECT_EQ(allocations_of([&] {
                for (int t = 0; t < 5; ++t) step();
              }),
              0U);
  }
}

template <class Error>
void expect_refused(Layer& native, TestLayer& layer, const TestBatch& batch, const char* words) {
  std::vector<float> dx;
  const TestLayer before = layer;
  try {
    train(native, layer, batch, 0.01, dx);
    ADD_FAILURE() << "not refused: " << words;
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr(words));
  }
  EXPECT_TRUE(same_state(layer, before));
}

TEST(Layer, RefusesWhatItCannotUseAndSaysWhere) {
  TestLayer layer(10, 3, 20, true, 1);
  const TestBatch good(20, 3, 10, 2);
  Layer native(options_of(layer, 4, LayerDraw::uniform));
  TestBatch bad = good;
  bad.target[4] = 10;
  expect_refused<UserError>(native, layer, bad, "target is 10 in row 4; give a class from 0 to 9");
  bad = good, bad.target[0] = -1;
  expect_refused<UserError>(native, layer, bad, "target is -1 in row 0");
  bad = good, bad.index[7] = 20;
  expect_refused<UserError>(native, layer, bad, "index is 20 in row 7; the layer has 20 rows");
  bad = good, bad.x[3 * 6 + 1] = NAN;
  expect_refused<UserError>(native, layer, bad, "x is NaN in row 6, column 1; it must be finite");
  bad = good, bad.x[3 * 19 + 2] = -INFINITY;
  expect_refused<UserError>(native, layer, bad, "x is infinite in row 19, column 2");
  bad = good, bad.x[0] = 1e20F;
  expect_refused<UserError>(native, layer, bad, "x is 1e+20 in row 0, column 0; scale it");
  bad = good, bad.gradient[3] = NAN;
  expect_refused<UserError>(native, layer, bad, "the gradient of the loss is nan in row 3");
  TestLayer broken = layer;
  std::fill(broken.weight.begin(), broken.weight.end(), NAN);
  expect_refused<UserError>(native, broken, good, "are not finite");
  broken = layer;
  std::fill(broken.bias.begin(), broken.bias.end(), 1e20F);
  expect_refused<DivergenceError>(native, broken, good, "have grown to 1e+20");
  for (auto change :
       {+[](LayerOptions& o) { o.classes = 0; }, +[](LayerOptions& o) { o.features = 0; },
        +[](LayerOptions& o) { o.drawn = 0; }, +[](LayerOptions& o) { o.rho = 0; },
        +[](LayerOptions& o) { o.rho = NAN; }, +[](LayerOptions& o) { o.draw = LayerDraw::counts; },
        +[](LayerOptions& o) {
          o.draw = LayerDraw::counts;
          o.counts.assign(o.classes, -1.0);
        }}) {
    LayerOptions options = options_of(layer, 4, LayerDraw::uniform);
    change(options);
    EXPECT_THROW(Layer{options}, UserError);
  }
}

}  // namespace
}  // namespace truemax
