// An unbiased estimate of the log-loss with a 95% error bar, from sampled rows and all or sampled classes.
// Its cost does not depend on N nor, with sampled classes, on K.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/options.hpp"
#include "evaluate/evaluate.hpp"

namespace truemax {

enum class EvalKind { exact, sampled };

template <template <class> class As>
struct EvaluateFields {
  As<EvalKind> kind = by_default<As>(EvalKind::exact);
  As<std::uint64_t> rows = by_default<As>(std::uint64_t{10000});  // at most, from each data set
  As<std::uint64_t> classes = by_default<As>(std::uint64_t{0});   // per row, about; 0: all

  void describe(OptionTable& table);
};
using EvaluateOptions = EvaluateFields<Plain>;
void require_possible(const EvaluateOptions& options);  // throws UserError

// Evaluates exactly or by sampling, as the options say; exact if the sample is everything. Rows and classes
// are drawn by `seed`; the result has the same bits for any number of threads. Returns nullopt if `stop` was
// raised.
std::optional<Metrics> evaluate(const EvaluateOptions& options, std::uint64_t seed, const Weights& weights,
                                const DataView& data, std::size_t threads,
                                const std::atomic<bool>* stop = nullptr, const RowWatch& watch = {});
// Whether a device can evaluate so: not with sampled classes.
inline bool takes_all_classes(const EvaluateOptions& options) {
  return options.kind == EvalKind::exact || options.classes == 0;
}
// The same on a device, with all classes.
std::optional<Metrics> evaluate(const EvaluateOptions& options, std::uint64_t seed, device::Passer& device,
                                const DataView& data, std::size_t threads,
                                const std::atomic<bool>* stop = nullptr, const RowWatch& watch = {});
// The number of rows that evaluate() reads.
std::size_t rows_to_evaluate(const EvaluateOptions& options, const DataView& data);

// Estimates log(sure + sum of s_b over the tail blocks b) from drawn blocks, without the bias of the
// logarithm (Blanchet and Glynn). The plain estimate log(sure + mean of s_b/q_b over n draws) is too low by
// about 1/n. Level l corrects it by what twice as many draws would add; the last level, by what the whole
// tail would add. The corrections sum to the exact logarithm in expectation. Only one level is evaluated: it
// is drawn with probability p_l, and its correction is divided by p_l. p falls by 2^-1.5 per level, while
// draws grow by 2 and the variance of the correction falls by 2^-2, so cost and variance are bounded for any
// number of levels.
class LevelSum {
 public:
  // base: draws of the plain estimate; blocks: number of blocks in the tail, which no level exceeds.
  LevelSum(std::size_t base, std::size_t blocks);

  std::size_t last() const { return last_; }
  std::size_t level(double uniform) const;  // from a uniform number in [0, 1)
  double probability(std::size_t level) const;
  std::size_t draws(std::size_t level) const { return level < last_ ? base_ << (level + 1) : base_ << last_; }
  // `log_terms`: log(s_b/q_b) of each draw, -infinity if the block is already part of `sure`.
  // `log_exact`: the exact logarithm, used only at the last level.
  double estimate(std::size_t level, std::span<const double> log_terms, double log_sure,
                  double log_exact) const;

 private:
  std::size_t base_, last_ = 0;
};

// The blocks that a row is evaluated on: all of the head, and drawn ones of the tail.
class ClassSample {
 public:
  // Half of the `classes` classes per row go to the head. `counts`: label counts by class.
  ClassSample(const Weights& weights, const ClassList& counts, std::uint64_t classes);

  bool takes_all() const { return head_ >= blocks_; }
  std::size_t head() const { return head_; }  // blocks
  // Two independent estimates of log sum_k exp(z_k) of a row. The blocks of `labels` are summed exactly.
  std::pair<double, double> log_sum(const Weights& weights, RowView x, std::span<const ClassId> labels,
                                    std::uint64_t row, std::uint64_t seed) const;

 private:
  double log_q(std::size_t tail_block) const;

  std::size_t blocks_, head_, base_ = 1;
  std::vector<double> up_to_;  // cumulative q of the tail blocks
};

}  // namespace truemax
