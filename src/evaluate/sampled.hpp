// An estimate of the log-loss at a cost that depends neither on N nor, if asked for, on K: of sampled rows,
// over all classes or over sampled ones. It is unbiased and comes with its 95% error bar.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/options.hpp"
#include "evaluate/evaluate.hpp"

namespace truemax {

enum class EvalKind { exact, sampled };

struct EvaluateOptions {
  EvalKind kind = EvalKind::exact;
  std::uint64_t rows = 10000;  // of each data set at most
  std::uint64_t classes = 0;   // about so many of each row; 0: all

  void describe(OptionTable& table);
  void check() const;  // throws UserError
};

// What the options ask for. Rows and classes are drawn by `seed`; the result has the same bits for any number
// of threads. Nothing is returned when `stop` was raised. Where all rows and classes are taken it is exact.
std::optional<Metrics> evaluate(const EvaluateOptions& options, std::uint64_t seed, const Weights& weights,
                                const DataView& data, std::size_t threads,
                                const std::atomic<bool>* stop = nullptr, const RowWatch& watch = {});
// The rows that this looks at.
std::size_t rows_to_evaluate(const EvaluateOptions& options, const DataView& data);

// How log(sure + sum of the blocks b of the tail of s_b) is estimated from drawn blocks without the bias of
// the logarithm (Blanchet and Glynn). log(sure + mean of s_b/q_b over n draws) is too low in expectation by
// about 1/n, so what twice as many draws would add is added, for one level l only, drawn with the probability
// p_l and divided by it; the last level adds what the whole tail would, and so the sum of all expectations
// is the exact logarithm. p falls by 2^-1.5 a level, between the draws (2) and the variance of what they add
// (2^-2): both cost and variance are finite whatever the number of levels.
class LevelSum {
 public:
  // base: draws of the first term; blocks: in the tail. No level draws more than these.
  LevelSum(std::size_t base, std::size_t blocks);

  std::size_t last() const { return last_; }
  std::size_t level(double uniform) const;  // from a number in [0, 1)
  double probability(std::size_t level) const;
  std::size_t draws(std::size_t level) const { return level < last_ ? base_ << (level + 1) : base_ << last_; }
  // `log_terms`: log(s_b/q_b) of each draw, -infinity where a block counts among the sure ones already.
  // `log_exact`: the logarithm itself, needed for the last level only.
  double estimate(std::size_t level, std::span<const double> log_terms, double log_sure,
                  double log_exact) const;

 private:
  std::size_t base_, last_ = 0;
};

// The blocks of a row that are seen: a head wholly, of the tail drawn ones.
class ClassSample {
 public:
  // Of `classes` classes a row one half goes to the head. `counts`: label counts by class.
  ClassSample(const Weights& weights, const ClassList& counts, std::uint64_t classes);

  bool takes_all() const { return head_ >= blocks_; }
  std::size_t head() const { return head_; }  // blocks
  // Two independent estimates of log sum_k exp(z_k) of a row; `labels`: classes whose blocks are taken
  // wholly.
  std::pair<double, double> log_sum(const Weights& weights, RowView x, std::span<const ClassId> labels,
                                    std::uint64_t row, std::uint64_t seed) const;

 private:
  double log_q(std::size_t tail_block) const;

  std::size_t blocks_, head_, base_ = 1;
  std::vector<double> up_to_;  // of the tail: sum of q over the blocks up to this one
};

}  // namespace truemax
