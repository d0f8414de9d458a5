#include "weights/pass.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <mutex>

#include "core/parallel.hpp"
#include "weights/fast_pass.hpp"
#include "weights/tile.hpp"

namespace truemax {
namespace {

// A group of rows stays with a thread while all blocks pass by; a tile of it fits in the L1 cache.
constexpr std::size_t kGroupRows = 1024;
constexpr std::size_t kTileRows = 64;

struct Entry {
  double score;
  ClassId k;
};

// The best `top` entries of a row, as a heap with the worst at its root.
class BestEntries {
 public:
  BestEntries(std::size_t top, std::span<const std::uint32_t> rank) : top_(top), rank_(rank) {}

  bool better(const Entry& a, const Entry& b) const {
    return a.score > b.score || (a.score == b.score && rank(a.k) < rank(b.k));
  }
  bool wants(double score) const { return heap_.size() < top_ || score >= heap_.front().score; }
  void offer(const Entry& entry) {
    const auto order = [this](const Entry& a, const Entry& b) { return better(a, b); };
    if (heap_.size() == top_) {
      if (!better(entry, heap_.front())) return;
      std::pop_heap(heap_.begin(), heap_.end(), order);
      heap_.back() = entry;
    } else {
      heap_.push_back(entry);
    }
    std::push_heap(heap_.begin(), heap_.end(), order);
  }
  void write(ClassId* best, double* score) {
    std::sort(heap_.begin(), heap_.end(), [this](const Entry& a, const Entry& b) { return better(a, b); });
    for (std::size_t i = 0; i < heap_.size(); ++i) best[i] = heap_[i].k, score[i] = heap_[i].score;
  }

 private:
  std::uint32_t rank(ClassId k) const { return rank_.empty() ? k : rank_[k]; }

  std::size_t top_;
  std::span<const std::uint32_t> rank_;
  std::vector<Entry> heap_;
};

void pass_group(const Weights& weights, CsrView rows, std::size_t first, std::size_t count,
                const PassOptions& options, PassResult& result) {
  double* highest = &result.highest[first];
  double* sum = &result.excess[first];
  std::vector<BestEntries> best(count, BestEntries(result.top, options.tie_rank));
  alignas(64) std::array<double, kTileRows * kLanes> tile;
  std::array<double, kTileRows> tile_highest{};

  for (std::size_t b = 0; b < weights.blocks(); ++b) {
    const std::size_t lanes = std::min(kLanes, weights.classes() - b * kLanes);
    const TileStart start(weights, b);
    for (std::size_t r = 0; r < count; r += kTileRows) {
      const std::size_t tile_rows = std::min(kTileRows, count - r);
      score_tile(rows, first + r, tile_rows, weights.block(b), start, tile.data());
      accumulate_tile(tile.data(), tile_rows, lanes, &highest[r], &sum[r], tile_highest.data());
      if (result.top == 0) continue;
      for (std::size_t i = 0; i < tile_rows; ++i) {
        BestEntries& of_row = best[r + i];
        if (!of_row.wants(tile_highest[i])) continue;
        for (std::size_t lane = 0; lane < lanes; ++lane)
          of_row.offer({tile[i * kLanes + lane], static_cast<ClassId>(b * kLanes + lane)});
      }
    }
    if (options.ended()) return;
  }
  for (std::size_t r = 0; r < count; ++r) {
    sum[r] = std::max(sum[r], 1.0);  // includes exp(0) of the highest score, which rounding may lose
    if (result.top > 0)
      best[r].write(&result.best[(first + r) * result.top], &result.best_score[(first + r) * result.top]);
  }
}

void make_empty(PassResult& result, std::size_t rows, std::size_t top) {
  result.top = top;
  result.highest.assign(rows, std::numeric_limits<double>::lowest());
  result.excess.assign(rows, 0.0);
  result.best.resize(rows * top);
  result.best_score.resize(rows * top);
}

void copy_row(const PassResult& from, std::size_t i, PassResult& to, std::size_t row) {
  const auto copy = [](const auto& source, auto& target, std::size_t at, std::size_t place,
                       std::size_t width) {
    for (std::size_t t = 0; t < width; ++t) target[place * width + t] = source[at * width + t];
  };
  copy(from.highest, to.highest, i, row, 1);
  copy(from.excess, to.excess, i, row, 1);
  copy(from.best, to.best, i, row, to.top);
  copy(from.best_score, to.best_score, i, row, to.top);
}

// Depends on the whole input, never on the number of threads.
bool in_floats(const Weights& weights, CsrView rows, const PassOptions& options, std::size_t top) {
  if (rows.rows() == 0 || top == 0 || top > kFastTop || options.numbers == PassNumbers::doubles) return false;
  const std::size_t nonzeros = rows.begin.back() - rows.begin.front() + rows.rows();
  return options.numbers == PassNumbers::floats ||
         (top < weights.classes() && nonzeros >= kFastLines / weights.blocks());
}

// A group in float32; declined rows follow in double, as a group of their own.
void pass_in_floats(const Weights& weights, CsrView rows, std::size_t first, std::size_t count,
                    const PassOptions& options, const FastBounds& bounds, PassResult& result,
                    std::vector<std::size_t>& alike) {
  std::vector<std::size_t> declined;
  fast_group(weights, rows, first, count, options, bounds, result, declined, alike);
  for (std::size_t begin = 0; begin < declined.size() && !options.ended(); begin += kGroupRows) {
    const std::size_t size = std::min(kGroupRows, declined.size() - begin);
    Csr again;
    for (std::size_t i = 0; i < size; ++i) {
      const RowView x = rows.row(declined[begin + i]);
      again.index.insert(again.index.end(), x.index.begin(), x.index.end());
      again.value.insert(again.value.end(), x.value.begin(), x.value.end());
      again.begin.push_back(again.index.size());
    }
    PassResult of_declined;
    make_empty(of_declined, size, result.top);
    pass_group(weights, again.view(), 0, size, options, of_declined);
    for (std::size_t i = 0; i < size; ++i) copy_row(of_declined, i, result, declined[begin + i]);
  }
}

}  // namespace

PassResult softmax_pass(const Weights& weights, CsrView rows, const PassOptions& options) {
  PassResult result;
  softmax_pass(weights, rows, options, result);
  return result;
}

void softmax_pass(const Weights& weights, CsrView rows, const PassOptions& options, PassResult& result) {
  const std::size_t count = rows.rows();
  make_empty(result, count, std::min(options.top, weights.classes()));
  const bool floats = in_floats(weights, rows, options, result.top);
  FastBounds bounds;
  if (floats) bounds = options.bounds != nullptr ? *options.bounds : fast_bounds(weights);
  // Small inputs are cut finer, so that every thread has work; the result does not depend on it.
  const std::size_t group =
      floats ? fast_group_rows(weights, count, options.threads)
             : std::clamp((count + 4 * options.threads - 1) / (4 * options.threads), kTileRows, kGroupRows);
  std::mutex watching;
  std::size_t done = 0;
  std::vector<std::size_t> alike;  // rows whose scores are the intercepts
  parallel_for((count + group - 1) / group, options.threads, [&](std::size_t g) {
    const std::size_t first = g * group, size = std::min(group, count - first);
    if (options.ended()) return;
    std::vector<std::size_t> alike_here;
    if (floats)
      pass_in_floats(weights, rows, first, size, options, bounds, result, alike_here);
    else
      pass_group(weights, rows, first, size, options, result);
    const std::lock_guard lock(watching);
    alike.insert(alike.end(), alike_here.begin(), alike_here.end());
    done += size;
    if (options.watch) options.watch(done);
  });
  if (!alike.empty() && !options.ended()) {
    pass_group(weights, rows, alike.front(), 1, options, result);
    for (const std::size_t row : alike) copy_row(result, alike.front(), result, row);
  }
  result.complete = !options.ended();
}

}  // namespace truemax
