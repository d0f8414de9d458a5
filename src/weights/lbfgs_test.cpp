// The kernels of L-BFGS, on every instruction set, against plain loops in double.
#include "weights/lbfgs.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "weights/test_support.hpp"

namespace truemax {
namespace {

Weights random_vector(Engine& random, std::size_t classes, std::size_t features, bool intercept) {
  Weights v(classes, features, intercept);
  std::vector<float> of_class(features);
  for (ClassId k = 0; k < classes; ++k) {
    for (float& one : of_class) one = wide(random, 1);
    v.set_class(k, of_class);
    if (intercept) v.intercept()[k] = wide(random, 1);
  }
  return v;
}

LineUnits random_units(Engine& random, const Weights& of) {
  LineUnits units;
  for (std::size_t f = 0; f < of.features(); ++f) units.features.push_back(std::abs(wide(random, 1)));
  units.intercepts.assign(of.blocks(), 0.5F);
  return units;
}

// Class by class: work(number of the weight in all vectors, unit).
template <class Work>
void each_weight(const Weights& of, const LineUnits& units, const Work& work) {
  for (ClassId k = 0; k < of.classes(); ++k) {
    for (std::size_t f = 0; f < of.features(); ++f)
      work([=](const Weights& v) { return static_cast<double>(v.lane(k)[f * kLanes]); },
           static_cast<double>(units.features[f]));
    if (of.has_intercept())
      work([=](const Weights& v) { return v.intercept_of(k); }, static_cast<double>(units.intercepts[0]));
  }
}

struct Shape {
  std::size_t classes, features;
  bool intercept;
};
constexpr Shape kShapes[] = {{1, 1, false}, {5, 40, true}, {40, 300, true}, {33, 129, false}};

TEST(LbfgsKernels, LinesAreAllOfWOnce) {
  for (const Shape& shape : {Shape{5, 7, true}, Shape{40, 300, true}, Shape{17, 400000, false}}) {
    const Weights w(shape.classes, shape.features, shape.intercept);
    std::vector<int> seen(w.blocks() * w.features() + w.blocks(), 0);
    const std::vector<Lines> tasks = lines_of(w);
    EXPECT_LT(tasks.size(), 2000U);
    for (const Lines& lines : tasks)
      for (std::size_t l = 0; l < lines.count; ++l) ++seen[lines.block * w.features() + lines.from + l];
    for (std::size_t l = 0; l < seen.size(); ++l)
      ASSERT_EQ(seen[l], l < w.blocks() * w.features() || shape.intercept ? 1 : 0) << l;
  }
}

TEST(LbfgsKernels, StepsAndPairs) {
  for (const std::int64_t target : instruction_sets())
    for (const Shape& shape : kShapes) {
      const OnInstructionSet here(target);
      Engine random(1);
      const auto vector = [&] {
        return random_vector(random, shape.classes, shape.features, shape.intercept);
      };
      const Weights w = vector(), d = vector(), g = vector(), old_g = vector();
      const LineUnits units = random_units(random, w);
      Weights to = vector(), s = vector(), y = vector();
      float largest = 0;
      double squares = 0;
      for (const Lines& lines : lines_of(w)) {
        largest = std::max(largest, step_along(to, w, d, units, lines, 0.25F));
        squares += find_pair(s, y, {to, w, g, old_g}, units, lines);
      }
      EXPECT_EQ(static_cast<double>(largest), to.largest());
      double wanted = 0;
      each_weight(w, units, [&](const auto& of, double unit) {
        ASSERT_NEAR(of(to), of(w) + 0.25 * unit * of(d), 1e-6 * (std::abs(of(w)) + std::abs(unit * of(d))));
        ASSERT_NEAR(of(s) * unit, of(to) - of(w), 1e-6 * std::abs(of(to) - of(w)));
        ASSERT_NEAR(of(y), of(g) - of(old_g), 1e-6 * (std::abs(of(g)) + std::abs(of(old_g))));
        wanted += of(s) * of(s);
      });
      EXPECT_NEAR(squares, wanted, 1e-9 * wanted);
    }
}

TEST(LbfgsKernels, Gradients) {
  for (const std::int64_t target : instruction_sets())
    for (const Shape& shape : kShapes)
      for (const std::size_t parts : {1U, 3U})
        for (const float ridge : {0.0F, 0.3F}) {
          const OnInstructionSet here(target);
          Engine random(2);
          const auto vector = [&] {
            return random_vector(random, shape.classes, shape.features, shape.intercept);
          };
          const Weights w = vector(), d = vector();
          std::vector<Weights> part;
          for (std::size_t p = 0; p < parts; ++p) part.push_back(vector());
          const LineUnits units = random_units(random, w);
          Weights g = vector();
          GradientSums sums;
          for (const Lines& lines : lines_of(w)) {
            const std::size_t count = lines.count * kLanes;
            std::vector<float> sum(parts * count);
            for (std::size_t p = 0; p < parts; ++p) {
              const float* const from =
                  lines.block < w.blocks() ? part[p].block(lines.block) : part[p].intercept().data();
              std::copy_n(from + lines.from * kLanes, count, &sum[p * count]);
            }
            const GradientSums some = finish_gradient(g, sum.data(), parts, count, w, d, units, lines, ridge);
            sums.slope += some.slope, sums.gradient += some.gradient, sums.weights += some.weights;
          }
          double slope = 0, gradient = 0, weights = 0, size = 0;
          each_weight(w, units, [&](const auto& of, double unit) {
            double pull = 0, all = static_cast<double>(ridge) * std::abs(of(w));
            for (const Weights& one : part) pull += of(one), all += std::abs(of(one));
            const double wanted = unit * (static_cast<double>(ridge) * of(w) - pull);
            ASSERT_NEAR(of(g), wanted, 1e-6 * unit * all);
            slope += of(d) * of(g), size += std::abs(of(d) * of(g));
            gradient += of(g) * of(g), weights += of(w) * of(w);
          });
          EXPECT_NEAR(sums.slope, slope, 1e-9 * size);
          EXPECT_NEAR(sums.gradient, gradient, 1e-9 * gradient);
          EXPECT_NEAR(sums.weights, ridge > 0 ? weights : 0, 1e-9 * weights);
        }
}

TEST(LbfgsKernels, ProductsAndDirections) {
  for (const std::int64_t target : instruction_sets())
    for (const Shape& shape : kShapes)
      for (const std::size_t vectors : {0U, 1U, 4U, 11U}) {
        const OnInstructionSet here(target);
        Engine random(3);
        const auto vector = [&] {
          return random_vector(random, shape.classes, shape.features, shape.intercept);
        };
        const Weights a = vector(), b = vector();
        std::vector<Weights> v;
        std::vector<const Weights*> at;
        std::vector<float> factors;
        for (std::size_t i = 0; i < vectors; ++i) v.push_back(vector()), factors.push_back(wide(random, 1));
        for (const Weights& one : v) at.push_back(&one);
        const LineUnits units = random_units(random, a);
        Weights d = vector();
        std::vector<double> out(2 * vectors, 0.0);
        DirectionSums sums;
        for (const Lines& lines : lines_of(a)) {
          add_products(at, a, b, lines, out.data());
          const DirectionSums some = combine(d, a, -0.5F, at, factors, units, lines);
          sums.slope += some.slope, sums.largest = std::max(sums.largest, some.largest);
        }
        std::vector<double> wanted(2 * vectors, 0.0), size = wanted;
        double slope = 0, largest = 0, size_of_slope = 0;
        each_weight(a, units, [&](const auto& of, double unit) {
          double sum = -0.5 * of(a), all = std::abs(sum);
          for (std::size_t i = 0; i < vectors; ++i) {
            wanted[2 * i] += of(v[i]) * of(a), wanted[2 * i + 1] += of(v[i]) * of(b);
            size[2 * i] += std::abs(of(v[i]) * of(a)), size[2 * i + 1] += std::abs(of(v[i]) * of(b));
            const double part = static_cast<double>(factors[i]) * of(v[i]);
            sum += part, all += std::abs(part);
          }
          ASSERT_NEAR(of(d), sum, 2e-6 * all);
          slope += of(d) * of(a), size_of_slope += std::abs(of(d) * of(a));
          largest = std::max(largest, unit * std::abs(of(d)));
        });
        for (std::size_t i = 0; i < out.size(); ++i) EXPECT_NEAR(out[i], wanted[i], 1e-6 * size[i]) << i;
        EXPECT_NEAR(sums.slope, slope, 1e-9 * size_of_slope);
        EXPECT_NEAR(static_cast<double>(sums.largest), largest, 1e-6 * largest);
      }
}

TEST(LbfgsKernels, SayIfANumberIsNotFinite) {
  for (const std::int64_t target : instruction_sets())
    for (const float bad :
         {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      const OnInstructionSet here(target);
      Engine random(4);
      const Weights w = random_vector(random, 20, 50, false), g = random_vector(random, 20, 50, false);
      const LineUnits units = random_units(random, w);
      Weights d = random_vector(random, 20, 50, false), to = random_vector(random, 20, 50, false);
      d.block(1)[17 * kLanes + 2] = bad;
      bool finite = true, same = true;
      for (const Lines& lines : lines_of(w))
        finite &= std::isfinite(step_along(to, w, d, units, lines, 1.0F));
      EXPECT_FALSE(finite);
      const Weights* const v[] = {&d};
      const float factor[] = {1.0F};
      for (const Lines& lines : lines_of(w))
        same &= std::isfinite(combine(to, g, 1.0F, v, factor, units, lines).largest);
      EXPECT_FALSE(same);
    }
}

}  // namespace
}  // namespace truemax
