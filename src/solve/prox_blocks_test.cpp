// The float32 solver of the flagship's step against a bisection in long double, on every instruction set.
#include "solve/prox_blocks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "core/instruction_sets.hpp"
#include "solve/prox_scalar.hpp"

namespace truemax {
namespace {

using Wide = long double;

// w + log(w) = t.
Wide lambert(Wide t) {
  Wide w = t > 1 ? t - std::log(t) + std::log(t) / t : std::exp(t) / (1 + std::exp(t));
  if (t < -11000) return 0;
  for (int i = 0; i < 30; ++i) {
    const Wide next = w * (1 + t - std::log(w)) / (1 + w);
    if (!(next > 0) || std::abs(next - w) <= 1e-18L * w) break;
    w = next;
  }
  return w;
}

struct Case {
  ProxBlocks step;
  std::vector<float> score, coefficient;
  std::vector<double> norm, weight;

  void point() {
    coefficient.assign(score.size(), -1.0F);
    step.blocks = norm.size();
    step.score = score.data();
    step.coefficient = coefficient.data();
    step.norm = norm.data();
    step.weight = weight.data();
  }
};

struct Truth {
  Wide u = 0, label = 0;
  std::vector<Wide> c;
};

Truth bisect(const Case& in) {
  const ProxBlocks& p = in.step;
  Truth truth;
  truth.c.resize(in.score.size());
  const Wide over_rho = p.inverse_rho, keep = 1 + over_rho;
  const Wide base = 1 + std::exp(-static_cast<Wide>(p.u)) * over_rho;
  const auto fill = [&](Wide g) {
    const Wide c_y = p.e * (base - g * keep);
    truth.label = 0;
    for (std::size_t j = 0; j < in.score.size(); ++j) {
      const std::size_t b = j / kProxLanes;
      const Wide gap = static_cast<Wide>(in.score[j]) - static_cast<Wide>(p.label_score);
      truth.c[j] = in.score[j] == kNoClass
                       ? 0
                       : lambert(std::log(static_cast<Wide>(p.e) * in.norm[b] * in.weight[b]) + gap +
                                 std::log(g) - p.label_norm * c_y) /
                             in.norm[b];
      truth.label += truth.c[j];
    }
    return c_y;
  };
  Wide low = std::log(base / keep) - 200, high = std::log(base / keep);
  for (int i = 0; i < 90; ++i) {
    const Wide middle = (low + high) / 2;
    if (fill(std::exp(middle)) > truth.label)
      low = middle;
    else
      high = middle;
  }
  fill(std::exp(low));
  truth.u = -low;
  return truth;
}

Case random_case(std::mt19937_64& random) {
  const auto uniform = [&](double a, double b) {
    return std::uniform_real_distribution<double>(a, b)(random);
  };
  Case in;
  const auto blocks = static_cast<std::size_t>(uniform(1, 7));
  const double spread = std::pow(10, uniform(-1, 1)), middle = uniform(-8, 3);
  in.step.label_score = uniform(-5, 5);
  const bool ridge = uniform(0, 1) < 0.5;
  const double s = std::pow(10, uniform(-2, 2));
  for (std::size_t b = 0; b < blocks; ++b) {
    in.weight.push_back(uniform(0, 1) < 0.5 ? 1 : std::pow(10, uniform(0, 3)));
    in.norm.push_back(ridge ? s / std::pow(10, uniform(0, 1)) : s);
    for (std::size_t lane = 0; lane < kProxLanes; ++lane)
      in.score.push_back(
          uniform(0, 1) < 0.1
              ? kNoClass
              : static_cast<float>(std::min(30.0, in.step.label_score + middle + spread * uniform(-1, 1))));
  }
  in.step.label_norm = ridge ? s / std::pow(10, uniform(0, 1)) : s;
  in.step.e = std::pow(10, uniform(-4, 4));
  in.step.u = uniform(0, 1) < 0.2 ? 0 : uniform(0, 12);
  in.step.inverse_rho = uniform(0, 1) < 0.1 ? 0 : std::pow(10, uniform(-2, 6));
  in.point();
  return in;
}

TEST(ProxBlocks, MatchesBisection) {
  constexpr int kCases = 1000;
  std::mt19937_64 random(7);
  std::vector<double> evaluations(instruction_sets().size(), 0.0);
  double worst_u = 0, worst_c = 0;
  for (int i = 0; i < kCases; ++i) {
    const Case asked = random_case(random);
    const Truth truth = bisect(asked);
    for (std::size_t t = 0; t < evaluations.size(); ++t) {
      const OnInstructionSet here(instruction_sets()[t]);
      Case in = asked;
      in.point();
      const int count = solve_prox_blocks(in.step);
      ASSERT_GT(count, 0) << "case " << i;
      evaluations[t] += count;
      worst_u = std::max(worst_u, static_cast<double>(std::abs(truth.u - static_cast<Wide>(in.step.u))));
      ASSERT_NEAR(in.step.u, static_cast<double>(truth.u), 1e-4) << "case " << i;
      ASSERT_NEAR(in.step.label_coefficient / static_cast<double>(truth.label), 1, 2e-4) << "case " << i;
      for (std::size_t j = 0; j < truth.c.size(); ++j) {
        const auto exact = static_cast<double>(truth.c[j]);
        const double found = -static_cast<double>(in.coefficient[j]);
        if (asked.score[j] == kNoClass) {
          ASSERT_EQ(found, 0);
          continue;
        }
        ASSERT_NEAR(found, exact, 2e-4 * exact + 1e-30) << "case " << i << " class " << j;
        if (exact > 1e-30) worst_c = std::max(worst_c, std::abs(found / exact - 1));
      }
    }
  }
  std::printf("%.2f evaluations a step, u off by at most %.1e, a coefficient by %.1e of itself\n",
              evaluations[0] / kCases, worst_u, worst_c);
}

// Two ranks with some of the blocks each.
TEST(ProxBlocks, PartsSolveTheWholeStep) {
  constexpr int kCases = 300;
  std::mt19937_64 random(11);
  for (int i = 0; i < kCases; ++i) {
    const Case asked = random_case(random);
    for (const std::int64_t set : instruction_sets()) {
      const OnInstructionSet here(set);
      Case whole = asked, both = asked;
      whole.point(), both.point();
      ASSERT_GT(solve_prox_blocks(whole.step), 0);
      const std::size_t half = both.step.blocks / 2;
      std::array<ProxBlocks, 2> part{both.step, both.step};
      part[0].blocks = half, part[1].blocks = both.step.blocks - half;
      part[1].score += half * kProxLanes, part[1].coefficient += half * kProxLanes;
      part[1].norm += half, part[1].weight += half;
      ProxStart start{0, 0};
      for (ProxBlocks& p : part) {
        const ProxStart of_part = prox_start(p);
        start.sum += of_part.sum, start.squares += of_part.squares;
      }
      const ProxBlocks& p = both.step;
      const double base = 1 + std::exp(-p.u) * p.inverse_rho;
      ProxSearch<DoubleMath> search({p.e, p.inverse_rho, base, p.label_norm, start.sum, start.squares});
      while (!search.done()) {
        const ProxSums<double> a = prox_sums(part[0], search.common()),
                               b = prox_sums(part[1], search.common());
        search.take({a.value + b.value, a.slope + b.slope});
      }
      const double label =
          prox_finish(part[0], search.root().move) + prox_finish(part[1], search.root().move);
      ASSERT_NEAR(label / whole.step.label_coefficient, 1, 2e-4) << "case " << i;
      ASSERT_NEAR(-std::log(search.root().g), whole.step.u, 1e-4) << "case " << i;
      for (std::size_t j = 0; j < whole.coefficient.size(); ++j)
        ASSERT_NEAR(both.coefficient[j], whole.coefficient[j], 3e-4F * -whole.coefficient[j] + 1e-30F);
    }
  }
}

TEST(ProxBlocks, WithoutClassesOnlyUChanges) {
  Case in;
  in.norm = {1}, in.weight = {1};
  in.score.assign(kProxLanes, kNoClass);
  in.step.u = 3, in.step.inverse_rho = 2;
  in.point();
  ASSERT_GT(solve_prox_blocks(in.step), 0);
  EXPECT_NEAR(in.step.u, std::log(3 / (1 + 2 * std::exp(-3.0))), 1e-12);
  EXPECT_EQ(in.step.label_coefficient, 0);
  for (const float c : in.coefficient) EXPECT_EQ(c, 0);
}

// The scalar solver on the lanes of a case, with the contract of the vectors.
struct Lanes {
  Case& in;
  int blocks() const { return static_cast<int>(in.norm.size()); }
  static int lanes() { return static_cast<int>(kProxLanes); }
  float weight(int b) const { return static_cast<float>(in.weight[static_cast<std::size_t>(b)]); }
  float norm(int b) const { return static_cast<float>(in.norm[static_cast<std::size_t>(b)]); }
  float& at(int b, int lane) const {
    return in.coefficient[static_cast<std::size_t>(b) * kProxLanes + static_cast<std::size_t>(lane)];
  }
};

int solve_scalar(Case& in) {
  in.coefficient = in.score;
  ProxStep step{.e = static_cast<float>(in.step.e),
                .inverse_rho = static_cast<float>(in.step.inverse_rho),
                .u = static_cast<float>(in.step.u),
                .label_score = static_cast<float>(in.step.label_score),
                .label_norm = static_cast<float>(in.step.label_norm)};
  const int evaluations = solve_prox_scalar(step, Lanes{in}, OneThread());
  in.step.u = static_cast<double>(step.u);
  in.step.label_coefficient = static_cast<double>(step.label_coefficient);
  return evaluations;
}

TEST(ProxBlocks, ScalarMatchesVectors) {
  constexpr int kCases = 4000;
  std::mt19937_64 random(9);
  double evaluations = 0, more = 0, worst_u = 0, worst_c = 0;
  int declined = 0;
  for (int i = 0; i < kCases; ++i) {
    Case vectors = random_case(random);
    // Both see the same float32 numbers.
    for (double* number : {&vectors.step.e, &vectors.step.inverse_rho, &vectors.step.u,
                           &vectors.step.label_score, &vectors.step.label_norm})
      *number = static_cast<double>(static_cast<float>(*number));
    for (auto* list : {&vectors.weight, &vectors.norm})
      for (double& number : *list) number = static_cast<double>(static_cast<float>(number));
    Case scalar = vectors;
    vectors.point();
    const int count = solve_prox_blocks(vectors.step);
    ASSERT_GT(count, 0);
    const int found = solve_scalar(scalar);
    if (found == 0) {
      ++declined;
      continue;
    }
    evaluations += found, more += count;
    const double scale = 1 + vectors.step.u;
    worst_u = std::max(worst_u, std::abs(scalar.step.u - vectors.step.u) / scale);
    ASSERT_NEAR(scalar.step.u, vectors.step.u, 2e-4 * scale) << "case " << i;
    for (std::size_t j = 0; j < vectors.coefficient.size(); ++j) {
      const auto exact = static_cast<double>(vectors.coefficient[j]);
      ASSERT_NEAR(static_cast<double>(scalar.coefficient[j]), exact, 1e-3 * std::abs(exact) + 1e-30)
          << "case " << i << " class " << j;
      if (exact < -1e-30)
        worst_c = std::max(worst_c, std::abs(static_cast<double>(scalar.coefficient[j]) / exact - 1));
    }
  }
  std::printf("%.2f evaluations a step (vectors: %.2f), %d declined, u off by %.1e, a coefficient by %.1e\n",
              evaluations / kCases, more / kCases, declined, worst_u, worst_c);
  EXPECT_LT(declined, kCases / 100);
}

// For any input: a finite answer within the bounds, or none.
template <class Solve>
void require_finite(Solve&& solve) {
  std::mt19937_64 random(8);
  const auto pick = [&](std::initializer_list<double> list) {
    return list.begin()[std::uniform_int_distribution<std::size_t>(0, list.size() - 1)(random)];
  };
  int declined = 0;
  constexpr int kCases = 20000;
  for (int i = 0; i < kCases; ++i) {
    Case in;
    in.norm = {pick({1e-12, 1e-3, 1, 1e6, 1e12})}, in.weight = {pick({1, 30, 1e6, 1e9})};
    for (std::size_t lane = 0; lane < kProxLanes; ++lane)
      in.score.push_back(static_cast<float>(pick({-1e30, -1e27, -1000, -30, -1, 0, 1, 39, 1000, 1e27})));
    in.step.label_score = pick({-1e27, -50, 0, 3, 1e27});
    in.step.label_norm = in.norm[0];
    in.step.e = pick({1e-300, 1e-9, 1, 1e6, 1e15});
    in.step.u = pick({0, 1, 20, 250, 700, 1e6});
    in.step.inverse_rho = pick({0, 1e-6, 1, 1e6, 1e12, 1e300});
    in.point();
    const double old_u = in.step.u, over = in.step.inverse_rho;
    if (solve(in) == 0) {
      ++declined;
      continue;
    }
    ASSERT_TRUE(std::isfinite(in.step.u) && std::isfinite(in.step.label_coefficient)) << i;
    ASSERT_GE(in.step.u, std::log((1 + over) / (1 + std::exp(-old_u) * over)) - 1e-6) << i;
    ASSERT_LE(in.step.label_coefficient, in.step.e * (1 + std::exp(-old_u) * over) * 1.001) << i;
    for (const float c : in.coefficient) ASSERT_TRUE(c <= 0 && std::isfinite(c)) << i;
  }
  EXPECT_LT(declined, kCases);
  EXPECT_GT(declined, 0);
}
TEST(ProxBlocks, IsFiniteOrDeclines) {
  require_finite([](Case& in) { return solve_prox_blocks(in.step); });
}
TEST(ProxBlocks, ScalarIsFiniteOrDeclines) {
  require_finite(solve_scalar);
}

}  // namespace
}  // namespace truemax
