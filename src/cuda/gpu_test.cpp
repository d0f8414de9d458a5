// A real card beside the same engine on the CPU. Skipped by name where there is no GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "cuda/emulated_runtime.hpp"
#include "cuda/engine.hpp"
#include "device/open.hpp"
#include "draw/alias.hpp"

namespace truemax::cuda {
namespace {

// Rows with a common part, some of them long, whose label is one of their features.
struct Made {
  Made(std::uint32_t n, std::uint32_t k, std::uint32_t head_blocks) : classes(k), head(head_blocks) {
    std::mt19937_64 random(7);
    std::uniform_real_distribution<float> around(-1, 1);
    begin.push_back(0);
    for (std::uint32_t i = 0; i < n; ++i) {
      const auto y = static_cast<std::uint32_t>(random() % k);
      index.push_back(y), value.push_back(1);
      const std::uint64_t more = i % 50 == 0 ? 70 : random() % 6;
      for (std::uint64_t j = 0; j < more; ++j) {
        index.push_back(k + static_cast<std::uint32_t>(random() % kCommon));
        value.push_back(around(random) / 4);
      }
      begin.push_back(index.size());
      float square = 0;
      for (std::uint64_t j = begin[i]; j < begin[i + 1]; ++j) square += value[j] * value[j];
      norm.push_back(square + 1);
      label.push_back(y), u.push_back(std::log(k));
    }
    features = k + kCommon;
    const std::uint32_t blocks = (k + kBlock - 1) / kBlock, tail = blocks - head;
    weight.resize(std::size_t{blocks} * features * kBlock);
    for (float& w : weight) w = around(random) / 8;
    intercept.resize(std::size_t{blocks} * kBlock);
    for (float& w : intercept) w = around(random);
    const AliasTable table(std::vector<double>(tail, 1.0 / tail));
    for (const AliasTable::Cell& cell : table.cells()) cells.push_back({cell.keep, cell.other});
    over_mean.assign(tail, static_cast<float>(tail));
  }
  device::HostRows rows() const { return {begin, index, value}; }
  device::HostExamples examples() const { return {{}, label, {}}; }
  device::HostWeights weights() { return {weight, intercept, classes, features}; }
  void upload(device::Engine& engine) {
    engine.set_weights(weights(), false);
    engine.set_rows(rows(), examples(), u, norm, {head, 1, cells, over_mean});
  }
  double loss(device::Engine& engine) const {
    const auto set = engine.add_rows(rows(), examples());
    const device::Pass pass = engine.pass(*set, 1);
    double sum = 0;
    for (std::size_t i = 0; i < label.size(); ++i)
      sum += pass.highest[i] - pass.label_score[i] + std::log(pass.excess[i]);
    return sum / static_cast<double>(label.size());
  }

  static constexpr std::uint32_t kCommon = 40;
  std::uint32_t classes, head, features = 0;
  std::vector<std::uint64_t> begin;
  std::vector<std::uint32_t> index, label;
  std::vector<float> value, weight, intercept, norm, over_mean;
  std::vector<double> u;
  std::vector<device::AliasCell> cells;
};

class Gpu : public ::testing::Test {
 protected:
  void SetUp() override {
    const device::Found found = device::find();
    if (found.cards == 0) GTEST_SKIP() << "no GPU: " << found.missing;
    card_ = device::open({device::Kind::cuda, 0});
  }
  // Puts the same problem on both.
  void upload(Made& made) {
    made.upload(*card_);
    made.upload(cpu_);
  }
  std::unique_ptr<device::Engine> card_;
  EngineOver<EmulatedRuntime> cpu_{0};
};

TEST_F(Gpu, HasANameAndMemory) {
  EXPECT_FALSE(card_->card().name.empty());
  EXPECT_GT(card_->card().memory, 0U);
}

TEST_F(Gpu, PassIsThatOfTheCpu) {
  for (const std::uint32_t k : {3U, 17U, 400U}) {
    Made made(300, k, 0);
    upload(made);
    const std::uint32_t top = std::min(k, 5U);
    const auto there = card_->add_rows(made.rows(), made.examples());
    const auto here = cpu_.add_rows(made.rows(), made.examples());
    const device::Pass a = card_->pass(*there, top), b = cpu_.pass(*here, top);
    ASSERT_EQ(a.highest.size(), b.highest.size());
    for (std::size_t i = 0; i < b.highest.size(); ++i) {
      EXPECT_NEAR(a.highest[i] + std::log(a.excess[i]), b.highest[i] + std::log(b.excess[i]), 2e-6) << k;
      EXPECT_NEAR(a.label_score[i], b.label_score[i], 2e-6);
    }
    ASSERT_EQ(a.best_score.size(), b.best_score.size());
    for (std::size_t i = 0; i < b.best_score.size(); ++i)
      EXPECT_NEAR(a.best_score[i], b.best_score[i], 2e-6F);
  }
}

TEST_F(Gpu, OneStepIsThatOfTheCpu) {
  for (const device::Method method : {device::Method::prox, device::Method::implicit, device::Method::scent,
                                      device::Method::umax, device::Method::exact})
    for (const std::uint32_t head : {0U, 1U, 5U}) {
      Made made(60, 200, head);
      upload(made);
      for (std::uint64_t at = 0; at < 10; ++at) {
        const device::Leg leg{.method = method,
                              .first = at,
                              .count = 1,
                              .order_key = 3,
                              .draw_key = 4,
                              .step = 2,
                              .rho = 0.5,
                              .decay = 1e-4,

                              .most_growth = 1e30,
                              .most_u = 20};
        card_->take(leg);
        cpu_.take(leg);
        EXPECT_EQ(card_->report().refused, cpu_.report().refused);
      }
      Made there = made, here = made;
      card_->download(there.weights(), there.u);
      cpu_.download(here.weights(), here.u);
      for (std::size_t i = 0; i < here.weight.size(); ++i)
        ASSERT_NEAR(there.weight[i], here.weight[i], 2e-5F * std::max(1.0F, std::abs(here.weight[i])));
      for (std::size_t i = 0; i < here.intercept.size(); ++i)
        ASSERT_NEAR(there.intercept[i], here.intercept[i],
                    2e-5F * std::max(1.0F, std::abs(here.intercept[i])));
      for (std::size_t i = 0; i < here.u.size(); ++i)
        ASSERT_NEAR(there.u[i], here.u[i], 2e-5 * (1 + here.u[i]));
    }
}

// Steps of a card run side by side, so that epochs agree only in what they learn.
TEST_F(Gpu, EpochsLearnAsMuchAsOnTheCpu) {
  Made made(800, 160, 2);
  upload(made);
  for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
    const device::Leg leg{.count = 800,
                          .order_key = epoch,
                          .draw_key = 100 + epoch,
                          .step = 2,
                          .rho = 0.5,
                          .decay = 1e-6,
                          .most_growth = 1e30,
                          .beside = 32};
    card_->take(leg);
    cpu_.take(leg);
    EXPECT_EQ(card_->report().refused, 0U);
    EXPECT_EQ(cpu_.report().refused, 0U);
  }
  const double there = made.loss(*card_), here = made.loss(cpu_);
  EXPECT_LT(here, 2.5);
  EXPECT_NEAR(there, here, 0.1 * here + 0.02);
  EXPECT_TRUE(std::isfinite(card_->largest_weight()));
}

TEST_F(Gpu, RefusesWhatDoesNotFit) {
  Made made(10, 50, 0);
  std::vector<float> one(1);
  // More than any card has; nothing of it is read.
  const device::HostWeights much{{one.data(), std::size_t{1} << 45}, {}, 50, 10};
  EXPECT_THROW(card_->set_weights(much, false), UserError);
}

}  // namespace
}  // namespace truemax::cuda
