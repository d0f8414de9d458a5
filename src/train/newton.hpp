// Newton's method for linear models of few rows, features and classes: the optimum of
//   sum_i weight_i loss_i + mu/2 |W|^2        (--ridge-by-spread: mu/2 sum_f spread_f^2 |w_f|^2)
// over all rows and classes at once, in double. It needs no step size, and features of very different scales
// do not slow it down.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "data/data_view.hpp"
#include "train/problem.hpp"
#include "train/recipe.hpp"
#include "weights/row_products.hpp"
#include "weights/weights.hpp"

namespace truemax {

enum class NewtonEnd {
  optimum,
  steps,    // all that were asked for: not there yet
  stuck,    // no step leads further, but this is not the optimum
  time,     // is up
  stopped,  // `stop` was raised
};

// The rows of a problem, centred (if there is an intercept outside the ridge) and divided by the spread of
// each feature. That changes the numbers Newton's method works with, not the problem.
class NewtonProblem {
 public:
  NewtonProblem(const DataView& data, const Recipe& recipe);

  // A model in those units: [features + 1][lanes], the last row is the intercept.
  using Point = std::vector<double>;
  // The intercepts of log class frequencies, W = 0; and conversions.
  Point start() const;
  Point from(const Weights& weights) const;
  double largest_weight(const Point& at) const;  // or intercept, as write() writes it
  void write(const Point& at, Weights& weights) const;

  struct Goal {
    double ridge = 0;
    bool by_spread = false;
    std::uint64_t most_steps = 0;
    double precision = 0;  // ends where less is to be gained, as a share of the mean loss
  };
  // Moves `at` to the optimum, or on its way there.
  NewtonEnd solve(const Goal& goal, Point& at, const std::atomic<bool>& stop,
                  const std::function<bool()>& time_is_up = {}) const;

  double objective(const Goal& goal, const Point& at) const;
  // By example of `rows`, times its weight.
  std::vector<double> losses(const DataView& rows, const Point& at) const;

  // The unit of the ridge: the mean over rows of |x|^2, of centred x (by_spread: in units of the spread).
  double unit_of_ridge(bool by_spread) const;
  // The ratio of the largest spread to the smallest.
  double range_of_spreads() const;

  static std::uint64_t bytes(const Problem& problem);

 private:
  class Solver;
  std::vector<double> ridges(const Goal& goal) const;  // of a feature in its spread; the last: the intercept
  DoubleRows divided(const DataView& data) const;      // by the spreads
  // Of the scores: the intercept, less what centring takes.
  std::vector<double> base_of(const Point& at) const;

  DataView data_;
  std::size_t features_, classes_, lanes_;
  bool intercept_, ridge_intercept_;
  DoubleRows x_;                         // divided by the spreads; what centring takes is in base_of()
  std::vector<double> centre_, spread_;  // by feature
  std::vector<bool> varies_;             // false: the feature says nothing
};

// The fit of a run: at most options.newton steps from the weights of the state on. If stopped, the weights
// are as before.
NewtonEnd newton_fit(const DataView& data, const Recipe& recipe, Weights& weights,
                     const std::atomic<bool>& stop, const std::function<bool()>& time_is_up = {});

}  // namespace truemax
