// A rule is a method: a function of the scalars of one step. It never sees W, D, threads or memory. The
// trainer applies its result as  w_k <- (w_k + sum_i C[i,k] x_i) / r_k  over the step's n rows.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

#include "core/options.hpp"

namespace truemax {

// The input of a step: n rows and the distinct classes among the drawn ones and the rows' labels, which are
// the columns.
struct StepView {
  std::size_t rows = 1;           // n
  std::size_t columns = 2;        // classes
  const double* score = nullptr;  // Z [n][columns]
  const double* weight =
      nullptr;  // o [n][columns]: 0 for a class that was not drawn and for the row's own label
  const std::uint32_t* label = nullptr;  // [n]: the column of the row's label
  const double* gram = nullptr;          // [n][n], if MethodInfo::needs_gram; for one row always |x|^2
  const double* ridge = nullptr;         // r [columns]; null: all 1
  // [columns], if there is an intercept outside the ridge, else null. Then r divides only Z minus the
  // intercept, and 1 of every entry of the Gram matrix comes from the intercept.
  const double* free_intercept = nullptr;
  const double* row_weight = nullptr;  // [n]
  const double* log_q = nullptr;       // [columns]: log of the mean number of draws of a class in a step, if
                                       // MethodInfo::needs_log_q
  const double* smoothed = nullptr;    // [n][columns]: scores of the smoothed weights, if has_companion
  double step = 0;                     // eta N / n: the step size of one row
  bool complete = false;               // every step has all classes with weight 1
  double decayed = 1;                  // step / first step, in (0, 1]
};

// The output of a step.
struct StepResult {
  double* coefficient = nullptr;  // C [n][columns]
  double* u = nullptr;            // [n]; in: old, out: new
};

// Row i of a step, for rules that take their rows one by one.
struct StepRow {
  const double* score;
  const double* weight;
  double* coefficient;
  std::size_t label;
  double e;  // step size times the row's weight
};
inline StepRow row_of(const StepView& view, const StepResult& out, std::size_t i) {
  const std::size_t at = i * view.columns;
  const double* weight = view.weight == nullptr ? nullptr : view.weight + at;  // null if nothing is drawn
  return {view.score + at, weight, out.coefficient + at, view.label[i], view.step * view.row_weight[i]};
}

// Several steps of one row and one drawn class each, which share no row and no class, so that a rule can
// solve them side by side. Entry i of every array is step i. Without ridge.
inline constexpr std::size_t kPairSteps = 8;
struct PairSteps {
  std::array<double, kPairSteps> score_drawn, score_label, weight, squared_norm, row_weight;
  std::array<double, kPairSteps> u;            // in: old, out: new
  std::array<double, kPairSteps> coefficient;  // out: C of the label; that of the drawn class is its negative
};

// A step of one row and whole blocks of classes, in float32. Scores and norms already include the ridge and
// an intercept outside it. Unused lanes have the score kNoScore.
inline constexpr float kNoScore = -1e30F;
struct BlockStepView {
  double e = 1;                            // step size times the row's weight
  double decayed = 1;                      // as in StepView
  bool complete = false;                   // as in StepView
  double label_score = 0, label_norm = 1;  // label_norm: norm of the label's block
  std::size_t blocks = 0;
  float* score = nullptr;          // [blocks][16]; overwritten
  const double* norm = nullptr;    // [blocks]: |x|^2 after the ridge
  const double* weight = nullptr;  // o [blocks], > 0
  double u = 0;                    // in: old, out: new
  float* coefficient = nullptr;    // out: C [blocks][16], except the label's
  double label_coefficient = 0;    // out
};

// The function of (W, u) whose gradient a method's small steps follow on average; tested for every method in
// mean_test.cpp.
enum class Objective {
  double_sum,        // the paper's f with free u (eq:f), or its family with alpha; has the softmax optimum
  double_sum_exact,  // the same with u the row's exact normaliser, where its gradient is that of softmax
  softmax,           // the softmax log-loss itself
  one_vs_each,       // sum over classes of log(1 + exp(z_k - z_y))
  noise_contrast,    // binary log-losses of the label against the drawn classes
  sampled_softmax,   // softmax over the label and the drawn classes
  softplus_bound,    // an upper bound on the log-sum from u and softplus functions of the scores
};

// A method's line in the table of methods, for the help and for the trainer.
struct MethodInfo {
  std::string_view name;
  std::string_view description;  // one sentence
  bool biased;                   // its fixed point is not the softmax optimum
  std::size_t most_rows;         // largest n it takes
  std::size_t most_classes;      // largest m it takes
  std::string_view cost;         // per step
  Objective objective;
  bool needs_gram = false;     // wants the Gram matrix of several rows
  bool needs_log_q = false;    // wants StepView::log_q
  bool whole_set = false;      // every step has all classes; nothing is drawn
  bool exact_start = false;    // u starts at log K, exact for W = 0; else at 0
  bool refreshes = false;      // u is the exact normaliser, recomputed every --refresh epochs
  bool projects = false;       // with ridge, W is projected onto a ball
  bool has_companion = false;  // wants StepView::smoothed; its smoothing(view) is their rate
  bool can_diverge = false;    // if it does, the run stops with a message
  bool u_rate = false;         // u has its own rate (--rho, --sox-rate) instead of the step
  bool signed_u = false;       // u may be negative
  bool by_weight = false;      // weights move by steps of their own (train/adam_lane.hpp), not by C x
  bool all_rows = false;       // every step has all rows: one step an epoch (train/lbfgs_lane.hpp)
};
inline constexpr std::size_t kAnyNumber = std::numeric_limits<std::size_t>::max();

// Options of single methods.
template <template <class> class As>
struct RuleFields {
  As<double> delta = by_default<As>(1.0);                        // umax
  As<double> double_sum_alpha = by_default<As>(0.0);             // vanilla, umax
  As<bool> log_q = by_default<As>(true);                         // nce, importance
  As<bool> label_noise = by_default<As>(false);                  // nce
  As<std::uint64_t> refresh = by_default<As>(std::uint64_t{1});  // raman: epochs
  As<double> running_rate = by_default<As>(0.5);                 // composition
  As<double> rho = by_default<As>(1.0);                          // prox, scent
  As<bool> rho_falls = by_default<As>(true);                     // prox, scent
  As<double> sox_rate = by_default<As>(0.3);                     // sox
  As<double> softplus_bend = by_default<As>(1.0);                // softplus
  void describe(OptionTable& table);
};
using RuleOptions = RuleFields<Plain>;

// What a rule may know about the whole problem.
struct ProblemInfo {
  double rows = 0;              // N
  double total_weight = 0;      // sum of the row weights
  double classes = 0;           // K
  double longest_row = 0;       // max |x|
  double ridge = 0;             // mu
  bool free_intercept = false;  // there is an intercept outside the ridge

  // The ball that holds the optimal W (Lemma 1), infinite without ridge.
  double weight_bound() const;
  // The largest optimal u (Lemma 2), infinite without ridge.
  double u_bound() const;
};

template <class R>
concept Rule = requires(R& rule, const StepView& view, StepResult& result) {
  { R::kInfo } -> std::convertible_to<const MethodInfo&>;
  { rule.step(view, result) }
  noexcept;
}
&&std::constructible_from<R, const RuleOptions&, const ProblemInfo&>;

// The largest step that a rule must handle.
struct StepShape {
  std::size_t rows = 1, drawn = 1;  // n, drawn classes
  std::size_t columns = 2;          // these, and labels that were not drawn
};
// A rule that needs scratch memory allocates it in reserve(), called once before the first step, because
// step() must not throw.
template <class R>
void reserve_memory(R& rule, const StepShape& shape) {
  if constexpr (requires { rule.reserve(shape); }) rule.reserve(shape);
}

// A rule that can solve independent steps side by side, if its options allow (takes_pairs). Each must have
// the bits that step() gives.
template <class R>
concept PairRule = Rule<R> && requires(R& rule, PairSteps& pairs, std::size_t count, double step) {
  { rule.takes_pairs() }
  noexcept->std::same_as<bool>;
  { rule.step_pairs(pairs, count, step) }
  noexcept;
};

// A rule that takes one row and whole blocks of classes at once, in float32. False: out of the range of
// float32; only scores and coefficients were overwritten, and the caller must use step().
template <class R>
concept BlockRule = Rule<R> && requires(const R& rule, BlockStepView& view) {
  { rule.step_blocks(view) }
  noexcept->std::same_as<bool>;
};

}  // namespace truemax
