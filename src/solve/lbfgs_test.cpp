#include "solve/lbfgs.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <utility>
#include <vector>

namespace truemax {
namespace {

using Vector = std::vector<double>;

double times(const Vector& a, const Vector& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// 1/2 x A x - b x with A of falling eigenvalues in a random basis.
struct Quadratic {
  explicit Quadratic(std::size_t n, std::uint64_t seed) : a(n, Vector(n, 0.0)), b(n) {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal;
    for (double& v : b) v = normal(random);
    for (std::size_t e = 0; e < n; ++e) {
      Vector v(n);
      for (double& one : v) one = normal(random);
      const double size = std::pow(0.5, static_cast<double>(e)) / times(v, v);
      for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j < n; ++j) a[i][j] += size * v[i] * v[j];
    }
  }
  Vector gradient(const Vector& x) const {
    Vector g(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) g[i] = times(a[i], x) - b[i];
    return g;
  }
  double value(const Vector& x) const {
    double sum = -times(b, x);
    for (std::size_t i = 0; i < x.size(); ++i) sum += 0.5 * x[i] * times(a[i], x);
    return sum;
  }
  std::vector<Vector> a;
  Vector b;
};

// The two loops over the vectors themselves (Nocedal & Wright, Algorithm 7.4).
Vector two_loops(const std::vector<std::pair<Vector, Vector>>& pairs, Vector q) {
  std::vector<double> a(pairs.size());
  for (std::size_t i = pairs.size(); i-- > 0;) {
    const auto& [s, y] = pairs[i];
    a[i] = times(s, q) / times(s, y);
    for (std::size_t j = 0; j < q.size(); ++j) q[j] -= a[i] * y[j];
  }
  if (!pairs.empty()) {
    const auto& [s, y] = pairs.back();
    for (double& v : q) v *= times(s, y) / times(y, y);
  }
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const auto& [s, y] = pairs[i];
    const double b = times(y, q) / times(s, y);
    for (std::size_t j = 0; j < q.size(); ++j) q[j] += (a[i] - b) * s[j];
  }
  for (double& v : q) v = -v;
  return q;
}

// Slots as a lane uses them.
struct Memory {
  explicit Memory(std::size_t room) : pairs(room), s(room), y(room) {}
  void add(const Vector& move, const Vector& change) {
    const std::size_t to = pairs.next_slot();
    s[to] = move, y[to] = change;
    Vector by_move(s.size(), 1e300), by_change = by_move;  // of empty slots: must not be read
    for (std::size_t i = 0; i < s.size(); ++i)
      if (!s[i].empty()) by_move[i] = times(s[i], change), by_change[i] = times(y[i], change);
    pairs.add(by_move, by_change);
  }
  Vector direction(const Vector& g) const {
    Vector by_move(s.size(), 1e300), by_change = by_move, of_move(s.size()), of_change(s.size());
    for (std::size_t i = 0; i < s.size(); ++i)
      if (!s[i].empty()) by_move[i] = times(s[i], g), by_change[i] = times(y[i], g);
    CurvaturePairs::Factors factors{of_move, of_change};
    pairs.direction(by_move, by_change, factors);
    Vector d = g;
    for (double& v : d) v *= factors.of_gradient;
    for (std::size_t i = 0; i < pairs.count(); ++i) {
      const std::size_t at = pairs.slot(i);
      for (std::size_t j = 0; j < d.size(); ++j) d[j] += of_move[at] * s[at][j] + of_change[at] * y[at][j];
    }
    return d;
  }
  CurvaturePairs pairs;
  std::vector<Vector> s, y;
};

TEST(CurvaturePairs, DirectionIsThatOfTheTwoLoops) {
  for (const std::size_t room : {1U, 2U, 5U, 12U}) {
    constexpr std::size_t kSize = 9;
    const Quadratic f(kSize, 7);
    Memory memory(room);
    std::vector<std::pair<Vector, Vector>> pairs;
    std::mt19937_64 random(3);
    std::normal_distribution<double> normal;
    Vector x(kSize, 0.0);
    for (int t = 0; t < 15; ++t) {
      const Vector g = f.gradient(x), wanted = two_loops(pairs, g), found = memory.direction(g);
      for (std::size_t i = 0; i < kSize; ++i)
        ASSERT_NEAR(found[i], wanted[i], 1e-6 * std::sqrt(times(wanted, wanted))) << room << ' ' << t;
      Vector next = x;
      for (double& v : next) v += normal(random);
      Vector s = next, y = f.gradient(next);
      for (std::size_t i = 0; i < kSize; ++i) s[i] -= x[i], y[i] -= g[i];
      memory.add(s, y);
      pairs.emplace_back(s, y);
      if (pairs.size() > room) pairs.erase(pairs.begin());
      ASSERT_EQ(memory.pairs.count(), pairs.size());
      x = next;
    }
    memory.pairs.clear();
    const Vector g = f.gradient(x), d = memory.direction(g);
    for (std::size_t i = 0; i < kSize; ++i) EXPECT_EQ(d[i], -g[i]) << "without pairs, the gradient";
  }
}

// Along such directions with exact lengths, a quadratic function of n numbers is minimised in n steps.
TEST(CurvaturePairs, MinimisesAQuadraticFunctionInAsManyStepsAsItHasNumbers) {
  constexpr std::size_t kSize = 6;
  const Quadratic f(kSize, 1);
  Memory memory(kSize);
  Vector x(kSize, 0.0), g = f.gradient(x);
  const double first = times(g, g);
  for (std::size_t t = 0; t < kSize; ++t) {
    const Vector d = memory.direction(g);
    Vector curved(kSize);
    for (std::size_t i = 0; i < kSize; ++i) curved[i] = times(f.a[i], d);
    const double length = -times(d, g) / times(d, curved);
    Vector s = d, y = g;
    for (std::size_t i = 0; i < kSize; ++i) s[i] *= length, x[i] += s[i];
    g = f.gradient(x);
    for (std::size_t i = 0; i < kSize; ++i) y[i] = g[i] - y[i];
    memory.add(s, y);
  }
  EXPECT_LT(times(g, g), 1e-16 * first);
}

TEST(LineSearch, EndsWhereTheLossHasFallen) {
  for (const double least : {0.9, 0.4, 0.1, 1e-3, 1e-6}) {
    // Least at `least`, from loss 1 at 0.
    const auto loss = [&](double t) { return 1 + (t - least) * (t - least) - least * least; };
    const auto slope = [&](double t) { return 2 * (t - least); };
    LineSearch search;
    search.least = 1;
    search.start(1, slope(0), 1);
    EXPECT_EQ(search.length, 1);
    int tries = 0;
    for (;; ++tries) {
      ASSERT_LT(tries, 20) << least;
      const auto verdict = search.judge(loss(search.length), slope(search.length));
      if (verdict == LineSearch::Verdict::accepted) break;
      ASSERT_EQ(verdict, LineSearch::Verdict::shorter);
    }
    EXPECT_LE(loss(search.length), 1) << least;
    EXPECT_GT(search.length, 0);
  }
}

// The loss does not change any more in its last digits: the slope decides.
TEST(LineSearch, TrustsTheSlopeWhereLossesAreRounded) {
  LineSearch search;
  search.least = 1;
  search.start(1, -1e-12, 1);
  EXPECT_EQ(search.judge(1 + 1e-9, -1e-13), LineSearch::Verdict::accepted);
  search.start(1, -1e-12, 1);
  EXPECT_EQ(search.judge(1 + 1e-9, 1e-11), LineSearch::Verdict::shorter) << "beyond the optimum";
  search.start(1, -1e-12, 1);
  EXPECT_EQ(search.judge(1 + 1e-5, -1e-13), LineSearch::Verdict::shorter) << "more than rounding";
  // Many such steps together are no more than one.
  LineSearch drifts;
  drifts.least = 1;
  drifts.start(1 + 0.9e-7, -1e-12, 1);
  EXPECT_EQ(drifts.judge(1 + 1.8e-7, -1e-13), LineSearch::Verdict::shorter);
}

TEST(LineSearch, EndsForAnyNumbers) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  for (const double start : {1e-300, 1.0, 1e300})
    for (const double loss : {kInfinite, kNaN, 1e308, 1e300, 2e-300})
      for (const double slope : {kInfinite, -kInfinite, kNaN, 1e308, 1.0, 0.0, -1e-300, -1.0}) {
        LineSearch search;
        search.least = start;
        search.start(start, -1e-3 * start, 1);
        LineSearch::Verdict verdict = LineSearch::Verdict::shorter;
        int tries = 0;
        for (; verdict == LineSearch::Verdict::shorter; ++tries) {
          ASSERT_LT(tries, 30);
          ASSERT_TRUE(search.length > 0 && search.length <= 1) << start << ' ' << loss << ' ' << slope;
          verdict = search.judge(loss, slope);
        }
        if (loss > start * 1.1 || std::isnan(loss)) {
          EXPECT_EQ(verdict, LineSearch::Verdict::failed) << start << ' ' << loss << ' ' << slope;
        }
      }
}

}  // namespace
}  // namespace truemax
