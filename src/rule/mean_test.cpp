// The contract of every method on average over all draws of a small problem.
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/multiprecision/cpp_dec_float.hpp>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "rule/methods.hpp"
#include "rule/test_support.hpp"

namespace truemax {
namespace {

using Real = boost::multiprecision::cpp_dec_float_50;

// ---- all draws of a small problem ----

// One possible outcome of a draw: how often each of the K classes was drawn.
using Counts = std::vector<int>;

// For one row: m draws with replacement from the classes other than its label.
std::vector<Counts> draws_of_one(std::size_t classes, std::size_t y, std::size_t m) {
  std::vector<Counts> list{Counts(classes, 0)};
  for (std::size_t j = 0; j < m; ++j) {
    std::vector<Counts> longer;
    for (const Counts& c : list)
      for (std::size_t k = 0; k < classes; ++k) {
        if (k == y) continue;
        longer.push_back(c);
        ++longer.back()[k];
      }
    list = longer;
  }
  return list;
}

// Shared by several rows: every set of m classes.
std::vector<Counts> shared_draws(std::size_t classes, std::size_t m) {
  std::vector<Counts> list;
  for (unsigned set = 0; set < (1U << classes); ++set) {
    Counts c(classes, 0);
    for (std::size_t k = 0; k < classes; ++k) c[k] = static_cast<int>(set >> k & 1U);
    if (std::count(c.begin(), c.end(), 1) == static_cast<int>(m)) list.push_back(c);
  }
  return list;
}

// A few rows with their scores for all classes.
struct Scene {
  std::vector<std::vector<double>> z;  // [n][K]
  std::vector<std::size_t> y;
  std::vector<double> u, row_weight;
  double mean_count = 1;  // how often a class is drawn in a step, on average

  std::size_t classes() const { return z[0].size(); }
  std::size_t rows() const { return z.size(); }
  double weight(int count) const { return count / mean_count; }
};

struct Draws {
  std::vector<Counts> all;
  double mean_count;
};

Draws all_draws(const Scene& scene, std::size_t m) {
  const auto classes = static_cast<double>(scene.classes());
  if (scene.rows() == 1)
    return {draws_of_one(scene.classes(), scene.y[0], m), static_cast<double>(m) / (classes - 1)};
  return {shared_draws(scene.classes(), m), static_cast<double>(m) / classes};
}

// The step of one outcome; `column` says which class a column is. Ridge factors are 1 + O(step), as in the
// trainer: the shrinking itself is not part of the coefficients.
StepInput step_of(const Scene& scene, const Counts& counts, bool whole_set, double step,
                  std::vector<std::size_t>& column, Ridge ridge = Ridge::none) {
  column.clear();
  std::set<std::size_t> labels(scene.y.begin(), scene.y.end());
  for (std::size_t k = 0; k < scene.classes(); ++k)
    if (whole_set || counts[k] > 0 || labels.count(k) > 0) column.push_back(k);
  const std::size_t n = scene.rows();
  StepInput in;
  in.rows = n, in.columns = column.size(), in.step = step;
  const double outside = ridge == Ridge::without_intercept ? 1 : 0;
  in.gram.assign(n * n, 0.3 + outside);
  for (std::size_t c = 0; c < column.size() && ridge != Ridge::none; ++c) {
    in.ridge.push_back(1 + step * static_cast<double>(1 + column[c]));
    if (outside > 0) in.free_intercept.push_back(0.5 * static_cast<double>(column[c]) - 1);
  }
  for (std::size_t i = 0; i < n; ++i) {
    in.gram[i * n + i] = 0.7 + outside;
    for (std::size_t c = 0; c < column.size(); ++c) {
      in.score.push_back(scene.z[i][column[c]]);
      in.weight.push_back(column[c] == scene.y[i] ? 0 : scene.weight(counts[column[c]]));
      if (column[c] == scene.y[i]) in.label.push_back(static_cast<std::uint32_t>(c));
    }
  }
  in.log_q.assign(column.size(), std::log(scene.mean_count));
  in.row_weight = scene.row_weight;
  in.u = scene.u;
  return in;
}

// ---- the functions that methods follow ----

Real log_sum(const std::vector<Real>& z) {
  Real sum = 0;
  for (const Real& v : z) sum += exp(v);
  return log(sum);
}

Real log1p_exp(const Real& t) {
  return log(1 + exp(t));
}

// The contribution of row i at scores z and u, averaged over all draws.
Real objective_value(Objective objective, const RuleOptions& options, const Scene& scene, std::size_t i,
                     const std::vector<Real>& z, const Real& u, const Draws& draws) {
  const std::size_t y = scene.y[i];
  switch (objective) {
    case Objective::double_sum: {
      const Real alpha(options.double_sum_alpha);
      Real sum = u - alpha * z[y] + exp(alpha * z[y] - u);
      for (std::size_t k = 0; k < z.size(); ++k)
        if (k != y) sum += exp(z[k] - (1 - alpha) * z[y] - u);
      return sum;
    }
    case Objective::double_sum_exact:
    case Objective::softmax:
      return log_sum(z) - z[y];
    case Objective::one_vs_each: {
      Real sum = 0;
      for (std::size_t k = 0; k < z.size(); ++k)
        if (k != y) sum += log1p_exp(z[k] - z[y]);
      return sum;
    }
    case Objective::noise_contrast: {
      const Real shift = options.log_q ? log(Real(scene.mean_count)) : Real(0);
      Real sum = log1p_exp(-(z[y] - shift));
      for (std::size_t k = 0; k < z.size(); ++k)
        if (k != y || options.label_noise) sum += Real(scene.mean_count) * log1p_exp(z[k] - shift);
      return sum;
    }
    case Objective::sampled_softmax: {
      Real mean = 0;
      for (const Counts& counts : draws.all) {
        Real sum = exp(z[y]);
        for (std::size_t k = 0; k < z.size(); ++k)
          if (k != y) sum += (options.log_q ? Real(scene.weight(counts[k])) : Real(counts[k])) * exp(z[k]);
        mean += (log(sum) - z[y]) / draws.all.size();
      }
      return mean;
    }
    case Objective::softplus_bound: {
      const Real bend(options.softplus_bend);
      Real sum = log(1 + bend * exp(-u));
      for (std::size_t k = 0; k < z.size(); ++k)
        if (k != y) sum += log(1 + bend * exp(z[k] - z[y] - u));
      return u + sum / bend;
    }
  }
  return 0;
}

// -weight times the gradient, by finite differences in 50 digits: entry k for score k, entry K for u.
std::vector<double> minus_gradient(Objective objective, const RuleOptions& options, const Scene& scene,
                                   std::size_t i, const Draws& draws) {
  std::vector<Real> z(scene.z[i].begin(), scene.z[i].end());
  Real u(scene.u[i]);
  const Real h("1e-17");
  const auto slope = [&](Real& at) {
    const Real here = at;
    at = here + h;
    const Real above = objective_value(objective, options, scene, i, z, u, draws);
    at = here - h;
    const Real below = objective_value(objective, options, scene, i, z, u, draws);
    at = here;
    return -scene.row_weight[i] * Real((above - below) / (2 * h)).convert_to<double>();
  };
  std::vector<double> g;
  for (Real& v : z) g.push_back(slope(v));
  g.push_back(slope(u));
  return g;
}

// A rule's result averaged over all draws, per unit of step, by row: entry k for class k, entry K for u.
template <class R>
std::vector<std::vector<double>> mean_answer(R& rule, const Scene& scene, const Draws& draws, double step,
                                             Ridge ridge = Ridge::none) {
  std::vector<std::vector<double>> mean(scene.rows(), std::vector<double>(scene.classes() + 1, 0.0));
  std::vector<std::size_t> column;
  const double unit = 1 / (step * static_cast<double>(draws.all.size()));
  for (const Counts& counts : draws.all) {
    const StepInput in = step_of(scene, counts, R::kInfo.whole_set, step, column, ridge);
    const StepAnswer out = take(rule, in);
    for (std::size_t i = 0; i < scene.rows(); ++i) {
      for (std::size_t c = 0; c < column.size(); ++c)
        mean[i][column[c]] += out.c[i * column.size() + c] * unit;
      mean[i].back() += (out.u[i] - in.u[i]) * unit;
    }
  }
  return mean;
}

// For methods whose u has its own rate: one so small that W's step uses the old u.
std::vector<RuleOptions> options_at_rest(const MethodInfo& info) {
  std::vector<RuleOptions> list = options_to_try(info);
  if (info.u_rate)
    for (RuleOptions& options : list) options.rho = options.sox_rate = 1e-12;
  return list;
}

std::vector<Scene> scenes() {
  std::vector<Scene> list;
  const std::vector<std::vector<double>> scores{
      {0, 0, 0, 0}, {1, -0.5, 0.25, 2}, {-3, 4, 0.5, 0, -1}, {0.1, 0.2, -7, 0.3, 0.4}};
  for (const std::vector<double>& z : scores)
    for (std::size_t y = 0; y < z.size(); ++y)
      for (const double row_weight : {1.0, 0.25, 3.0}) list.push_back({{z}, {y}, {0}, {row_weight}});
  // Several rows: different labels, equal labels, equal rows.
  const std::vector<double> a{0.5, -1, 0.3, 0.7}, b{-0.4, 0.2, 1.1, 0};
  list.push_back({{a, b}, {1, 2}, {0, 0}, {1, 1}});
  list.push_back({{a, b}, {1, 1}, {0, 0}, {1, 0.5}});
  list.push_back({{a, a}, {0, 3}, {0, 0}, {2, 1}});
  list.push_back({{a, b, a}, {2, 0, 2}, {0, 0, 0}, {1, 1, 1}});
  return list;
}

// The values of u to average at: around the optimum for a free u (not so far below that U-max jumps), the
// exact value for methods that keep it exact.
std::vector<double> values_of_u(const MethodInfo& info, const RuleOptions& options, const Scene& scene,
                                std::size_t i) {
  double sum = 0;
  for (const double z : scene.z[i]) sum += std::exp(z - scene.z[i][scene.y[i]]);
  const double z_y = scene.z[i][scene.y[i]], best = std::log(sum);
  switch (info.objective) {
    case Objective::double_sum: {
      const double shift = options.double_sum_alpha * z_y;
      const double below = 0.4 * std::min(options.delta, 1.0);
      return {std::max(0.5 * best, best - below) + shift, best + shift, best + 2 + shift};
    }
    case Objective::double_sum_exact:
      return {info.refreshes ? best + z_y : best};
    case Objective::softplus_bound:
      return {-0.5, best, best + 2};
    case Objective::softmax:
    case Objective::one_vs_each:
    case Objective::noise_contrast:
    case Objective::sampled_softmax:
      return {best};
  }
  return {};
}

// (a) As the step goes to zero, the update averaged over all draws is minus the step times the gradient of
// the method's objective.
TEST(EveryMethod, MeanStepFollowsItsObjective) {
  for_each_method([]<class R>() {
    for (const RuleOptions& options : options_at_rest(R::kInfo))
      for (Scene scene : scenes())
        for (const std::size_t m : {std::size_t{1}, std::size_t{2}, std::size_t{3}}) {
          if (scene.rows() > R::kInfo.most_rows || m > R::kInfo.most_classes) continue;
          const Draws draws = all_draws(scene, m);
          scene.mean_count = draws.mean_count;
          for (std::size_t which = 0; which < values_of_u(R::kInfo, options, scene, 0).size(); ++which) {
            for (std::size_t i = 0; i < scene.rows(); ++i)
              scene.u[i] = values_of_u(R::kInfo, options, scene, i)[which];
            R rule(options, no_ridge());
            std::vector<std::vector<double>> gradient;
            for (std::size_t i = 0; i < scene.rows(); ++i)
              gradient.push_back(minus_gradient(R::kInfo.objective, options, scene, i, draws));
            for (const Ridge ridge : kRidges) {
              // One step of Richardson extrapolation removes the first-order error in the step.
              const auto whole = mean_answer(rule, scene, draws, 1e-6, ridge),
                         half = mean_answer(rule, scene, draws, 5e-7, ridge);
              for (std::size_t i = 0; i < scene.rows(); ++i) {
                const std::vector<double>& wanted = gradient[i];
                const bool u_too = (R::kInfo.objective == Objective::double_sum && !R::kInfo.u_rate) ||
                                   R::kInfo.objective == Objective::softplus_bound;
                for (std::size_t k = 0; k < wanted.size() - (u_too ? 0 : 1); ++k)
                  EXPECT_NEAR(2 * half[i][k] - whole[i][k], wanted[k], 2e-6 * (1 + std::abs(wanted[k])))
                      << R::kInfo.name << " alpha " << options.double_sum_alpha << " log-q " << options.log_q
                      << " rows " << scene.rows() << " m " << m << " row " << i << " entry " << k << " ridge "
                      << static_cast<int>(ridge);
              }
            }
          }
        }
  });
}

// A u with its own rate descends the double sum on average, in its own geometry: for the mirror step the
// gradient is divided by the second derivative of exp(-u), for SOX it is the plain gradient.
TEST(EveryMethod, MeanStepOfUDescendsAtItsRate) {
  std::size_t seen = 0;
  for_each_method([&]<class R>() {
    if (!R::kInfo.u_rate) return;
    ++seen;
    for (Scene scene : scenes())
      for (const std::size_t m : {std::size_t{1}, std::size_t{2}}) {
        if (scene.rows() > R::kInfo.most_rows || m > R::kInfo.most_classes) continue;
        const Draws draws = all_draws(scene, m);
        scene.mean_count = draws.mean_count;
        for (std::size_t which = 0; which < 3; ++which) {
          for (std::size_t i = 0; i < scene.rows(); ++i)
            scene.u[i] = values_of_u(R::kInfo, {}, scene, i)[which];
          const auto answer_at = [&](double rate) {
            RuleOptions options;
            options.rho = options.sox_rate = rate;
            R rule(options, no_ridge());
            return mean_answer(rule, scene, draws, 1e-12);  // per unit of this step
          };
          const double rate = 1e-7;
          const auto whole = answer_at(rate), half = answer_at(rate / 2);
          for (std::size_t i = 0; i < scene.rows(); ++i) {
            const double moved = (4 * half[i].back() - whole[i].back()) * (1e-12 / rate);
            const double gradient =
                minus_gradient(Objective::double_sum, {}, scene, i, draws).back() / scene.row_weight[i];
            const double wanted = gradient * (R::kInfo.name == "sox" ? 1 : std::exp(scene.u[i]));
            EXPECT_NEAR(moved, wanted, 1e-5 * (std::exp(scene.u[i]) + std::abs(wanted)))
                << R::kInfo.name << " rows " << scene.rows() << " m " << m << " row " << i;
          }
        }
      }
  });
  EXPECT_EQ(seen, 3U);
}

// Where u is the row's exact normaliser rather than a free variable, the mean of exp(u) does not change.
TEST(EveryMethod, KeepsAnExactNormaliserOnAverage) {
  std::size_t seen = 0;
  for_each_method([&]<class R>() {
    if (R::kInfo.objective != Objective::double_sum_exact) return;
    for (Scene scene : scenes()) {
      ++seen;
      const Draws draws = all_draws(scene, 2);
      scene.mean_count = draws.mean_count;
      for (std::size_t i = 0; i < scene.rows(); ++i) scene.u[i] = values_of_u(R::kInfo, {}, scene, i)[0];
      R rule(RuleOptions{}, no_ridge());
      std::vector<double> mean(scene.rows(), 0.0);
      std::vector<std::size_t> column;
      for (const Counts& counts : draws.all) {
        const StepAnswer out = take(rule, step_of(scene, counts, false, 0.1, column));
        for (std::size_t i = 0; i < scene.rows(); ++i)
          mean[i] += std::exp(out.u[i] - scene.u[i]) / static_cast<double>(draws.all.size());
      }
      for (const double v : mean) EXPECT_NEAR(v, 1, 1e-12) << R::kInfo.name;
    }
  });
  EXPECT_GT(seen, 0U);
}

}  // namespace
}  // namespace truemax
