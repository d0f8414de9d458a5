#include "weights/fast_pass.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "core/parallel.hpp"
#include "weights/fast_tile.hpp"
#include "weights/kernels.hpp"
#include "weights/tile.hpp"

namespace truemax {
namespace {

constexpr float kLowest = std::numeric_limits<float>::lowest();
constexpr std::size_t kTileRows = 32, kNearRows = 512, kFarRows = 32768;
// Spare candidates beyond the requested best: this many may be too close to tell apart in float32.
constexpr std::size_t kSpare = 3;
// Float32 sums below this cannot overflow, whatever their order.
constexpr double kFastSumHigh = 0x1p100;
constexpr std::size_t kFastNonzeros = std::size_t{1} << 17;  // of a row, so that |x|_1 is accurate enough
// W larger than this does not stay in the caches.
constexpr std::size_t kFarBytes = std::size_t{2} << 20;

// The best scores so far of the rows of a group, in falling order.
class Candidates {
 public:
  Candidates(std::size_t rows, std::size_t most)
      : most_(most), size_(rows, 0), score_(rows * most), of_class_(rows * most) {}

  // Adds a score of row r that may be among its best.
  void offer(std::size_t r, float score, ClassId k) {
    float* scores = &score_[r * most_];
    ClassId* classes = &of_class_[r * most_];
    std::size_t at = size_[r];
    if (at == most_) {
      if (!(score > scores[most_ - 1])) return;
      --at;
    } else {
      ++size_[r];
    }
    for (; at > 0 && scores[at - 1] < score; --at) scores[at] = scores[at - 1], classes[at] = classes[at - 1];
    scores[at] = score, classes[at] = k;
  }
  // Sets the first scores of row r: of the classes 0 ... lanes - 1.
  void begin(std::size_t r, const float* score, std::size_t lanes) {
    std::array<std::uint8_t, kLanes> order;
    order_lanes(score, lanes, order.data());
    size_[r] = static_cast<std::uint32_t>(std::min(lanes, most_));
    for (std::size_t i = 0; i < size_[r]; ++i)
      score_[r * most_ + i] = score[order[i]], of_class_[r * most_ + i] = order[i];
  }
  // The threshold a score must exceed to be among them.
  float threshold(std::size_t r) const { return size_[r] < most_ ? kLowest : score_[r * most_ + most_ - 1]; }
  std::size_t size(std::size_t r) const { return size_[r]; }
  const float* scores(std::size_t r) const { return &score_[r * most_]; }
  const ClassId* classes(std::size_t r) const { return &of_class_[r * most_]; }

 private:
  std::size_t most_;
  std::vector<std::uint32_t> size_;
  std::vector<float> score_;
  std::vector<ClassId> of_class_;
};

bool is_far(const Weights& weights) {
  return weights.memory().size_bytes() > kFarBytes;
}

struct Entry {
  double score;
  ClassId k;
};

// The result of a row from its candidates and the sum of its exps relative to its highest score, both in
// float32; false if the best cannot be told from the rest. `exact_scores`: those of all classes in double, if
// known.
bool write_row(const Weights& weights, RowView x, const PassOptions& options, const Candidates& candidates,
               std::size_t r, double sum, double error, std::size_t row, PassResult& result,
               const double* exact_scores = nullptr) {
  const float* scores = candidates.scores(r);
  const ClassId* classes = candidates.classes(r);
  const std::size_t size = candidates.size(r), top = result.top;
  ClassId* best = &result.best[row * top];
  double* best_score = &result.best_score[row * top];
  double closest = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < std::min(top, size - 1); ++i)
    closest = std::min(closest, static_cast<double>(scores[i]) - static_cast<double>(scores[i + 1]));
  if (closest > 2 * error && !options.refine) {
    for (std::size_t i = 0; i < top; ++i)
      best[i] = classes[i], best_score[i] = static_cast<double>(scores[i]);
  } else {
    std::array<Entry, kFastTop + kSpare> entries;
    for (std::size_t i = 0; i < size; ++i) {
      const ClassId k = classes[i];
      entries[i] = {exact_scores != nullptr ? exact_scores[k] : score(weights, x, k), k};
    }
    const auto rank = [&](ClassId k) { return options.tie_rank.empty() ? k : options.tie_rank[k]; };
    std::sort(entries.begin(), entries.begin() + static_cast<std::ptrdiff_t>(size),
              [&](const Entry& a, const Entry& b) {
                return a.score > b.score || (a.score == b.score && rank(a.k) < rank(b.k));
              });
    // Other classes score at most as high as the last candidate, in float32.
    if (size < weights.classes() && !(entries[top - 1].score > static_cast<double>(scores[size - 1]) + error))
      return false;
    for (std::size_t i = 0; i < top; ++i) best[i] = entries[i].k, best_score[i] = entries[i].score;
    if (options.refine) {  // replace the float32 terms of the candidates by terms in double
      const auto highest = static_cast<double>(scores[0]);
      double exact = 0;
      for (std::size_t i = 0; i < size; ++i) {
        sum -= std::exp(static_cast<double>(scores[i]) - highest);
        exact += std::exp(entries[i].score - entries[0].score);
      }
      sum = exact + std::max(sum, 0.0) * std::exp(highest - entries[0].score);
    }
  }
  // Sums are relative to the highest score in float32: its own term is exactly 1, so a small loss keeps its
  // digits.
  result.highest[row] = best_score[0];
  result.excess[row] = std::max(sum, 1.0);
  return true;
}

// fast_group if one block holds all classes: no candidates are kept, and each row is finished at once.
void fast_group_of_few(const Weights& weights, CsrView rows, std::size_t first, std::size_t count,
                       const PassOptions& options, const FastBounds& bounds, PassResult& result,
                       std::vector<std::size_t>& declined, std::vector<std::size_t>& alike) {
  const std::size_t classes = weights.classes(), top = result.top;
  const FastStart start(weights, 0, 1);
  const TileStart start_in_double(weights, 0);
  FastFew few;
  alignas(64) std::array<double, kFastFewRows * kLanes> exact;
  Candidates close(1, std::min(top + kSpare, classes));
  for (std::size_t begin = first; begin < first + count; begin += kFastFewRows) {
    const std::size_t size = std::min(kFastFewRows, first + count - begin);
    fast_few(rows, begin, size, weights.block(0), weights.features(), start, classes, top, few);
    if (options.refine) score_tile(rows, begin, size, weights.block(0), start_in_double, exact.data());
    for (std::size_t r = 0; r < size; ++r) {
      const std::size_t row = begin + r;
      const double absolute = static_cast<double>(few.absolute[r]) * 1.001;
      const double error = fast_error(bounds, rows.begin[row + 1] - rows.begin[row], absolute);
      const bool intercepts_alone = absolute == 0 || bounds.memory == 0;
      if (intercepts_alone || !(error <= kFastError)) {
        (intercepts_alone ? alike : declined).push_back(row);
        continue;
      }
      const double cut = kFastFewCut * (absolute * bounds.weight + bounds.intercept);
      const float* z = &few.z[r * kLanes];
      if (static_cast<double>(few.gap[r]) > 2 * error + cut && !options.refine) {
        for (std::size_t i = 0; i < top; ++i) {
          const std::int32_t k = few.best[i * kFastFewRows + r];
          result.best[row * top + i] = static_cast<ClassId>(k);
          result.best_score[row * top + i] = static_cast<double>(z[k]);
        }
        result.highest[row] = result.best_score[row * top];
        result.excess[row] = std::max(static_cast<double>(few.sum[r]), 1.0);
      } else {
        double* scores = &exact[r * kLanes];
        if (!options.refine) score_tile(rows, row, 1, weights.block(0), start_in_double, scores);
        close.begin(0, z, classes);
        if (!write_row(weights, rows.row(row), options, close, 0, static_cast<double>(few.sum[r]), error, row,
                       result, scores))
          declined.push_back(row);
      }
    }
  }
}

}  // namespace

FastBounds fast_bounds(const Weights& weights) {
  FastBounds out;
  if (!is_far(weights)) out.add_blocks(weights, 0, weights.blocks());
  // The last blocks are taken in twos and ones, with more partial sums than the others.
  out.chains = fast_chains(fast_together(weights.blocks()));
  out.intercept =
      static_cast<double>(largest_absolute(weights.intercept().data(), weights.intercept().size()));
  return out;
}

FastBounds whole_bounds(const Weights& weights) {
  FastBounds out = fast_bounds(weights);
  if (out.blocks == 0) out.add_blocks(weights, 0, weights.blocks());
  return out;
}

void FastBounds::add_blocks(const Weights& weights, std::size_t first, std::size_t count) {
  blocks = first + count;
  for (std::size_t b = first; b < first + count; ++b) {
    double scale = 1;
    if (weights.scaled()) {
      scale = 0;
      for (std::size_t k = b * kLanes; k < std::min(weights.classes(), (b + 1) * kLanes); ++k)
        scale = std::max(scale, weights.scale(static_cast<ClassId>(k)));
    }
    const auto here = static_cast<double>(largest_absolute(weights.block(b), weights.features() * kLanes));
    weight = std::max(weight, scale * here);
    memory = std::max(memory, here);
  }
}

double fast_error(const FastBounds& bounds, std::size_t nonzeros, double absolute_sum) {
  // Roundings that one product goes through: those of its partial sum, which may include the rest of the row.
  // The number of partial sums is a power of two.
  const double n = static_cast<double>((nonzeros >> std::countr_zero(bounds.chains)) + bounds.chains);
  if (nonzeros > kFastNonzeros || !(absolute_sum * bounds.memory < kFastSumHigh) ||
      !(bounds.intercept < kFastSumHigh))
    return std::numeric_limits<double>::infinity();
  // The last term covers products that underflow in float32.
  return 1.01 * (n + 8) * 0x1p-24 * (absolute_sum * bounds.weight + bounds.intercept) +
         static_cast<double>(nonzeros) * 0x1p-140;
}

std::size_t fast_group_rows(const Weights& weights, std::size_t rows, std::size_t threads) {
  const std::size_t share = (rows + 2 * threads - 1) / (2 * threads);
  return std::clamp(threads == 1 ? rows : share, kTileRows, is_far(weights) ? kFarRows : kNearRows);
}

FastRows::FastRows(const Weights& weights, CsrView all, std::size_t first, std::size_t count)
    : given(all.slice(first, count)) {
  if (!is_far(weights)) return;
  std::vector<std::uint32_t> uses(weights.features());
  for (std::size_t j = given.begin.front(); j < given.begin.back(); ++j) ++uses[given.index[j]];
  std::vector<FeatureId> features;
  for (std::size_t f = 0; f < uses.size(); ++f)
    if (uses[f] > 0) features.push_back(static_cast<FeatureId>(f));
  // `uses` becomes the rank of each feature, the rarest first.
  std::vector<FeatureId> by_uses = features;
  std::stable_sort(by_uses.begin(), by_uses.end(),
                   [&](FeatureId a, FeatureId b) { return uses[a] < uses[b]; });
  for (std::uint32_t i = 0; i < by_uses.size(); ++i) uses[by_uses[i]] = i;
  std::vector<std::pair<std::uint64_t, std::uint32_t>> keys(count);  // the two rarest features of a row
  for (std::uint32_t r = 0; r < count; ++r) {
    std::uint64_t rarest = ~std::uint32_t{0}, second = rarest;
    for (const FeatureId f : given.row(r).index) {
      const std::uint64_t at = uses[f];
      second = std::min(second, std::max(rarest, at));
      rarest = std::min(rarest, at);
    }
    keys[r] = {rarest << 32 | second, r};
  }
  std::sort(keys.begin(), keys.end());
  order.reserve(count);
  const std::size_t nonzeros = given.begin.back() - given.begin.front();
  own.begin.reserve(count + 1);
  own.index.reserve(nonzeros);
  own.value.reserve(nonzeros);
  for (const auto& [key, r] : keys) {
    const RowView x = given.row(r);
    order.push_back(r);
    own.index.insert(own.index.end(), x.index.begin(), x.index.end());
    own.value.insert(own.value.end(), x.value.begin(), x.value.end());
    own.begin.push_back(own.index.size());
  }
}

void fast_group(const Weights& weights, CsrView all, std::size_t first, std::size_t count,
                const PassOptions& options, FastBounds bounds, PassResult& result,
                std::vector<std::size_t>& declined, std::vector<std::size_t>& alike) {
  if (weights.classes() <= kLanes && result.top <= kFastFewTop) {
    if (bounds.blocks == 0) bounds.add_blocks(weights, 0, 1);
    fast_group_of_few(weights, all, first, count, options, bounds, result, declined, alike);
    return;
  }
  const FastRows arranged(weights, all, first, count);
  const CsrView rows = arranged.view();
  const std::size_t blocks = weights.blocks();
  std::vector<float> highest(count, kLowest), threshold(count, kLowest);
  std::vector<double> sum(count, 0.0);
  std::vector<float> absolute(count);
  Candidates candidates(count, std::min(result.top + kSpare, weights.classes()));
  std::array<std::uint32_t, kTileRows> hit_rows;
  std::array<std::uint64_t, kTileRows> hit_lanes;
  alignas(64) std::array<float, kTileRows * kFastBlocks * kLanes> z;

  for (std::size_t b = 0, next = 0; b < blocks; b = next) {
    const std::size_t here = fast_together(blocks - b);
    next = b + here;
    const std::size_t lanes = std::min(here * kLanes, weights.classes() - b * kLanes);
    const FastStart start(weights, b, here);
    if (bounds.blocks == b) bounds.add_blocks(weights, b, here);  // just before the rows need its cache lines
    for (std::size_t r = 0; r < count; r += kTileRows) {
      const std::size_t tile = std::min(kTileRows, count - r);
      FastHits hits{.count = 0, .row = hit_rows.data(), .lanes = hit_lanes.data()};
      fast_tile(rows, r, tile, weights.block(b), here, weights.features(), start, z.data(),
                b == 0 ? &absolute[r] : nullptr, &highest[r], &sum[r], &threshold[r], hits);
      for (std::size_t h = 0; h < hits.count; ++h) {
        const std::size_t row = r + hits.row[h];
        const float* score = &z[hits.row[h] * here * kLanes];
        std::uint64_t left = hits.lanes[h];
        if (b == 0) {
          const std::size_t of_first = std::min(lanes, kLanes);
          candidates.begin(row, score, of_first);
          left &= ~((std::uint64_t{1} << of_first) - 1);
        }
        float worst = candidates.threshold(row);
        for (; left != 0; left &= left - 1) {
          const auto lane = static_cast<std::size_t>(std::countr_zero(left));
          if (!(score[lane] > worst)) continue;
          candidates.offer(row, score[lane], static_cast<ClassId>(b * kLanes + lane));
          worst = candidates.threshold(row);
        }
        threshold[row] = worst;
      }
    }
    if (options.ended()) return;
  }
  for (std::size_t r = 0; r < count; ++r) {
    const std::size_t row = first + arranged.place(r);
    const double size = static_cast<double>(absolute[r]) * 1.001;
    const double error = fast_error(bounds, rows.begin[r + 1] - rows.begin[r], size);
    if (size == 0 || bounds.memory == 0)
      alike.push_back(row);  // only the intercepts matter
    else if (!(error <= kFastError) ||
             !write_row(weights, rows.row(r), options, candidates, r, sum[r], error, row, result))
      declined.push_back(row);  // its scores may be arbitrarily wrong
  }
}

}  // namespace truemax
