// The pass "rows x blocks": every row against every class, a block of W at a time while many rows use it, in
// memory that depends neither on N nor on K. Serves exact loss, prediction and normalisers.
#pragma once

#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/csr.hpp"
#include "weights/weights.hpp"

namespace truemax {

struct PassResult {
  std::size_t top = 0;  // entries a row in best / best_score: min(top asked for, K)
  // log sum_k exp(z_k) of a row in two parts, because a large score would swallow the second: the highest
  // score, and sum_k exp(z_k - highest), which is at least one.
  std::vector<double> highest, excess;
  std::vector<ClassId> best;       // [rows][top], by falling score
  std::vector<double> best_score;  // [rows][top]

  // Probability of a class of row r with this score, in [0, 1].
  double probability(std::size_t r, double score) const { return std::exp(score - highest[r]) / excess[r]; }
  // -log of that probability: not negative, and exact where scores are large and close. The score is that of
  // best_score for a class that is among the best, else score().
  double loss(std::size_t r, double score) const { return (highest[r] - score) + std::log(excess[r]); }

  bool complete = true;  // false: `stop` was raised and the result is not to be used
};

// What the scores of a pass are added up in. `automatic`: float32 where there is much to do and top is at
// least one and not above 256, else double. With float32 a row's loss is off by a bound that is known
// (weights/fast_pass.hpp), usually below 1e-6; the best classes and their order are those of double; rows
// that float32 cannot hold are done in double.
enum class PassNumbers { automatic, floats, doubles };
// Lines that a pass reads; below this double takes a few milliseconds at most: nothing is gained by float32.
inline constexpr std::size_t kFastLines = std::size_t{1} << 20;

struct PassOptions {
  std::size_t top = 1;
  std::size_t threads = 1;
  // Equal scores stand in the order of these ranks (K of them, all different); without them, of the class
  // ids.
  std::span<const std::uint32_t> tie_rank;
  const std::atomic<bool>* stop = nullptr;
  std::function<void(std::size_t rows_done)> watch = {};  // called now and then, by one thread at a time
  PassNumbers numbers = PassNumbers::automatic;
  // In float32: score the best of every row again in double, and put them so into the sum. For probabilities,
  // which then keep more digits; a mean of losses has them without.
  bool refine = false;
};

// Rows are independent: the result has the same bits for any number of threads.
PassResult softmax_pass(const Weights& weights, CsrView rows, const PassOptions& options);
// The same in the memory of an earlier result: where a row takes little time, fresh memory takes a part
// of it.
void softmax_pass(const Weights& weights, CsrView rows, const PassOptions& options, PassResult& result);

}  // namespace truemax
