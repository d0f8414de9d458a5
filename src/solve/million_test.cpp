// W(e^t) and the root of the implicit 1 x 1 step, each on a million random inputs and at the extremes.
//
// 50-digit arithmetic on a million inputs would take an hour. Instead, the tests check one Newton correction
// of the answer in long double, whose 64 bits give an error of 1e-19 of the largest term of a residual: ten
// million times below the tolerance. That this correction equals the distance to the true solution is itself
// tested, on a few thousand of the inputs, against a converged Newton iteration in 50 digits. The extremes,
// where terms cancel beyond 64 bits, are all checked in 50 digits.
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/multiprecision/cpp_dec_float.hpp>
#include <cmath>
#include <iostream>
#include <limits>
#include <random>
#include <vector>

#include "core/instruction_sets.hpp"
#include "solve/implicit.hpp"
#include "solve/lambert.hpp"
#include "solve/paper_brent.hpp"

namespace truemax {
namespace {

using Digits50 = boost::multiprecision::cpp_dec_float_50;
static_assert(std::numeric_limits<long double>::digits >= 64);

constexpr int kMillion = 1000000, kChecked = 3000;
constexpr double kWanted = 1e-12;
// Largest allowed error of the quick check.
constexpr double kOfCheck = 1e-3 * kWanted;

long double minus_expm1_of_minus(long double u) {
  return -std::expm1(-u);
}
// exp(-u) is at most 1 here and needs no series: 50 digits leave 34 to spare.
Digits50 minus_expm1_of_minus(const Digits50& u) {
  return 1 - exp(-u);
}

// ---- W(e^t) ----

template <class Real>
Real lambert_correction(double t, const Real& w) {  // relative to w
  using std::log;
  return (Real(t) - w - log(w)) / (1 + w);
}

// The relative error of w against the solution in 50 digits.
double lambert_error(double t, double w) {
  Digits50 exact(w);
  for (int i = 0; i < 4; ++i) exact *= 1 + lambert_correction(t, exact);
  return Digits50((exact - Digits50(w)) / exact).convert_to<double>();
}

double random_t(std::mt19937_64& random, int i) {
  std::uniform_real_distribution<double> wide(-708, 708), narrow(-25, 25), exponent(-3, 308);
  if (i % 4 == 0) return wide(random);
  if (i % 4 == 1) return std::pow(10.0, exponent(random));
  return narrow(random);
}

TEST(LambertWExp, HasTwelveDigitsOnAMillionRandomInputs) {
  std::mt19937_64 random(11);
  double worst = 0;
  for (int i = 0; i < kMillion; ++i) {
    const double t = random_t(random, i), w = lambert_w_exp(t);
    const auto off = static_cast<double>(lambert_correction(t, static_cast<long double>(w)));
    worst = std::max(worst, std::abs(off));
    if (i < kChecked) {
      ASSERT_NEAR(off, lambert_error(t, w), kOfCheck) << t;
    }
  }
  std::cout << "largest relative error " << worst << '\n';
  EXPECT_LT(worst, kWanted);
}

TEST(LambertWExp, HasTwelveDigitsAtTheExtremes) {
  std::vector<double> list;
  for (const double size :
       {0.0, 1e-310, 1e-300, 1e-16, 1e-8, 1e-3, 0.5, 1.0, 2.5, 10.0, 18.0, 100.0, 700.0, 708.0})
    for (const double sign : {-1.0, 1.0})
      for (const double to : {-1e3, 0.0, 1e3}) {
        const double t = sign * size;
        list.push_back(to == 0 ? t : std::nextafter(t, to));
      }
  for (double t = 1e3; t < 1e308; t *= 10) list.push_back(t);
  list.push_back(1e10), list.push_back(std::nextafter(1e10, 0.0)), list.push_back(std::nextafter(1e10, 1e11));
  list.push_back(std::numeric_limits<double>::max());
  for (const double t : list) EXPECT_LT(std::abs(lambert_error(t, lambert_w_exp(t))), kWanted) << t;
  // Below, the true value is denormal and is rounded to a denormal or to 0.
  for (const double t :
       {-708.5, -720.0, -740.0, -745.0, -746.0, -1e4, -1e300, -std::numeric_limits<double>::max()})
    EXPECT_NEAR(lambert_w_exp(t), static_cast<double>(std::exp(static_cast<long double>(t))),
                std::numeric_limits<double>::denorm_min())
        << t;
}

// ---- the root ----

template <class Real>
struct Correction {
  Real u, a;
};

// One Newton step on the two stationarity equations of solve/implicit.hpp.
template <class Real>
Correction<Real> correction(const Problem& p, const Real& u, const Real& a) {
  using std::exp;
  using std::log;
  const Real e(p.e), gamma(p.gamma);
  const Real c = log(e * Real(p.o) / gamma) + Real(p.gap);
  const Real f1 = e * minus_expm1_of_minus(u) + (u - Real(p.u_old)) - gamma * a;
  const Real f2 = a + log(a) + u - c;
  const Real j11 = e * exp(-u) + 1, j22 = 1 + 1 / a, det = j11 * j22 + gamma;
  return {(-f1 * j22 - gamma * f2) / det, (f1 - j11 * f2) / det};
}

// The largest terms of an answer: u and a cannot be more accurate than the rounding of the inputs allows. C =
// log(e o/gamma) + gap is rounded to a double of the size of its terms; a change of C moves u by gamma
// a'/slope times as much and log(a) by the rest, over 1 + a.
struct Scale {
  double u, a;
};
Scale scale_of(const Problem& p, double u, double a) {
  const double of_c = std::abs(p.gap) + std::abs(std::log(p.e) + std::log(p.o) - std::log(p.gamma));
  const double pull = p.gamma * a / (1 + a), slope = p.e * std::exp(-u) + 1 + pull;
  const double of_g = -p.e * std::expm1(-u) + u + p.u_old;
  const double scale_u = std::max({1 + u, of_c * pull / slope, of_g / slope});
  return {scale_u, std::max(1.0, std::max({of_c, u, scale_u}) / (1 + a))};
}

struct QuickErrors {
  double u, a;  // absolute for u, relative for a
};

QuickErrors quick_errors(const Problem& p, double u, double a) {
  const auto off = correction<long double>(p, u, a);
  return {static_cast<double>(off.u), static_cast<double>(off.a / static_cast<long double>(a))};
}

// Against the solution in 50 digits.
QuickErrors true_errors(const Problem& p, double u, double a) {
  Digits50 exact_u(u), exact_a(a);
  for (int i = 0; i < 4; ++i) {
    const auto off = correction(p, exact_u, exact_a);
    exact_u += off.u;
    // In log(a), which keeps a positive.
    exact_a *= exp(off.a / exact_a);
  }
  return {Digits50(exact_u - u).convert_to<double>(), Digits50((exact_a - a) / exact_a).convert_to<double>()};
}

// If a is denormal its term vanishes: e (1 - exp(-u)) + u = u_old.
double error_without_pull(const Problem& p, double u) {
  const long double f = static_cast<long double>(p.e) * minus_expm1_of_minus(static_cast<long double>(u)) +
                        static_cast<long double>(u) - static_cast<long double>(p.u_old);
  return static_cast<double>(f /
                             (static_cast<long double>(p.e) * std::exp(-static_cast<long double>(u)) + 1));
}

constexpr double kResolved = 1e-290;

Problem random_problem(std::mt19937_64& random, int i) {
  std::uniform_real_distribution<double> unit(0, 1), sym(-1, 1);
  const double spread = i % 3 == 0 ? 1 : i % 3 == 1 ? 4 : 12, reach = i % 5 == 0 ? 600 : 40;
  return {std::pow(10.0, spread * sym(random)), std::pow(10.0, 9 * unit(random)), reach * sym(random),
          std::pow(10.0, spread * sym(random)), 20 * unit(random) * unit(random)};
}

TEST(SolveImplicit, IsTheMinimiserOnAMillionRandomInputs) {
  const std::vector<std::int64_t> sets = instruction_sets();
  for (const std::int64_t set : sets) {
    const OnInstructionSet here(set);
    std::mt19937_64 random(12);
    double worst_u = 0, worst_a = 0, plain_u = 0;
    for (int i = 0; i < kMillion; i += kSolveLanes) {
      ImplicitProblems many = kNoProblems;
      Problem list[kSolveLanes];
      for (std::size_t j = 0; j < kSolveLanes; ++j) {
        const Problem& p = list[j] = random_problem(random, i + static_cast<int>(j));
        many.e[j] = p.e, many.o[j] = p.o, many.gap[j] = p.gap, many.gamma[j] = p.gamma, many.u[j] = p.u_old;
      }
      solve_implicit(many, kSolveLanes);
      for (std::size_t j = 0; j < kSolveLanes; ++j) {
        const Problem& p = list[j];
        const double u = many.u[j], a = many.a[j];
        if (a < kResolved) {
          worst_u = std::max(worst_u, std::abs(error_without_pull(p, u)) / (1 + u));
          continue;
        }
        const Scale scale = scale_of(p, u, a);
        const QuickErrors off = quick_errors(p, u, a);
        worst_u = std::max(worst_u, std::abs(off.u) / scale.u);
        plain_u = std::max(plain_u, std::abs(off.u) / (1 + u));
        worst_a = std::max(worst_a, std::abs(off.a) / scale.a);
        if (i < kChecked && set == sets.front()) {
          const QuickErrors exact = true_errors(p, u, a);
          ASSERT_NEAR(off.u, exact.u, kOfCheck * scale.u);
          ASSERT_NEAR(off.a, exact.a, kOfCheck * scale.a);
        }
      }
    }
    std::cout << instruction_set_name(set) << ": largest error of u " << worst_u << " (to 1 + u: " << plain_u
              << "), of a " << worst_a << '\n';
    EXPECT_LT(worst_u, kWanted) << instruction_set_name(set);
    EXPECT_LT(plain_u, kWanted) << instruction_set_name(set);
    EXPECT_LT(worst_a, kWanted) << instruction_set_name(set);
  }
}

TEST(SolveImplicit, IsTheMinimiserAtTheExtremes) {
  double worst_u = 0, worst_a = 0;
  std::size_t resolved = 0, unresolved = 0;
  for (const double e : {1e-12, 1e-3, 1.0, 1e3, 1e12})
    for (const double o : {1.0, 145.0, 1e9})
      for (const double gap :
           {-1e15, -1e12, -1e9, -1e6, -700.0, -1.0, 0.0, 1.0, 80.0, 700.0, 1e6, 1e9, 1e12, 1e15})
        for (const double gamma : {5e-78, 5e-13, 5e-8, 0.5, 5e11, 5e26, 5e89})
          for (const double u_old : {0.0, 1e-9, 1.0, 100.0, 1e4}) {
            const Problem p{e, o, gap, gamma, u_old};
            ImplicitProblems one = kNoProblems;
            one.e[0] = e, one.o[0] = o, one.gap[0] = gap, one.gamma[0] = gamma, one.u[0] = u_old;
            solve_implicit(one, 1);
            const double u = one.u[0], a = one.a[0];
            double off_u = 0, off_a = 0;
            if (a < kResolved) {
              ++unresolved;
              off_u = std::abs(error_without_pull(p, u)) / (1 + u);
            } else {
              ++resolved;
              const Scale scale = scale_of(p, u, a);
              const QuickErrors exact = true_errors(p, u, a);
              off_u = std::abs(exact.u) / scale.u, off_a = std::abs(exact.a) / scale.a;
            }
            EXPECT_LT(off_u, kWanted)
                << e << ' ' << o << ' ' << gap << ' ' << gamma << ' ' << u_old << ": " << u << ' ' << a;
            EXPECT_LT(off_a, kWanted)
                << e << ' ' << o << ' ' << gap << ' ' << gamma << ' ' << u_old << ": " << u << ' ' << a;
            worst_u = std::max(worst_u, off_u), worst_a = std::max(worst_a, off_a);
          }
  std::cout << resolved << " problems, largest error of u " << worst_u << ", of a " << worst_a << "; "
            << unresolved << " where a is below 1e-290\n";
  EXPECT_GT(resolved, 3000U);
}

}  // namespace
}  // namespace truemax
