// The contract of rules that take whole blocks of classes in float32 (BlockRule), which `--method auto` runs.
// Each block step matches the rule's own step in double to float32 accuracy, with ridge and with the
// intercept inside or outside it, for every option; or it is declined and leaves u unchanged.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "rule/methods.hpp"
#include "rule/test_support.hpp"

namespace truemax {
namespace {

constexpr std::size_t kLanes = kProxLanes;

// One row and its blocks, the label's included, and the same step as columns for step(), label last.
struct BlockInput {
  std::vector<double> score, weight, ridge, intercept;  // score: [blocks][16]; the rest: [blocks]
  std::size_t label = 0, absent = 0;                    // label: a lane; absent: padding lanes at the end
  double squared_norm = 1, e = 1, u = 0, decayed = 1;
  bool has_ridge = false, free_intercept = false;

  std::size_t lanes() const { return score.size() - absent; }
  double ridge_of(std::size_t lane) const { return has_ridge ? ridge[lane / kLanes] : 1; }

  StepInput columns() const {
    StepInput in;
    std::vector<std::size_t> order;
    for (std::size_t k = 0; k < lanes(); ++k)
      if (k != label) order.push_back(k);
    order.push_back(label);
    in.columns = order.size(), in.label = {static_cast<std::uint32_t>(order.size() - 1)};
    for (const std::size_t k : order) {
      in.score.push_back(score[k]);
      in.weight.push_back(k == label ? 0 : weight[k / kLanes]);
      if (has_ridge) in.ridge.push_back(ridge_of(k));
      if (free_intercept) in.free_intercept.push_back(intercept[k]);
    }
    in.gram = {squared_norm}, in.row_weight = {1}, in.u = {u}, in.step = e, in.decayed = decayed;
    in.log_q.assign(in.columns, 0.0);
    return in;
  }
};

struct BlockAnswer {
  bool taken = false;
  double u = 0, label_coefficient = 0;
  std::vector<float> c;  // [blocks][16]; the label's is not written
};

// The input the trainer would pass: scores after the ridge shrank the weights, |x|^2 by block.
template <class R>
BlockAnswer take_blocks(const R& rule, const BlockInput& in, bool complete = false) {
  std::vector<float> score(in.score.size());
  std::vector<double> norm(in.weight.size());
  for (std::size_t b = 0; b < norm.size(); ++b) {
    const double r = in.ridge_of(b * kLanes);
    norm[b] = in.free_intercept ? (in.squared_norm - 1) / r + 1 : in.squared_norm / r;
  }
  for (std::size_t k = 0; k < score.size(); ++k) {
    const double outside = in.free_intercept ? in.intercept[k] : 0;
    score[k] = static_cast<float>((in.score[k] - outside) / in.ridge_of(k) + outside);
  }
  BlockAnswer out;
  out.c.assign(score.size(), 77.0F);
  BlockStepView blocks;
  blocks.decayed = in.decayed, blocks.complete = complete;
  blocks.e = in.e, blocks.u = in.u, blocks.blocks = norm.size();
  blocks.label_score = static_cast<double>(score[in.label]), blocks.label_norm = norm[in.label / kLanes];
  score[in.label] = kNoScore;
  for (std::size_t k = in.lanes(); k < score.size(); ++k) score[k] = kNoScore;
  blocks.score = score.data(), blocks.norm = norm.data(), blocks.weight = in.weight.data();
  blocks.coefficient = out.c.data();
  out.taken = rule.step_blocks(blocks);
  out.u = blocks.u, out.label_coefficient = blocks.label_coefficient;
  return out;
}

std::vector<BlockInput> random_blocks(std::size_t count, Ridge ridge, double decades, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> sym(-1, 1), unit(0, 1);
  std::vector<BlockInput> list(count);
  for (BlockInput& in : list) {
    const std::size_t blocks = 1 + random() % 5;
    in.has_ridge = ridge != Ridge::none, in.free_intercept = ridge == Ridge::without_intercept;
    in.squared_norm = std::pow(10.0, decades * sym(random)) + (in.free_intercept ? 1 : 0);
    in.e = std::pow(10.0, decades * sym(random));
    in.u = 8 * unit(random), in.decayed = 0.05 + 0.95 * unit(random);
    in.absent = blocks > 1 ? random() % kLanes : 0;
    for (std::size_t b = 0; b < blocks; ++b) {
      in.weight.push_back(b == 0 ? 1 : std::pow(10.0, 3 * unit(random)));
      in.ridge.push_back(1 + std::pow(10.0, decades * sym(random)));
    }
    in.label = random() % kLanes;  // of the first block, whose weight is 1
    for (std::size_t k = 0; k < blocks * kLanes; ++k) {
      in.score.push_back(static_cast<double>(static_cast<float>(5 * sym(random))));
      in.intercept.push_back(static_cast<double>(static_cast<float>(sym(random))));
    }
  }
  return list;
}

template <class Visit>
std::size_t for_each_block_rule(Visit&& visit) {
  std::size_t seen = 0;
  for_each_method([&]<class R>() {
    if constexpr (BlockRule<R>) {
      ++seen;
      visit.template operator()<R>();
    }
  });
  return seen;
}

// solve/prox_blocks.hpp promises a relative error of 2e-4 for coefficients and 1e-4 for u; rounding the
// scores to float32 after the ridge adds to that.
TEST(EveryBlockRule, MatchesTheStepInDouble) {
  const std::size_t seen = for_each_block_rule([]<class R>() {
    for (const RuleOptions& options : options_to_try(R::kInfo))
      for (const Ridge ridge : kRidges) {
        R rule(options, no_ridge());
        std::size_t taken = 0, all = 0;
        for (const BlockInput& in : random_blocks(400, ridge, 1, 3)) {
          ++all;
          const BlockAnswer got = take_blocks(rule, in);
          if (!got.taken) continue;
          ++taken;
          const StepAnswer wanted = take(rule, in.columns());
          EXPECT_NEAR(got.u, wanted.u[0], 1e-4 * (1 + std::abs(wanted.u[0])));
          EXPECT_NEAR(got.label_coefficient, wanted.c.back(), 3e-4 * wanted.c.back() + 1e-30);
          for (std::size_t k = 0, column = 0; k < in.lanes(); ++k) {
            if (k == in.label) continue;
            const double c = wanted.c[column++];
            ASSERT_NEAR(static_cast<double>(got.c[k]), c, 3e-4 * std::abs(c) + 1e-30)
                << "ridge " << static_cast<int>(ridge) << " rho " << options.rho << " lane " << k;
          }
        }
        EXPECT_GT(taken, all * 9 / 10) << static_cast<int>(ridge) << " rho " << options.rho;
      }
  });
  EXPECT_GT(seen, 0U);
}

// A declined step is retried in double and must find the old u.
TEST(EveryBlockRule, IsFiniteOrDeclinesWithoutChangingU) {
  for_each_block_rule([]<class R>() {
    std::size_t taken = 0, declined = 0;
    for (const RuleOptions& options : options_to_try(R::kInfo, true))
      for (const Ridge ridge : kRidges)
        for (const bool complete : {false, true}) {
          R rule(options, no_ridge());
          std::vector<BlockInput> list = random_blocks(300, ridge, 12, 5);
          for (const double gap : {-1e6, -800.0, 0.0, 80.0, 800.0, 1e6})
            for (BlockInput in : random_blocks(50, ridge, 6, 6)) {
              for (std::size_t k = 0; k < in.score.size(); ++k)
                if (k != in.label) in.score[k] += gap;
              list.push_back(in);
            }
          for (const BlockInput& in : list) {
            const BlockAnswer got = take_blocks(rule, in, complete);
            if (got.taken) {
              ++taken;
              ASSERT_TRUE(std::isfinite(got.u) && got.u >= 0);
              ASSERT_TRUE(std::isfinite(got.label_coefficient) && got.label_coefficient >= 0);
              for (const float c : got.c) ASSERT_TRUE(std::isfinite(c) && c <= 0);
            } else {
              ++declined;
              ASSERT_EQ(got.u, in.u);
              ASSERT_EQ(got.label_coefficient, 0);
            }
          }
        }
    EXPECT_GT(taken, 1000U) << R::kInfo.name;
    EXPECT_GT(declined, 1000U) << R::kInfo.name;
  });
}

TEST(EveryBlockRule, SameInputGivesTheSameBits) {
  for_each_block_rule([]<class R>() {
    for (const RuleOptions& options : options_to_try(R::kInfo))
      for (const Ridge ridge : kRidges) {
        R one(options, no_ridge()), other(options, no_ridge());
        for (const BlockInput& in : random_blocks(100, ridge, 3, 8)) {
          const BlockAnswer first = take_blocks(one, in), second = take_blocks(other, in);
          ASSERT_EQ(first.taken, second.taken);
          ASSERT_EQ(first.u, second.u);
          ASSERT_EQ(first.c, second.c);
        }
      }
  });
}

// The label's block with weight 1, and one of two others with weight 2: averaged over both draws, a small
// step follows the gradient of the double sum in the scores. Ridge factors are close to 1, as in the trainer.
TEST(EveryBlockRule, MeanStepFollowsTheDoubleSum) {
  for_each_block_rule([]<class R>() {
    static_assert(R::kInfo.objective == Objective::double_sum);
    RuleOptions options;
    options.rho = 1e-5;  // W's step uses nearly the old u
    R rule(options, no_ridge());
    for (const Ridge ridge : kRidges) {
      constexpr double kStep = 1e-4;
      BlockInput all = random_blocks(1, ridge, 0.3, 9)[0];
      std::mt19937_64 random(10);
      std::uniform_real_distribution<double> sym(-1, 1);
      all.score.clear(), all.intercept.clear(), all.absent = 0, all.e = kStep, all.u = 4, all.decayed = 1;
      for (std::size_t k = 0; k < 3 * kLanes; ++k)
        all.score.push_back(2 * sym(random)), all.intercept.push_back(sym(random));
      std::vector<double> mean(3 * kLanes, 0.0);
      for (const std::size_t drawn : {1U, 2U}) {
        BlockInput in = all;
        in.weight = {1, 2}, in.ridge = {1 + kStep, 1 + 2 * kStep};
        for (std::vector<double>* list : {&in.score, &in.intercept}) {
          std::copy_n(list->begin() + static_cast<std::ptrdiff_t>(drawn * kLanes), kLanes,
                      list->begin() + kLanes);
          list->resize(2 * kLanes);
        }
        const BlockAnswer got = take_blocks(rule, in);
        ASSERT_TRUE(got.taken);
        for (std::size_t k = 0; k < 2 * kLanes; ++k) {
          const std::size_t lane = k < kLanes ? k : k - kLanes + drawn * kLanes;
          const double c = k == in.label ? got.label_coefficient : static_cast<double>(got.c[k]);
          mean[lane] += c / (2 * kStep);
        }
      }
      double pulled = 0;
      for (std::size_t k = 0; k < mean.size(); ++k) {
        if (k == all.label) continue;
        const double share = std::exp(all.score[k] - all.score[all.label] - all.u);
        pulled += share;
        EXPECT_NEAR(mean[k], -share, 5e-3 * share) << k << " ridge " << static_cast<int>(ridge);
      }
      EXPECT_NEAR(mean[all.label], pulled, 5e-3 * pulled) << static_cast<int>(ridge);
    }
  });
}

}  // namespace
}  // namespace truemax
