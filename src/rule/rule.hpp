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

// What a rule is given: n rows and some classes, each once: those drawn and the labels of the rows. They are
// the columns of what follows.
struct StepView {
  std::size_t rows = 1;           // n
  std::size_t columns = 2;        // classes
  const double* score = nullptr;  // Z [n][columns]
  const double* weight =
      nullptr;  // o [n][columns]: 0 for a class that was not drawn, and for the row's own label
  const std::uint32_t* label = nullptr;  // [n]: the column of the row's label
  const double* gram = nullptr;          // [n][n], for rules that ask for it; for one row always |x|^2
  const double* ridge = nullptr;         // r [columns]; null: all 1
  // [columns], where there is an intercept outside the ridge: then Z without it is what r divides, and of
  // every entry of the Gram matrix one does not belong to the features. Else null.
  const double* free_intercept = nullptr;
  const double* row_weight = nullptr;  // [n]
  const double* log_q = nullptr;  // [columns]: log of how often a class is drawn in a step, in the mean, for
                                  // rules that ask for it
  const double* smoothed = nullptr;  // [n][columns]: scores of the companion matrix, for rules that have one
  double step = 0;                   // eta N / n: what one row of the step weighs
  bool complete = false;             // every step has all classes, with weight 1
  double decayed = 1;                // how far the step has fallen since the first epoch, in (0, 1]
};

// What it answers.
struct StepResult {
  double* coefficient = nullptr;  // C [n][columns]
  double* u = nullptr;            // [n]; holds the old u on entry, the new one on return
};

// Row i of a step: what a rule that takes its rows one by one looks at and writes.
struct StepRow {
  const double* score;
  const double* weight;
  double* coefficient;
  std::size_t label;
  double e;  // step of the row times its weight
};
inline StepRow row_of(const StepView& view, const StepResult& out, std::size_t i) {
  const std::size_t at = i * view.columns;
  const double* weight = view.weight == nullptr ? nullptr : view.weight + at;  // none where nothing is drawn
  return {view.score + at, weight, out.coefficient + at, view.label[i], view.step * view.row_weight[i]};
}

// Several steps of one row and one drawn class each, independent of each other (no row and no class in
// common): what a rule may solve side by side. Entry i of every array is step i; there is no ridge here.
inline constexpr std::size_t kPairSteps = 8;
struct PairSteps {
  std::array<double, kPairSteps> score_drawn, score_label, weight, squared_norm, row_weight;
  std::array<double, kPairSteps> u;            // in: old, out: new
  std::array<double, kPairSteps> coefficient;  // out: C of the label; that of the drawn class is its negative
};

// A step of one row and whole blocks of classes, in float32. Ridge and an intercept outside it are in scores
// and norms already. Lanes that take no part have the score kNoScore.
inline constexpr float kNoScore = -1e30F;
struct BlockStepView {
  double e = 1;                            // step of the row times its weight
  double decayed = 1;                      // as in StepView
  bool complete = false;                   // as in StepView
  double label_score = 0, label_norm = 1;  // what stands in place of |x|^2 for the label
  std::size_t blocks = 0;
  float* score = nullptr;          // [blocks][16]; overwritten
  const double* norm = nullptr;    // [blocks]: what stands in place of |x|^2
  const double* weight = nullptr;  // o [blocks], > 0
  double u = 0;                    // in: old, out: new
  float* coefficient = nullptr;    // out: C [blocks][16], without the label's
  double label_coefficient = 0;    // out
};

// The function of (W, u) whose gradient the mean of a method's small steps follows; the contract test holds
// each method against the one it names.
enum class Objective {
  double_sum,        // the paper's f with u free (eq:f), or its family with alpha: optimum of the softmax
                     // likelihood
  double_sum_exact,  // the same where u is the exact normaliser of the row: there its gradient is that of
                     // softmax
  softmax,           // the softmax log-loss itself
  one_vs_each,       // sum over classes of log(1 + exp(z_k - z_y))
  noise_contrast,    // binary log-losses of the label against the drawn classes
  sampled_softmax,   // softmax over the label and the drawn classes
  softplus_bound,    // u and softplus functions of the scores in the place of the log-sum
};

// What a method is, for people and for the trainer: the line of the table of methods.
struct MethodInfo {
  std::string_view name;
  std::string_view description;  // one sentence
  bool biased;                   // its fixed point is not the softmax optimum
  std::size_t most_rows;         // largest n it takes
  std::size_t most_classes;      // largest m it takes
  std::string_view cost;         // per step
  Objective objective;
  bool needs_gram = false;     // the Gram matrix of several rows
  bool needs_log_q = false;    // how often a class is drawn
  bool whole_set = false;      // takes all classes in every step; nothing is drawn
  bool exact_start = false;    // u starts at its exact value for W = 0, log K; else at 0
  bool refreshes = false;      // u is the exact normaliser, recomputed every --refresh epochs
  bool projects = false;       // W is projected on a ball where there is ridge
  bool has_companion = false;  // wants the scores of smoothed weights; has smoothing(view), their rate
  bool can_diverge = false;    // by nature; the run then stops with a message
  bool u_rate = false;         // u moves at a rate of its own (--rho, --sox-rate), not by the step
  bool signed_u = false;       // u may be negative
};
inline constexpr std::size_t kAnyNumber = std::numeric_limits<std::size_t>::max();

// Options that belong to single methods.
struct RuleOptions {
  double delta = 1;             // umax
  double double_sum_alpha = 0;  // vanilla, umax
  bool log_q = true;            // nce, importance
  bool label_noise = false;     // nce
  std::uint64_t refresh = 1;    // raman: epochs
  double running_rate = 0.5;    // composition
  double rho = 1;               // prox, scent
  bool rho_falls = true;        // prox, scent
  double sox_rate = 0.3;        // sox
  double softplus_bend = 1;     // softplus
  void describe(OptionTable& table);
};

// What a rule may know of the whole problem.
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

// The largest step a rule will see.
struct StepShape {
  std::size_t rows = 1, drawn = 1;  // n, drawn classes
  std::size_t columns = 2;          // these, and labels that were not drawn
};
// step() may not throw, so a rule that works in memory of its own takes it all in reserve(); called once,
// before the first step.
template <class R>
void reserve_memory(R& rule, const StepShape& shape) {
  if constexpr (requires { rule.reserve(shape); }) rule.reserve(shape);
}

// A rule that solves independent steps side by side, where its options let it (takes_pairs). Each must come
// out with the bits that step() gives it.
template <class R>
concept PairRule = Rule<R> && requires(R& rule, PairSteps& pairs, std::size_t count, double step) {
  { rule.takes_pairs() }
  noexcept->std::same_as<bool>;
  { rule.step_pairs(pairs, count, step) }
  noexcept;
};

// A rule that takes one row and whole blocks of classes at once, in float32. False: the numbers are outside
// the range of float32, and nothing but scores and coefficients has changed; step() must do it.
template <class R>
concept BlockRule = Rule<R> && requires(const R& rule, BlockStepView& view) {
  { rule.step_blocks(view) }
  noexcept->std::same_as<bool>;
};

}  // namespace truemax
