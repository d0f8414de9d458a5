// Trained long enough with falling steps, every unbiased method reaches the maximum of the softmax
// likelihood, which plain gradient descent in double finds for a small problem.
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <random>
#include <vector>

#include "data/test_access.hpp"
#include "rule/methods.hpp"
#include "train/test_support.hpp"
#include "weights/kernels.hpp"

namespace truemax {
namespace {

constexpr std::size_t kClasses = 5, kFeatures = 3;
using Matrix = std::vector<std::vector<double>>;

// Points around five centres, a fifth of them with a wrong label, so that the optimum is finite.
Dataset small_problem(bool weights) {
  std::mt19937_64 random(4);
  std::normal_distribution<double> normal;
  Dataset data = random_data({.rows = 250, .classes = kClasses, .features = kFeatures, .weights = weights});
  data.rows = {};
  for (std::size_t i = 0; i < 250; ++i) {
    const auto centre = static_cast<double>(i % kClasses);
    const double x[kFeatures] = {std::cos(centre * 1.2566) + 0.4 * normal(random),
                                 std::sin(centre * 1.2566) + 0.4 * normal(random), 1.0};
    for (FeatureId f = 0; f < kFeatures; ++f)
      data.rows.index.push_back(f), data.rows.value.push_back(static_cast<float>(x[f]));
    data.rows.begin.push_back(data.rows.index.size());
  }
  for (std::size_t e = 0; e < data.size(); ++e)
    data.label[e] = static_cast<ClassId>((row_of(data, e) + (e % 5 == 0 ? e / 5 : 0)) % kClasses);
  return data;
}

std::vector<double> probabilities(const Matrix& w, RowView x) {
  std::vector<double> p(kClasses, 0.0);
  double sum = 0;
  for (std::size_t k = 0; k < kClasses; ++k) {
    for (std::size_t j = 0; j < x.index.size(); ++j)
      p[k] += w[k][x.index[j]] * static_cast<double>(x.value[j]);
    p[k] = std::exp(p[k]);
    sum += p[k];
  }
  for (double& v : p) v /= sum;
  return p;
}

// Mean log-loss and its gradient.
double loss_at(const Dataset& data, const Matrix& w, Matrix& gradient) {
  gradient.assign(kClasses, std::vector<double>(kFeatures, 0.0));
  double loss = 0, weight = 0;
  for (std::size_t e = 0; e < data.size(); ++e) {
    const double of_one = static_cast<double>(weight_of(data, e));
    const RowView x = x_of(data, e);
    const std::vector<double> p = probabilities(w, x);
    loss -= of_one * std::log(p[data.label[e]]);
    weight += of_one;
    for (std::size_t k = 0; k < kClasses; ++k)
      for (std::size_t j = 0; j < x.index.size(); ++j)
        gradient[k][x.index[j]] +=
            of_one * (p[k] - (k == data.label[e] ? 1 : 0)) * static_cast<double>(x.value[j]);
  }
  for (auto& row : gradient)
    for (double& g : row) g /= weight;
  return loss / weight;
}

double best_loss(const Dataset& data) {
  Matrix w(kClasses, std::vector<double>(kFeatures, 0.0)), gradient;
  double length = 1;
  for (int i = 0; i < 5000 && length > 1e-6; ++i) {
    loss_at(data, w, gradient);
    length = 0;
    for (std::size_t k = 0; k < kClasses; ++k)
      for (std::size_t f = 0; f < kFeatures; ++f) {
        w[k][f] -= 1.0 * gradient[k][f];
        length += gradient[k][f] * gradient[k][f];
      }
    length = std::sqrt(length);
  }
  EXPECT_LE(length, 1e-6) << "the oracle did not converge";
  return loss_at(data, w, gradient);
}

double loss_of(const Dataset& data, const RunState& state) {
  Matrix w(kClasses, std::vector<double>(kFeatures)), gradient;
  std::vector<float> row(kFeatures);
  for (ClassId k = 0; k < kClasses; ++k) {
    state.weights.copy_class(k, row);
    for (std::size_t f = 0; f < kFeatures; ++f) w[k][f] = static_cast<double>(row[f]);
  }
  return loss_at(data, w, gradient);
}

double reached_by(const MethodInfo& info, const Dataset& data, Shape shape, Visit visit,
                  const RuleOptions& rule = {}) {
  Recipe options = options_of(std::string(info.name), shape.m, visit);
  options.rule = rule;
  options.rows_per_step = shape.n;
  options.step = (info.can_diverge ? 0.01 : 0.3) * static_cast<double>(shape.n);
  options.decay = info.can_diverge ? 0.9985 : 0.992, options.epochs = info.can_diverge ? 3000 : 1000;
  return loss_of(data, run_epochs(data, options));
}

TEST(EveryMethod, UnbiasedOnesReachTheMaximumLikelihood) {
  for (const bool weights : {false, true}) {
    const Dataset data = small_problem(weights);
    const double best = best_loss(data);
    ASSERT_GT(best, 0.1);
    ASSERT_LT(best, std::log(5.0) - 0.3);  // there is something to learn
    for (const MethodInfo* info : methods()) {
      if (info->biased) continue;
      for (const Shape shape : {Shape{1, 1}, Shape{1, 3}, Shape{10, 2}})
        for (const Visit visit : {Visit::random, Visit::shuffle, Visit::file}) {
          if (shape.n > info->most_rows || shape.m > info->most_classes) continue;
          const double reached = reached_by(*info, data, shape, visit);
          EXPECT_GE(reached, best - 1e-6);
          EXPECT_LT(reached, 1.01 * best)
              << info->name << ' ' << shape.n << 'x' << shape.m << " visit " << static_cast<int>(visit);
        }
    }
  }
}

// Biased methods do not get there with few classes per step. Importance sampling does once all classes are
// drawn, when its bias is zero.
TEST(EveryMethod, BiasedOnesMissTheMaximumLikelihood) {
  const Dataset data = small_problem(false);
  const double best = best_loss(data);
  for (const MethodInfo* info : methods()) {
    if (!info->biased || info->u_rate) continue;  // methods with a rate for u are tested below
    for (const Shape shape : {Shape{1, 1}, Shape{10, 1}}) {
      const double off = reached_by(*info, data, shape, Visit::shuffle) / best - 1;
      std::cout << info->name << ' ' << shape.n << 'x' << shape.m << " above the optimum by " << off << '\n';
      EXPECT_GT(off, 0.01) << info->name << ' ' << shape.n << 'x' << shape.m;
    }
  }
  const double all = reached_by(find_method("importance"), data, {10, kClasses}, Visit::shuffle);
  EXPECT_LT(all, 1.001 * best);
}

// W's step uses a u moved by the same draw: at a fixed rate the fixed point is off the optimum, by less the
// smaller the rate; with a rate that falls with the step it is the optimum.
TEST(EveryMethod, FixedRateForUMissesTheOptimum) {
  const Dataset data = small_problem(false);
  const double best = best_loss(data);
  for (const MethodInfo* info : methods()) {
    if (!info->u_rate) continue;
    const auto off = [&](double rate, bool falls) {
      RuleOptions rule;
      rule.rho = rule.sox_rate = rate, rule.rho_falls = falls;
      return reached_by(*info, data, {1, 1}, Visit::shuffle, rule) / best - 1;
    };
    const double large = off(1, false), small = off(0.1, false), falling = off(1, true);
    std::cout << info->name << " above the optimum by " << large << " at a fixed rate of 1, " << small
              << " at 0.1, " << falling << " where it may fall\n";
    EXPECT_GT(large, 0.01) << info->name;
    EXPECT_LT(small, 0.5 * large) << info->name;
    if (!info->biased) {
      EXPECT_LT(falling, 0.1 * large) << info->name;
    }
  }
}

// For methods with a free or exact u, it reaches the row's log(1 + sum of exp(z_k - z_y)) once steps are
// small.
TEST(EveryMethod, UConvergesToTheLogSumOfItsRow) {
  const Dataset data = small_problem(false);
  for (const MethodInfo* info : methods()) {
    if (info->objective != Objective::double_sum && info->objective != Objective::double_sum_exact) continue;
    if (info->biased) continue;  // SOX's u follows each draw at a fixed rate
    Recipe options = options_of(std::string(info->name), 1, Visit::shuffle);
    options.step = info->can_diverge ? 0.01 : 0.3, options.decay = 0.998, options.epochs = 2000;
    const RunState state = run_epochs(data, options);
    double off = 0;
    for (std::size_t i = 0; i < data.size(); ++i) {
      double sum = 0;
      const double z_y = score(state.weights, x_of(data, i), data.label[i]);
      for (ClassId k = 0; k < kClasses; ++k) sum += std::exp(score(state.weights, x_of(data, i), k) - z_y);
      const double wanted = std::log(sum) + (info->refreshes ? z_y : 0);
      off += std::abs(state.rows[i].u - wanted) / static_cast<double>(data.size());
    }
    EXPECT_LT(off, 0.1) << info->name;
  }
}

}  // namespace
}  // namespace truemax
