#include "weights/pass.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <mutex>

#include "core/parallel.hpp"
#include "weights/tile.hpp"

namespace truemax {
namespace {

// A group of rows stays with a thread while all blocks pass by; a tile of it stays in the first-level cache.
constexpr std::size_t kGroupRows = 1024;
constexpr std::size_t kTileRows = 64;

struct Entry {
  double score;
  ClassId k;
};

// The best `top` entries of a row as a heap whose root is the worst of them.
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
    if (options.stop != nullptr && options.stop->load(std::memory_order_relaxed)) return;
  }
  for (std::size_t r = 0; r < count; ++r) {
    sum[r] = std::max(sum[r], 1.0);  // it holds exp(0) of the highest score; rounding may lose a bit of that
    if (result.top > 0)
      best[r].write(&result.best[(first + r) * result.top], &result.best_score[(first + r) * result.top]);
  }
}

}  // namespace

PassResult softmax_pass(const Weights& weights, CsrView rows, const PassOptions& options) {
  PassResult result;
  const std::size_t count = rows.rows();
  result.top = std::min(options.top, weights.classes());
  result.highest.assign(count, std::numeric_limits<double>::lowest());
  result.excess.assign(count, 0.0);
  result.best.resize(count * result.top);
  result.best_score.resize(count * result.top);
  // Small inputs are cut finer, so that every thread has work; the cut never shows in the result.
  const std::size_t group =
      std::clamp((count + 4 * options.threads - 1) / (4 * options.threads), kTileRows, kGroupRows);
  std::mutex watching;
  std::size_t done = 0;
  parallel_for((count + group - 1) / group, options.threads, [&](std::size_t g) {
    const std::size_t first = g * group, size = std::min(group, count - first);
    if (options.stop != nullptr && options.stop->load(std::memory_order_relaxed)) return;
    pass_group(weights, rows, first, size, options, result);
    if (!options.watch) return;
    const std::lock_guard lock(watching);
    options.watch(done += size);
  });
  result.complete = options.stop == nullptr || !options.stop->load();
  return result;
}

}  // namespace truemax
