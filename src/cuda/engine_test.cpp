// The engine over the CPU's runtime: whole epochs, ridge, evaluation.
#include "cuda/engine.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "cuda/emulated_runtime.hpp"
#include "draw/alias.hpp"

namespace truemax::cuda {
namespace {

// Rows whose label is one of their features, so that there is something to learn.
struct Problem {
  explicit Problem(std::uint32_t n, std::uint32_t k) : classes(k) {
    std::mt19937_64 random(4);
    begin.push_back(0);
    for (std::uint32_t i = 0; i < n; ++i) {
      const auto y = static_cast<std::uint32_t>(random() % k);
      index.push_back(y), value.push_back(1);
      index.push_back(k + static_cast<std::uint32_t>(random() % 8)), value.push_back(0.5F);
      begin.push_back(index.size());
      label.push_back(y);
    }
    features = k + 8;
    const std::uint32_t blocks = (k + kBlock - 1) / kBlock;
    weight.assign(std::size_t{blocks} * features * kBlock, 0.0F);
    u.assign(n, std::log(k));
    norm.assign(n, 1.25F);
    const AliasTable table(std::vector<double>(blocks, 1.0 / blocks));
    for (const AliasTable::Cell& cell : table.cells()) cells.push_back({cell.keep, cell.other});
    over_mean.assign(blocks, static_cast<float>(blocks));
  }
  device::HostRows rows() const { return {begin, index, value}; }
  device::HostExamples examples() const { return {{}, label, {}}; }
  device::HostWeights weights() { return {weight, {}, classes, features}; }
  void upload(device::Engine& engine, const device::HostDraw& draw) {
    engine.set_weights(weights(), false);
    engine.set_rows(rows(), examples(), u, norm, draw);
  }
  double loss(device::Engine& engine) {
    const auto set = engine.add_rows(rows(), examples());
    const device::Pass pass = engine.pass(*set, 1);
    double sum = 0;
    for (std::size_t i = 0; i < label.size(); ++i)
      sum += pass.highest[i] - pass.label_score[i] + std::log(pass.excess[i]);
    return sum / static_cast<double>(label.size());
  }

  std::uint32_t classes, features = 0;
  std::vector<std::uint64_t> begin;
  std::vector<std::uint32_t> index, label;
  std::vector<float> value, weight, norm, over_mean;
  std::vector<double> u;
  std::vector<device::AliasCell> cells;
};

TEST(CudaEngine, LearnsAndForgets) {
  Problem problem(200, 50);
  EngineOver<EmulatedRuntime> engine(0);
  problem.upload(engine, {0, 1, problem.cells, problem.over_mean});
  EXPECT_NEAR(problem.loss(engine), std::log(50.0), 1e-5);
  device::Leg leg{.count = 200, .step = 4, .rho = 0.5, .most_growth = 1e30};
  for (std::uint64_t epoch = 0; epoch < 6; ++epoch) {
    leg.order_key = epoch, leg.draw_key = 100 + epoch;
    engine.take(leg);
    const device::LegReport report = engine.report();
    EXPECT_EQ(report.refused, 0U);
    EXPECT_GT(report.growth, 0);
  }
  const double learnt = problem.loss(engine);
  EXPECT_LT(learnt, 1);
  const double largest = engine.largest_weight();
  engine.download(problem.weights(), problem.u);
  float most = 0;
  for (const float w : problem.weight) most = std::max(most, std::abs(w));
  EXPECT_EQ(largest, static_cast<double>(most));
  for (const double u : problem.u) EXPECT_TRUE(u >= 0 && u < 5);
  // A ridge so strong that little is left.
  leg.decay = 0.05, leg.step = 1e-6;
  engine.take(leg);
  EXPECT_LT(engine.largest_weight(), largest * 1e-3);
  EXPECT_NEAR(problem.loss(engine), std::log(50.0), 0.05);
}

TEST(CudaEngine, HeadsOfManyBlocks) {
  for (const std::uint32_t head : {0U, 1U, 3U, 6U, 12U}) {
    Problem problem(120, 400);
    EngineOver<EmulatedRuntime> engine(0);
    std::vector<device::AliasCell> cells;
    const std::uint32_t tail = 25 - head;
    const AliasTable table(std::vector<double>(tail, 1.0 / tail));
    for (const AliasTable::Cell& cell : table.cells()) cells.push_back({cell.keep, cell.other});
    const std::vector<float> over_mean(tail, static_cast<float>(tail) / 3);
    problem.upload(engine, {head, 3, cells, over_mean});
    device::Leg leg{.count = 120, .step = 4, .rho = 0.5, .most_growth = 1e30};
    for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
      leg.order_key = epoch, leg.draw_key = epoch;
      engine.take(leg);
    }
    EXPECT_LT(problem.loss(engine), 3) << head;
  }
}

// Weights of few bits: the 16 bits of a pass hold them, and sums are exact.
TEST(CudaEngine, RowsFindTheBlocksOfTheirBestClasses) {
  for (const std::uint32_t classes : {17U, 40U, 333U})
    for (const std::uint32_t head : {0U, 1U})
      for (const std::uint32_t rivals : {1U, 4U, 6U}) {
        Problem problem(70, classes);
        // Rows of different lengths, and rows of several examples.
        std::mt19937_64 random(classes + head + rivals);
        problem.begin = {0}, problem.index.clear(), problem.value.clear();
        std::vector<std::uint32_t> row;
        for (std::uint32_t r = 0; row.size() < problem.label.size(); ++r) {
          for (std::uint64_t n = random() % 12; n > 0; --n) {
            problem.index.push_back(static_cast<std::uint32_t>(random() % problem.features));
            problem.value.push_back(static_cast<float>(random() % 7) - 3);
          }
          problem.begin.push_back(problem.index.size());
          for (std::uint64_t n = 1 + random() % 2; n > 0 && row.size() < problem.label.size(); --n)
            row.push_back(r);
        }
        for (float& w : problem.weight) w = static_cast<float>(random() % 129) / 64 - 1;
        std::vector<float> intercept(problem.weight.size() / problem.features);
        for (float& b : intercept) b = static_cast<float>(random() % 129) / 64 - 1;
        const std::uint32_t blocks = (classes + kBlock - 1) / kBlock;
        EngineOver<EmulatedRuntime> engine(0);
        engine.set_weights({problem.weight, intercept, classes, problem.features}, false);
        engine.set_rows(problem.rows(), {row, problem.label, {}}, problem.u, problem.norm,
                        {head, 1, problem.cells, problem.over_mean});
        std::vector<std::uint32_t> found(row.size() * rivals, device::kNoRival);
        engine.set_rivals(found, rivals);
        const std::uint32_t parts = 3;
        for (std::uint32_t part = 0; part < parts; ++part) engine.learn_rivals(part, parts);
        engine.download_rivals(found);
        for (std::size_t i = 0; i < row.size(); ++i) {
          const auto highest = [&](std::uint32_t b) {
            double top = -1e300;
            for (std::uint32_t k = b * kBlock; k < std::min(classes, (b + 1) * kBlock); ++k) {
              double z = static_cast<double>(intercept[k]);
              for (std::uint64_t j = problem.begin[row[i]]; j < problem.begin[row[i] + 1]; ++j)
                z += static_cast<double>(problem.value[j]) *
                     static_cast<double>(
                         problem.weight[(std::size_t{b} * problem.features + problem.index[j]) * kBlock +
                                        k % kBlock]);
              top = std::max(top, z);
            }
            return top;
          };
          std::vector<double> wanted;
          for (std::uint32_t b = head; b < blocks; ++b)
            if (b != problem.label[i] / kBlock) wanted.push_back(highest(b));
          std::sort(wanted.rbegin(), wanted.rend());
          for (std::uint32_t n = 0; n < rivals; ++n) {
            const std::uint32_t b = found[i * rivals + n];
            if (n >= wanted.size()) {
              ASSERT_EQ(b, device::kNoRival) << i << " " << n;
              continue;
            }
            ASSERT_TRUE(b >= head && b < blocks && b != problem.label[i] / kBlock)
                << i << " " << n << " " << b;
            ASSERT_EQ(highest(b), wanted[n]) << i << " " << n;
            for (std::uint32_t m = 0; m < n; ++m) ASSERT_NE(found[i * rivals + m], b);
          }
        }
      }
}

TEST(CudaEngine, EveryMethodAndOrderLearns) {
  using device::Method;
  for (const Method method : {Method::prox, Method::implicit, Method::scent, Method::umax, Method::exact})
    for (const device::Order order :
         {device::Order::shuffled, device::Order::random, device::Order::as_they_are}) {
      if (method != Method::prox && order != device::Order::shuffled) continue;
      Problem problem(160, 50);
      EngineOver<EmulatedRuntime> engine(0);
      problem.upload(engine, {0, 2, problem.cells, std::vector<float>(4, 2.0F)});
      const std::uint32_t rows = method == Method::exact ? 7 : 1;
      device::Leg leg{.method = method,
                      .order = order,
                      .rows_per_step = rows,
                      .count = (160 + rows - 1) / rows,
                      .step = method == Method::exact ? 14.0 : 2.0,
                      .rho = 0.5,
                      .most_growth = 1e30,
                      .most_u = 20};
      for (std::uint64_t epoch = 0; epoch < 5; ++epoch) {
        leg.order_key = epoch, leg.draw_key = epoch;
        engine.take(leg);
      }
      EXPECT_EQ(engine.report().refused, 0U);
      EXPECT_LT(problem.loss(engine), 2.5) << static_cast<int>(method) << " " << static_cast<int>(order);
    }
}

// The gradient of all rows at once, against plain loops.
TEST(CudaEngine, ExactIsTheGradient) {
  Problem problem(9, 37);
  EngineOver<EmulatedRuntime> engine(0);
  std::mt19937_64 random(2);
  for (float& w : problem.weight) w = static_cast<float>(random() % 1000) / 1000;
  for (std::uint32_t b = 0, k = 0; k < 48; ++k, b = k / kBlock)
    for (std::uint32_t f = 0; f < problem.features && k >= 37; ++f)
      problem.weight[(std::size_t{b} * problem.features + f) * kBlock + k % kBlock] = 0;
  std::vector<double> wanted(problem.weight.begin(), problem.weight.end());
  const auto at = [&](std::uint32_t k, std::uint32_t f) {
    return (std::size_t{k / kBlock} * problem.features + f) * kBlock + k % kBlock;
  };
  for (std::size_t i = 0; i < 9; ++i) {
    std::vector<double> z(37, 0.0);
    double sum = 0;
    for (std::uint32_t k = 0; k < 37; ++k) {
      for (std::uint64_t j = problem.begin[i]; j < problem.begin[i + 1]; ++j)
        z[k] += static_cast<double>(problem.value[j]) *
                static_cast<double>(problem.weight[at(k, problem.index[j])]);
      sum += std::exp(z[k]);
    }
    for (std::uint32_t k = 0; k < 37; ++k)
      for (std::uint64_t j = problem.begin[i]; j < problem.begin[i + 1]; ++j)
        wanted[at(k, problem.index[j])] += 3.0 / 9 *
                                           ((k == problem.label[i] ? 1 : 0) - std::exp(z[k]) / sum) *
                                           static_cast<double>(problem.value[j]);
  }
  problem.upload(engine, {});
  engine.take(
      {.method = device::Method::exact, .rows_per_step = 9, .count = 1, .step = 3, .most_growth = 1e30});
  engine.download(problem.weights(), problem.u);
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(problem.weight[i], wanted[i], 1e-5);
}

}  // namespace
}  // namespace truemax::cuda
