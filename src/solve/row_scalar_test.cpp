// The scalar solvers in double against the vectors, on random and on extreme numbers.
#include "solve/row_scalar.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "solve/implicit_row.hpp"
#include "solve/prox_blocks.hpp"
#include "solve/prox_row.hpp"

namespace truemax {
namespace {

struct Blocks {
  std::vector<float> score, weight, norm;
  std::vector<float> value;  // of a solver

  // What solve_prox_scalar asks of its classes; const, as a view is.
  struct View {
    Blocks& in;
    int blocks() const { return static_cast<int>(in.norm.size()); }
    static int lanes() { return static_cast<int>(kProxLanes); }
    float weight(int b) const { return in.weight[static_cast<std::size_t>(b)]; }
    float norm(int b) const { return in.norm[static_cast<std::size_t>(b)]; }
    float& at(int b, int lane) const {
      return in.value[static_cast<std::size_t>(b) * kProxLanes + static_cast<std::size_t>(lane)];
    }
  };
};

struct Case {
  Blocks blocks;
  RowStep step;
};

Case random_case(std::mt19937_64& random, double decades) {
  const auto uniform = [&](double a, double b) {
    return std::uniform_real_distribution<double>(a, b)(random);
  };
  Case in;
  const auto blocks = static_cast<std::size_t>(uniform(1, 5));
  const double s = std::pow(10, decades / 3 * uniform(-1, 1)),
               spread = std::pow(10, uniform(-1, decades / 3));
  const bool ridge = uniform(0, 1) < 0.5;
  const auto norm = [&] { return static_cast<float>(ridge ? s / std::pow(10, uniform(0, 1)) : s); };
  in.step.label_score = static_cast<double>(static_cast<float>(spread * uniform(-1, 1)));
  for (std::size_t b = 0; b < blocks; ++b) {
    in.blocks.weight.push_back(static_cast<float>(uniform(0, 1) < 0.5 ? 1 : std::pow(10, uniform(0, 6))));
    in.blocks.norm.push_back(norm());
    for (std::size_t lane = 0; lane < kProxLanes; ++lane)
      in.blocks.score.push_back(uniform(0, 1) < 0.1 ? kNoClass : static_cast<float>(spread * uniform(-1, 1)));
  }
  in.step.label_norm = static_cast<double>(norm());
  in.step.e = std::pow(10, decades * uniform(-1, 1));
  in.step.rho = std::pow(10, uniform(-6, 2));
  in.step.u = uniform(0, 1) < 0.2 ? 0 : uniform(0, 15);
  return in;
}

// The same step for a vector solver: ridge factors that give the norms, scores that they shrink to those of
// the case.
template <class Row>
struct ForVectors {
  explicit ForVectors(const Case& in) {
    for (std::size_t j = 0; j < in.blocks.score.size(); ++j) {
      const bool drawn = in.blocks.score[j] != kNoClass;
      const auto norm = static_cast<double>(in.blocks.norm[j / kProxLanes]);
      ridge.push_back(1 / norm);
      score.push_back(drawn ? static_cast<double>(in.blocks.score[j]) / norm : 0);
      weight.push_back(drawn ? static_cast<double>(in.blocks.weight[j / kProxLanes]) : 0);
    }
    coefficient.assign(score.size(), -1);
    row.e = in.step.e, row.u = in.step.u, row.squared_norm = 1;
    row.label_ridge = 1 / in.step.label_norm, row.label_score = in.step.label_score / in.step.label_norm;
    row.classes = score.size();
    row.score = score.data(), row.weight = weight.data(), row.ridge = ridge.data();
    row.coefficient = coefficient.data();
  }
  std::vector<double> score, weight, ridge, coefficient;
  Row row;
  RowMemory memory;
};

template <class Row>
void require_same(const Case& in, const RowStep& found, const Blocks& blocks, const ForVectors<Row>& wanted,
                  int number) {
  // Rounding of scores of this size moves every coefficient.
  double size = std::abs(in.step.label_score);
  for (const float z : in.blocks.score)
    if (z != kNoClass) size = std::max(size, std::abs(static_cast<double>(z)));
  const double close = 1e-7 + 1e-14 * size;
  EXPECT_NEAR(found.u, wanted.row.u, 1e-9 * (1 + wanted.row.u) + 1e-14 * size) << "case " << number;
  EXPECT_NEAR(found.label_coefficient, wanted.row.label_coefficient, close * wanted.row.label_coefficient)
      << "case " << number;
  for (std::size_t j = 0; j < blocks.value.size(); ++j) {
    ASSERT_TRUE(std::isfinite(blocks.value[j]) || wanted.coefficient[j] > 1e38) << "case " << number;
    if (std::isfinite(blocks.value[j])) {
      ASSERT_NEAR(-static_cast<double>(blocks.value[j]), wanted.coefficient[j],
                  close * wanted.coefficient[j] + 1e-37)
          << "case " << number << " class " << j;
    }
  }
}

TEST(RowScalar, ProximalStepMatchesVectors) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 3000; ++i) {
    Case in = random_case(random, i % 2 == 0 ? 3 : 9);
    ForVectors<ProxRow> wanted(in);
    wanted.row.rho = in.step.rho;
    solve_prox_row(wanted.row, wanted.memory);
    in.blocks.value = in.blocks.score;
    RowStep step = in.step;
    solve_prox_row_scalar(step, Blocks::View{in.blocks}, OneThread());
    require_same(in, step, in.blocks, wanted, i);
  }
}

TEST(RowScalar, ImplicitStepMatchesVectors) {
  std::mt19937_64 random(4);
  for (int i = 0; i < 3000; ++i) {
    Case in = random_case(random, i % 2 == 0 ? 3 : 9);
    ForVectors<ImplicitRow> wanted(in);
    solve_implicit_row(wanted.row, wanted.memory);
    in.blocks.value = in.blocks.score;
    RowStep step = in.step;
    solve_implicit_row_scalar(step, Blocks::View{in.blocks}, OneThread());
    require_same(in, step, in.blocks, wanted, i);
  }
}

TEST(RowScalar, RowWithoutFeaturesOnlyMovesU) {
  Blocks blocks;
  blocks.norm = {0}, blocks.weight = {3};
  blocks.value.assign(kProxLanes, 0.5F);
  RowStep step{.rho = 0.5, .u = 1, .label_norm = 0};
  solve_prox_row_scalar(step, Blocks::View{blocks}, OneThread());
  const double sum = kProxLanes * 3 * std::exp(0.5);
  EXPECT_NEAR(step.u, std::log((1 + 0.5 * (1 + sum)) / (0.5 + std::exp(-1.0))), 1e-9);
  for (const float c : blocks.value) EXPECT_TRUE(std::isfinite(c));
}

TEST(RowScalar, WithoutClassesOnlyUChanges) {
  Blocks blocks;
  blocks.norm = {1}, blocks.weight = {1};
  blocks.value.assign(kProxLanes, kNoClass);
  RowStep step{.rho = 0.5, .u = 3};
  solve_prox_row_scalar(step, Blocks::View{blocks}, OneThread());
  EXPECT_NEAR(step.u, std::log(3 / (1 + 2 * std::exp(-3.0))), 1e-12);
  EXPECT_EQ(step.label_coefficient, 0);
  for (const float c : blocks.value) EXPECT_EQ(c, 0);
}

}  // namespace
}  // namespace truemax
