// A rule is a method: a pure function of the scalars of one step. It never sees W, D, threads or memory. The
// trainer applies its result as  w_k <- (w_k + sum_i C[i,k] x_i) / r_k  over the step's n rows.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

#include "core/options.hpp"

namespace truemax {

// What a rule is given: n rows, m drawn classes, then the labels of the n rows as columns m ... m + n - 1.
struct StepView {
  std::size_t rows = 1;            // n
  std::size_t drawn = 1;           // m, distinct classes
  const double* score = nullptr;   // Z [n][m + n]
  const double* weight = nullptr;  // o [n][m]; 0 where a drawn class is the row's own label
  const double* log_q =
      nullptr;  // [n][m] log of the draw's probabilities, for methods that ask for it; else null
  const double* gram = nullptr;        // [n][n]; for one row |x|^2
  const double* ridge = nullptr;       // r [m + n]; null: all 1
  const double* row_weight = nullptr;  // [n]
  double step = 0;                     // eta N
};

// What it answers.
struct StepResult {
  double* coefficient = nullptr;  // C [n][m + n]
  double* u = nullptr;            // [n]; holds the old u on entry, the new one on return
};

// Several steps of one row and one drawn class each, independent of each other (no row and no class in
// common): what a rule may solve side by side. Entry i of every array is step i; there is no ridge here.
inline constexpr std::size_t kPairSteps = 8;
struct PairSteps {
  std::array<double, kPairSteps> score_drawn, score_label, weight, squared_norm, row_weight;
  std::array<double, kPairSteps> u;            // in: old, out: new
  std::array<double, kPairSteps> coefficient;  // out: C of the label; that of the drawn class is its negative
};

// What a method is, for people: the line of the table of methods.
struct MethodInfo {
  std::string_view name;
  std::string_view description;  // one sentence
  bool biased;                   // its fixed point is not the softmax optimum
  std::size_t most_rows;         // largest n it takes
  std::size_t most_classes;      // largest m it takes
  std::string_view cost;         // per step
};

inline constexpr std::size_t kAnyNumber = std::numeric_limits<std::size_t>::max();

// Options that belong to single methods.
struct RuleOptions {
  double delta = 1;  // umax

  void describe(OptionTable& table);
};

template <class R>
concept Rule = requires(const R& rule, const StepView& view, StepResult& result) {
  { R::kInfo } -> std::convertible_to<const MethodInfo&>;
  { rule.step(view, result) }
  noexcept;
}
&&std::constructible_from<R, const RuleOptions&>;

// A rule that solves independent steps side by side. Each must come out with the bits that step() gives it.
template <class R>
concept PairRule = Rule<R> && requires(const R& rule, PairSteps& pairs, std::size_t count, double step) {
  { rule.step_pairs(pairs, count, step) }
  noexcept;
};

}  // namespace truemax
