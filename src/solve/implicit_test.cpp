// The implicit 1 x 1 step: against the paper's own algorithm, and against stationarity in 50 digits.
#include "solve/implicit.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/multiprecision/cpp_dec_float.hpp>
#include <cmath>
#include <random>
#include <vector>

#include "core/instruction_sets.hpp"
#include "solve/paper_brent.hpp"

namespace truemax {
namespace {

using Digits50 = boost::multiprecision::cpp_dec_float_50;

// A single problem through the batched solver.
Solution solve_pair(const Problem& p) {
  ImplicitProblems many{};
  many.e[0] = p.e, many.o[0] = p.o, many.gap[0] = p.gap, many.gamma[0] = p.gamma, many.u[0] = p.u_old;
  const int evaluations = solve_implicit(many, 1);
  return {many.u[0], many.a[0], evaluations};
}

struct Errors {
  double u, a;
};

// The distance from (u, a) to the true minimiser, relative to 1 + u and to a: one Newton step of the two
// stationarity equations in 50 digits, accurate because the distance is tiny.
Errors errors_of(const Problem& p, const Solution& s) {
  const Digits50 e(p.e), gamma(p.gamma), u(s.u), a(s.a);
  const Digits50 c = log(e * Digits50(p.o) / gamma) + Digits50(p.gap);
  const Digits50 f1 = e * (1 - exp(-u)) + u - Digits50(p.u_old) - gamma * a;  // in u
  const Digits50 f2 = a + log(a) + u - c;                                     // in a
  // [e exp(-u) + 1, -gamma; 1, 1 + 1/a] (du, da) = -(f1, f2)
  const Digits50 j11 = e * exp(-u) + 1, j22 = 1 + 1 / a;
  const Digits50 det = j11 * j22 + gamma;
  const Digits50 du = (-f1 * j22 - gamma * f2) / det, da = (-j11 * f2 + f1) / det;
  return {std::abs(Digits50(du / (1 + u)).convert_to<double>()),
          std::abs(Digits50(da / a).convert_to<double>())};
}

std::vector<Problem> random_problems(int count, std::uint64_t seed, double spread) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> unit(0, 1), sym(-1, 1);
  std::vector<Problem> list;
  for (int i = 0; i < count; ++i)
    list.push_back({std::pow(10.0, spread * sym(random)), std::pow(10.0, 9 * unit(random)), 40 * sym(random),
                    std::pow(10.0, spread * sym(random)), 20 * unit(random) * unit(random)});
  return list;
}

std::vector<Problem> extreme_problems() {
  std::vector<Problem> list;
  for (const double e : {1e-12, 1e-3, 1.0, 1e3, 1e12})
    for (const double o : {1.0, 145.0, 1e9})
      for (const double gap :
           {-1e15, -1e12, -1e9, -1e6, -700.0, -1.0, 0.0, 1.0, 80.0, 700.0, 1e6, 1e9, 1e12, 1e15})
        for (const double gamma : {5e-78, 5e-13, 5e-8, 0.5, 5e11, 5e26, 5e89})
          for (const double u : {0.0, 1e-9, 1.0, 100.0, 1e4}) list.push_back({e, o, gap, gamma, u});
  return list;
}

TEST(SolveImplicit, IsTheMinimiserToTwelveDigits) {
  for (const std::int64_t set : instruction_sets()) {
    const OnInstructionSet here(set);
    double worst_u = 0, worst_a = 0;
    for (const double spread : {1.0, 4.0, 12.0})
      for (const Problem& p : random_problems(2000, 7, spread)) {
        const Solution s = solve_pair(p);
        if (s.a < 1e-290) continue;  // too small to be checked in double
        const Errors error = errors_of(p, s);
        worst_u = std::max(worst_u, error.u);
        // a inherits the rounding of C: relative to its largest term if terms cancel.
        const double scale = std::max(1.0, std::max(std::abs(p.gap), s.u) / (1 + s.a));
        worst_a = std::max(worst_a, error.a / scale);
      }
    EXPECT_LT(worst_u, 1e-12) << instruction_set_name(set);
    EXPECT_LT(worst_a, 1e-12) << instruction_set_name(set);
  }
}

TEST(SolveImplicit, IsFiniteAndStationaryAtTheExtremes) {
  int most = 0;
  for (const Problem& p : extreme_problems()) {
    const Solution s = solve_pair(p);
    ASSERT_TRUE(std::isfinite(s.u) && std::isfinite(s.a))
        << p.e << ' ' << p.o << ' ' << p.gap << ' ' << p.gamma;
    EXPECT_GE(s.u, 0);
    EXPECT_GE(s.a, 0);
    EXPECT_TRUE(std::isfinite(p.gamma * s.a));
    most = std::max(most, s.evaluations);
    if (s.a > 1e-290) {
      const double scale = std::max(1.0, std::max(std::abs(p.gap), s.u) / (1 + s.a));
      EXPECT_LT(errors_of(p, s).u, 1e-11)
          << p.e << ' ' << p.o << ' ' << p.gap << ' ' << p.gamma << ' ' << p.u_old;
      EXPECT_LT(errors_of(p, s).a / scale, 1e-11)
          << p.e << ' ' << p.o << ' ' << p.gap << ' ' << p.gamma << ' ' << p.u_old;
    }
  }
  EXPECT_LT(most, 300);  // never stopped by the iteration limit
}

// If the rounding of C alone dominates, there is no meaningful root, but results stay finite.
TEST(SolveImplicit, IsFiniteBeyondTheExtremes) {
  for (const Problem& p : extreme_problems())
    for (const double size : {-1e80, -1e38, -1e20, 1e20, 1e38, 1e80}) {
      const double most = 1e43 / std::sqrt(p.gamma);  // |x| |w|, for weights of float and 2^32 features
      const double gap = std::clamp(size, -most, most);
      const Solution s = solve_pair({p.e, p.o, gap, p.gamma, p.u_old});
      EXPECT_TRUE(std::isfinite(s.u) && s.u >= 0 && std::isfinite(s.a) && s.a >= 0 &&
                  std::isfinite(p.gamma * s.a))
          << p.e << ' ' << p.o << ' ' << gap << ' ' << p.gamma << ' ' << p.u_old << ": " << s.u << ' ' << s.a;
    }
}

TEST(SolveImplicit, MatchesThePapersBracketedBrent) {
  for (const double spread : {1.0, 3.0})
    for (const Problem& p : random_problems(3000, 3, spread)) {
      const Bracket bracket = paper_bracket(p);
      Solution printed = solve_as_printed(p, 1e-13), ours = solve_pair(p);
      const double slack =
          1e-9 * (1 + ours.u + p.e);  // the printed bounds subtract e from a number of its size
      EXPECT_GE(ours.u, bracket.low - slack);
      EXPECT_LE(ours.u, bracket.high + slack);
      EXPECT_NEAR(ours.u, printed.u, slack);
      EXPECT_NEAR(ours.a, printed.a, 1e-8 * (1 + ours.a) * (1 + p.e));
    }
}

TEST(SolveImplicit, NeverIncreasesItsTerm) {
  for (const Problem& p : random_problems(3000, 5, 2.0)) {
    const Solution s = solve_pair(p);
    const auto term = [&](double u, double a) {
      return u + std::exp(-u) + std::exp(std::log(p.o) + p.gap - a - u);
    };
    const double before = term(p.u_old, 0), after = term(s.u, s.a);
    EXPECT_LE(after, before * (1 + 1e-12));
  }
}

// A result is bit for bit the same at every position and with any neighbours.
TEST(SolveImplicit, IsIndependentOfOtherTerms) {
  const std::vector<Problem> list = random_problems(400, 9, 3.0);
  for (std::size_t first = 0; first + kSolveLanes <= list.size(); first += kSolveLanes)
    for (std::size_t count = 1; count <= kSolveLanes; ++count) {
      ImplicitProblems many{};
      for (std::size_t i = 0; i < count; ++i) {
        const Problem& p = list[first + i];
        many.e[i] = p.e, many.o[i] = p.o, many.gap[i] = p.gap, many.gamma[i] = p.gamma, many.u[i] = p.u_old;
      }
      solve_implicit(many, count);
      for (std::size_t i = 0; i < count; ++i) {
        const Solution alone = solve_pair(list[first + i]);
        EXPECT_EQ(many.u[i], alone.u);
        EXPECT_EQ(many.a[i], alone.a);
      }
    }
}

}  // namespace
}  // namespace truemax
