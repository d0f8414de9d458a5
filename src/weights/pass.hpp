// The "rows x blocks" pass: every row against every class, one block of W at a time for many rows, in memory
// that depends neither on N nor on K. Used for exact loss, prediction and normalisers.
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
  std::size_t top = 0;  // entries per row in best / best_score: min(requested top, K)
  // log sum_k exp(z_k) of a row in two parts, because a large score would absorb the second: the highest
  // score, and sum_k exp(z_k - highest), which is at least one.
  std::vector<double> highest, excess;
  std::vector<ClassId> best;       // [rows][top], by falling score
  std::vector<double> best_score;  // [rows][top]

  // Probability, in [0, 1], of a class of row r with this score.
  double probability(std::size_t r, double score) const { return std::exp(score - highest[r]) / excess[r]; }
  // -log of that probability: not negative, and accurate if scores are large and close. Pass the score in
  // best_score for a class among the best, otherwise score().
  double loss(std::size_t r, double score) const { return (highest[r] - score) + std::log(excess[r]); }

  bool complete = true;  // false: `stop` was set and the result must not be used
};

// Precision of the scores of a pass. `automatic`: float32 if there is much to do and top is 1 to 256,
// otherwise double. In float32 the error of a row's loss has a known bound (weights/fast_pass.hpp), usually
// below 1e-6; the best classes and their order match double; rows that float32 cannot represent are done in
// double.
enum class PassNumbers { automatic, floats, doubles };
// Cache lines read by a pass; below this, double takes at most a few milliseconds and float32 gains nothing.
inline constexpr std::size_t kFastLines = std::size_t{1} << 20;

struct FastBounds;

struct PassOptions {
  std::size_t top = 1;
  std::size_t threads = 1;
  // Ties are broken by these ranks (K distinct numbers) or, if empty, by class id.
  std::span<const std::uint32_t> tie_rank;
  const std::atomic<bool>* stop = nullptr;
  std::function<bool()> over = {};  // ends the pass as `stop` does; called by all threads
  std::function<void(std::size_t rows_done)> watch = {};  // called now and then, by one thread at a time
  PassNumbers numbers = PassNumbers::automatic;
  // In float32: rescore the best of every row in double and use these terms in the sum. Gives probabilities
  // more digits; a mean of losses does not need them.
  bool refine = false;
  // In float32: of all blocks of these weights (whole_bounds), if they are known; else every pass reads all
  // of W to find them.
  const FastBounds* bounds = nullptr;

  bool ended() const {
    return (stop != nullptr && stop->load(std::memory_order_relaxed)) || (over && over());
  }
};

// Rows are independent: the result is bit for bit the same for any number of threads.
PassResult softmax_pass(const Weights& weights, CsrView rows, const PassOptions& options);
// The same, reusing the memory of an earlier result: if rows are cheap, fresh memory would take a noticeable
// share of the time.
void softmax_pass(const Weights& weights, CsrView rows, const PassOptions& options, PassResult& result);

}  // namespace truemax
