// The lemmas on the double sum f(u, W) of eq:f: it is convex (Section 2.1), strongly convex within the bounds
// (Lemma 3), has bounded gradients there (Lemma 4) and falls when U-max raises u (Lemma 5). Lemmas 1 and 2
// need an optimum and are tested in train/ridge_test.cpp. f is computed from its definition in 50 digits;
// gradients, bounds and jumps come from the code under test.
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/multiprecision/cpp_dec_float.hpp>
#include <cmath>
#include <iostream>
#include <limits>
#include <random>
#include <vector>

#include "rule/double_sum.hpp"
#include "rule/test_support.hpp"
#include "rule/umax.hpp"

namespace truemax {
namespace {

using Real = boost::multiprecision::cpp_dec_float_50;
using Vector = std::vector<double>;

// Everything f depends on: rows, labels and the ridge.
struct Sum {
  std::vector<Vector> x;
  std::vector<std::size_t> y;
  std::size_t classes = 0;
  double mu = 0, alpha = 0;

  std::size_t rows() const { return x.size(); }
  std::size_t features() const { return x[0].size(); }
  std::size_t size() const { return rows() + classes * features(); }  // length of theta = (u, w_1, .., w_K)

  ProblemInfo info() const {
    ProblemInfo info;
    info.rows = info.total_weight = static_cast<double>(rows());
    info.classes = static_cast<double>(classes);
    info.ridge = mu;
    for (const Vector& row : x) info.longest_row = std::max(info.longest_row, std::sqrt(dot(row, row)));
    return info;
  }
  static double dot(const Vector& a, const Vector& b) {
    double sum = 0;
    for (std::size_t j = 0; j < a.size(); ++j) sum += a[j] * b[j];
    return sum;
  }

  // The double sum over all rows and classes.
  Real value(const std::vector<Real>& theta) const {
    Real sum = 0;
    for (std::size_t i = 0; i < rows(); ++i) {
      std::vector<Real> z(classes, Real(0));
      for (std::size_t k = 0; k < classes; ++k)
        for (std::size_t d = 0; d < features(); ++d) z[k] += theta[rows() + k * features() + d] * x[i][d];
      const Real& v = theta[i];
      sum += v - alpha * z[y[i]] + exp(alpha * z[y[i]] - v);
      for (std::size_t k = 0; k < classes; ++k)
        if (k != y[i]) sum += exp(z[k] - (1 - alpha) * z[y[i]] - v);
    }
    for (std::size_t j = rows(); j < theta.size(); ++j) sum += mu / 2 * theta[j] * theta[j];
    return sum;
  }
  Real value(const Vector& theta) const { return value(std::vector<Real>(theta.begin(), theta.end())); }

  // The gradient that the rules follow, summed over all rows and classes.
  Vector gradient(const Vector& theta) const {
    Vector g(size(), 0.0);
    for (std::size_t i = 0; i < rows(); ++i) {
      std::vector<double> weight(classes, 1.0);
      weight[y[i]] = 0;
      add_row(theta, i, weight, 1, g);
    }
    for (std::size_t j = rows(); j < size(); ++j) g[j] += mu * theta[j];
    return g;
  }
  double beta(std::size_t k) const {
    const auto n = static_cast<double>(rows()), of_k = static_cast<double>(std::count(y.begin(), y.end(), k));
    return n / (of_k + (n - of_k) / static_cast<double>(classes - 1));
  }
  // The gradient of f_ik, eq:stochastic_f.
  Vector stochastic_gradient(const Vector& theta, std::size_t i, std::size_t k) const {
    Vector g(size(), 0.0);
    std::vector<double> weight(classes, 0.0);
    weight[k] = static_cast<double>(classes - 1);
    add_row(theta, i, weight, static_cast<double>(rows()), g);
    for (const std::size_t c : {k, y[i]})
      for (std::size_t d = 0; d < features(); ++d) {
        const std::size_t j = rows() + c * features() + d;
        g[j] += mu * beta(c) * theta[j];
      }
    return g;
  }

 private:
  void add_row(const Vector& theta, std::size_t i, const std::vector<double>& weight, double step,
               Vector& g) const {
    StepInput in;
    in.columns = classes, in.weight = weight, in.step = step;
    in.row_weight = {1}, in.label = {static_cast<std::uint32_t>(y[i])};
    for (std::size_t k = 0; k < classes; ++k) {
      const double* w = &theta[rows() + k * features()];
      in.score.push_back(dot(x[i], Vector(w, w + features())));
    }
    std::vector<double> c(classes, 0.0);
    g[i] -= descend_double_sum(in.view(), {c.data(), nullptr}, 0, alpha, theta[i]);
    for (std::size_t k = 0; k < classes; ++k)
      for (std::size_t d = 0; d < features(); ++d) g[rows() + k * features() + d] -= c[k] * x[i][d];
  }
};

Sum random_sum(std::mt19937_64& random, double length, double mu, double alpha = 0) {
  std::uniform_real_distribution<double> sym(-1, 1);
  Sum f;
  f.classes = 3, f.mu = mu, f.alpha = alpha;
  for (std::size_t i = 0; i < 4; ++i)
    f.x.push_back({length * sym(random), length * sym(random)}), f.y.push_back(i % 3);
  return f;
}

Vector random_theta(std::mt19937_64& random, const Sum& f, double spread) {
  std::uniform_real_distribution<double> sym(-1, 1);
  Vector theta(f.size());
  for (double& v : theta) v = spread * sym(random);
  return theta;
}

// Within the bounds of Lemmas 1 and 2: W anywhere in the ball or on its surface, u in [0, B_u] or at an end.
Vector bounded_theta(std::mt19937_64& random, const Sum& f) {
  std::uniform_real_distribution<double> unit(0, 1), sym(-1, 1);
  const double most_u = f.info().u_bound(), most_w = f.info().weight_bound();
  Vector theta(f.size());
  double norm = 0;
  for (std::size_t j = 0; j < f.size(); ++j) {
    const double where = unit(random);
    if (j < f.rows())
      theta[j] = where < 0.2 ? 0 : where < 0.4 ? most_u : most_u * unit(random);
    else
      theta[j] = sym(random), norm += theta[j] * theta[j];
  }
  const double radius = (unit(random) < 0.5 ? 1 - 1e-12 : unit(random)) * most_w / std::sqrt(norm);
  for (std::size_t j = f.rows(); j < f.size(); ++j) theta[j] *= radius;
  return theta;
}

Real squared_distance(const Vector& a, const Vector& b) {
  Real sum = 0;
  for (std::size_t j = 0; j < a.size(); ++j) sum += (Real(a[j]) - b[j]) * (Real(a[j]) - b[j]);
  return sum;
}

// f(a) + f(b) - 2 f((a + b)/2) over |a - b|^2/4: at least the constant of strong convexity.
Real curvature(const Sum& f, const Vector& a, const Vector& b) {
  std::vector<Real> middle(a.begin(), a.end());
  for (std::size_t j = 0; j < a.size(); ++j) middle[j] = (middle[j] + b[j]) / 2;
  return (f.value(a) + f.value(b) - 2 * f.value(middle)) / (squared_distance(a, b) / 4);
}

// (gradient(b) - gradient(a)).(b - a) over |a - b|^2, and the rounding of its terms.
struct Slope {
  double value, rounding;
};
Slope gradient_slope(const Sum& f, const Vector& a, const Vector& b) {
  const Vector at_a = f.gradient(a), at_b = f.gradient(b);
  double sum = 0, terms = 0;
  const double squared = squared_distance(a, b).convert_to<double>();
  for (std::size_t j = 0; j < a.size(); ++j) {
    sum += (at_b[j] - at_a[j]) * (b[j] - a[j]);
    // exp() of a score of a few tens is accurate to a few tens of ulps.
    terms += (std::abs(at_a[j]) + std::abs(at_b[j])) * std::abs(b[j] - a[j]);
  }
  return {sum / squared, 1e-13 * (1 + terms) / squared};
}

TEST(DoubleSum, IsJointlyConvexInUAndW) {
  std::mt19937_64 random(1);
  for (const double alpha : {0.0, 0.5, 1.0})
    for (const double spread : {1e-3, 1.0, 10.0})
      for (const double mu : {0.0, 1.0})
        for (int i = 0; i < 60; ++i) {
          const Sum f = random_sum(random, 1, mu, alpha);
          const Vector a = random_theta(random, f, spread);
          Vector b = random_theta(random, f, spread);
          if (i % 3 == 0)  // a short segment: the second derivative
            for (std::size_t j = 0; j < b.size(); ++j) b[j] = a[j] + 1e-6 * b[j];
          ASSERT_GE(curvature(f, a, b), 0) << alpha << ' ' << spread << ' ' << mu;
          const Slope slope = gradient_slope(f, a, b);
          ASSERT_GE(slope.value, -slope.rounding) << alpha << ' ' << spread << ' ' << mu;
        }
}

double constant_of_lemma_three(const Sum& f) {
  return std::min(std::exp(-f.info().u_bound()), f.mu);
}

TEST(LemmaThree, DoubleSumIsStronglyConvexWithinTheBounds) {
  std::mt19937_64 random(3);
  for (const double length : {1e-3, 0.1, 1.0})
    for (const double mu : {1e-3, 0.1, 1.0, 30.0, 1e3})
      for (int i = 0; i < 40; ++i) {
        const Sum f = random_sum(random, length, mu);
        const Vector a = bounded_theta(random, f);
        Vector b = bounded_theta(random, f);
        if (i % 3 == 0)
          for (std::size_t j = 0; j < b.size(); ++j) b[j] = a[j] + 1e-6 * (b[j] - a[j]);  // a short segment
        const double m = constant_of_lemma_three(f);
        ASSERT_GT(m, 0);
        ASSERT_GE(curvature(f, a, b), m * (1 - 1e-12)) << length << ' ' << mu;
        const Slope slope = gradient_slope(f, a, b);
        ASSERT_GE(slope.value, m - slope.rounding) << length << ' ' << mu;
      }
}

// The constant is a minimum of two terms, and each is nearly attained: mu along a direction of W in which
// every row is zero, and exp(-B_u) along u at its bound with the label far ahead.
TEST(LemmaThree, ConstantIsNearlyAttained) {
  Sum f;
  f.classes = 3, f.y = {0, 1}, f.x = {{1e-3, 0}, {-1e-3, 0}}, f.mu = 1e-3;
  Vector a(f.size(), 0.0), b = a;
  b[f.rows() + 1] = 1;  // the second feature of class 0
  ASSERT_EQ(constant_of_lemma_three(f), f.mu);
  EXPECT_NEAR(curvature(f, a, b).convert_to<double>(), f.mu, 1e-12);

  f.x = {{1, 0}, {-1, 0}}, f.mu = 0.2;
  const double most_u = f.info().u_bound(), ahead = f.info().weight_bound() / std::sqrt(2.0);
  a.assign(f.size(), 0.0);
  a[f.rows()] = ahead, a[f.rows() + f.features()] = -ahead;  // w_0 along the first row, w_1 along the second
  a[0] = most_u, b = a, b[0] = most_u - 1e-9;
  ASSERT_LT(std::exp(-most_u), f.mu);
  const double ratio = (curvature(f, a, b) / exp(Real(-most_u))).convert_to<double>();
  EXPECT_GE(ratio, 1);
  EXPECT_LE(ratio, 1.1);
}

double bound_of_lemma_four(const Sum& f) {
  const ProblemInfo info = f.info();
  const double large = std::exp(info.u_bound());
  double beta = 0;
  for (std::size_t k = 0; k < f.classes; ++k) beta = std::max(beta, f.beta(k));
  return info.rows * std::max(1.0, large - 1) +
         2 * (info.rows * large * info.longest_row + f.mu * beta * info.weight_bound());
}

double length_of(const Vector& g) {
  return std::sqrt(Sum::dot(g, g));
}

TEST(LemmaFour, GradientsAreBoundedWithinTheBounds) {
  std::mt19937_64 random(4);
  double closest = 0;
  for (const double length : {1e-2, 0.1, 1.0})
    for (const double mu : {1e-2, 1.0, 30.0, 1e3, 1e5})
      for (int sample = 0; sample < 200; ++sample) {
        const Sum f = random_sum(random, length, mu);
        const double bound = bound_of_lemma_four(f);
        Vector theta = bounded_theta(random, f);
        if (sample % 4 == 0) {
          // The worst case: u = 0, and all of W in the score gap of the longest row.
          std::size_t i = 0;
          for (std::size_t j = 1; j < f.rows(); ++j)
            if (Sum::dot(f.x[j], f.x[j]) > Sum::dot(f.x[i], f.x[i])) i = j;
          const double norm = std::sqrt(Sum::dot(f.x[i], f.x[i]));
          std::fill(theta.begin(), theta.end(), 0.0);
          for (std::size_t d = 0; d < f.features(); ++d) {
            const double w = f.info().weight_bound() / std::sqrt(2.0) * f.x[i][d] / norm;
            theta[f.rows() + f.y[i] * f.features() + d] = -w;
            theta[f.rows() + (f.y[i] + 1) % 3 * f.features() + d] = w;
          }
        }
        ASSERT_LE(length_of(f.gradient(theta)), bound) << length << ' ' << mu;
        for (std::size_t i = 0; i < f.rows(); ++i)
          for (std::size_t k = 0; k < f.classes; ++k) {
            if (k == f.y[i]) continue;
            const double got = length_of(f.stochastic_gradient(theta, i, k));
            ASSERT_LE(got, bound) << length << ' ' << mu;
            closest = std::max(closest, got / bound);
          }
      }
  std::cout << "longest gradient " << closest << " of the bound\n";
  EXPECT_GT(closest, 0.3);  // the bound is not loose
}

// ---- Lemma 5 ----

// The scores of a row for all classes: drawn ones first, the label last.
struct Row {
  Vector z;
  std::size_t drawn;
};

Real term(const Row& row, const Real& u) {
  Real sum = u + exp(-u);
  for (std::size_t k = 0; k + 1 < row.z.size(); ++k) sum += exp(Real(row.z[k]) - row.z.back() - u);
  return sum;
}

// log(1 + sum over the drawn classes), the first of them counted `times` times.
Real bound_of(const Row& row, int times = 1) {
  Real sum = 1;
  for (std::size_t k = 0; k < row.drawn; ++k)
    sum += (k == 0 ? times : 1) * exp(Real(row.z[k]) - row.z.back());
  return log(sum);
}

// Only the jump: the step is too small to change anything else.
double jumped(const Row& row, double u, double delta, double weight_of_first = 1) {
  RuleOptions options;
  options.delta = delta;
  UmaxRule rule(options, no_ridge());
  Vector score(row.z.begin(), row.z.begin() + static_cast<std::ptrdiff_t>(row.drawn)), weight(row.drawn, 1.0);
  score.push_back(row.z.back());
  weight[0] = weight_of_first;
  return take(rule, one_row(score, weight, u, std::numeric_limits<double>::min())).u[0];
}

TEST(LemmaFive, JumpLowersTheSumByHalfDeltaSquared) {
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> sym(-1, 1), unit(0, 1);
  std::size_t jumps = 0;
  double nearest = std::numeric_limits<double>::infinity();
  for (const double spread : {0.0, 0.1, 3.0, 50.0, 1e3, 1e6})
    for (const double delta : {1e-3, 0.1, 1.0, 5.0})
      for (int i = 0; i < 100; ++i) {
        Row row;
        for (std::size_t k = 0; k < 7; ++k) row.z.push_back(spread * sym(random));
        row.drawn = 1 + static_cast<std::size_t>(
                            i % 6);  // 6: all classes but the label, where the bound is the optimum
        const double bound = bound_of(row).convert_to<double>();
        const double u =
            bound - delta * (1 + 1e-9) - (i % 3 == 0 ? 0 : unit(random) * spread) - 1e-12 * spread;
        if (u < 0) continue;  // u is never negative
        const double now = jumped(row, u, delta);
        ASSERT_NEAR(now, bound, 1e-15 * (1 + bound));
        ++jumps;
        const Real lowered = term(row, u) - term(row, now);
        // now is a double and misses the bound by its last bit, where f is flat or falling.
        ASSERT_GE(lowered, Real(delta) * delta / 2 - 1e-15 * (1 + bound))
            << spread << ' ' << delta << ' ' << row.drawn;
        nearest = std::min(nearest, Real(lowered / (Real(delta) * delta / 2)).convert_to<double>());
      }
  std::cout << jumps << " jumps; the smallest fall is " << nearest << " of delta^2/2\n";
  EXPECT_GT(jumps, 500U);
  EXPECT_LT(nearest, 1.01);  // the bound is tight
}

// Algorithm 2 as printed draws with replacement and sums over draws: a class counted twice puts the bound
// above the optimal u, and raising u to it raises f. The rule counts the class once and does not jump.
TEST(LemmaFive, FailsIfAClassIsCountedTwice) {
  std::size_t broken = 0, lifted = 0;
  for (const double gap : {-1.0, 0.0, 3.0, 50.0})
    for (const double delta : {0.01, 0.1, 0.3}) {
      const Row row{{gap, 0}, 1};  // K = 2: the drawn class is the only one besides the label
      const double wrong = bound_of(row, 2).convert_to<double>(), u = wrong - delta;
      ASSERT_GE(u, 0);
      const Real lowered = term(row, u) - term(row, wrong);
      broken += lowered < Real(delta) * delta / 2;
      lifted += lowered < 0;
      const double now = jumped(row, u, delta, 2);  // drawn twice, so weight 2
      if (bound_of(row) - u > delta) continue;
      EXPECT_EQ(now, u) << gap << ' ' << delta;
    }
  EXPECT_EQ(broken, 12U);
  EXPECT_GT(lifted, 6U);
}

}  // namespace
}  // namespace truemax
