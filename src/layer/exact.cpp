#include "layer/exact.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "layer/rows.hpp"
#include "solve/mirror.hpp"
#include "weights/dense.hpp"

namespace truemax {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();
constexpr std::size_t kSliceRows = 256, kSliceClasses = 1024, kChunk = 16;

double add_logs(double a, double b) {
  return a == kNever ? b : b == kNever ? a : log_add(a, b);
}

// Rows of a batch by slices, and their scores for all classes by slices: visit(first class, count, z, offset)
// where z [rows][count] may be overwritten.
class Scores {
 public:
  Scores(std::size_t classes, std::size_t features, const LayerArrays& arrays, Team& team)
      : classes_(classes), features_(features), arrays_(arrays), team_(team) {}

  template <class Visit>
  void each(const std::vector<float>& x, std::size_t rows, const Visit& visit) {
    for (std::size_t first = 0; first < classes_; first += kSliceClasses) {
      const std::size_t count = std::min(kSliceClasses, classes_ - first);
      z_.resize(rows * count);
      offset_.assign(count, 0.0F);
      if (arrays_.bias != nullptr) std::copy_n(arrays_.bias + first, count, offset_.begin());
      product_.multiply(
          {{x.data(), rows, features_, features_}, false},
          {{arrays_.class_row(first), count, features_, static_cast<std::size_t>(arrays_.weight_stride)},
           true},
          z_.data(), count, team_);
      visit(first, count, z_.data(), offset_.data());
    }
  }

 private:
  std::size_t classes_, features_;
  const LayerArrays& arrays_;
  Team& team_;
  DenseProduct product_;
  std::vector<float> z_, offset_;
};

using Scored = std::pair<float, std::int64_t>;  // score and class

// Higher scores first, then lower classes.
bool before(const Scored& a, const Scored& b) {
  return a.first != b.first ? a.first > b.first : a.second < b.second;
}

}  // namespace

void exact_nll(std::size_t classes, std::size_t features, const LayerArrays& arrays, const LayerBatch& batch,
               double* loss, Team& team) {
  require_usable_weights(classes, features, arrays, team);
  Scores scores(classes, features, arrays, team);
  std::vector<double> log_sum;
  std::vector<float> label;
  LayerRows slice;
  std::fill(loss, loss + batch.rows, 0.0);
  for (std::size_t from = 0; from < batch.rows; from += kSliceRows) {
    slice.take(classes, features, arrays, batch, from, std::min(kSliceRows, batch.rows - from), kLayerLargest,
               team);
    const std::size_t count = slice.size();
    if (count == 0) continue;
    log_sum.assign(count, kNever);
    label.resize(count);
    for (std::size_t i = 0; i < count; ++i)
      label[i] = dot(slice.x.data() + i * features, arrays.class_row(slice.target[i]), features) +
                 (arrays.bias == nullptr ? 0.0F : arrays.bias[slice.target[i]]);
    scores.each(slice.x, count, [&](std::size_t first, std::size_t width, float* z, const float* offset) {
      team.share_chunks(count, kChunk, [&](std::size_t /*member*/, std::size_t i) {
        const std::size_t own = slice.target[i] - first;  // wraps around if it is in an earlier slice
        float highest = 0;
        log_sum[i] = add_logs(
            log_sum[i], exp_scores(z + i * width, offset, width, label[i], std::min(own, width), &highest));
      });
    });
    for (std::size_t i = 0; i < count; ++i) loss[slice.row[i]] = softplus(log_sum[i]);
  }
}

void exact_top(std::size_t classes, std::size_t features, const LayerArrays& arrays, const LayerBatch& batch,
               std::size_t top, std::int64_t* class_of, double* log_probability, Team& team) {
  constexpr std::size_t kMostHeld = std::size_t{1} << 21;  // entries of all lists of a slice
  require_usable_weights(classes, features, arrays, team);
  Scores scores(classes, features, arrays, team);
  const std::size_t height = std::clamp<std::size_t>(kMostHeld / top, 1, kSliceRows);
  std::vector<std::vector<Scored>> best(std::min(height, batch.rows));
  std::vector<double> log_sum;
  LayerRows slice;
  LayerBatch rows = batch;
  rows.target = nullptr, rows.index = nullptr;
  for (std::size_t from = 0; from < rows.rows; from += height) {
    const std::size_t count = std::min(height, rows.rows - from);
    slice.take(classes, features, arrays, rows, from, count, kLayerLargest, team);
    log_sum.assign(count, kNever);
    for (auto& list : best) list.clear();
    scores.each(slice.x, count, [&](std::size_t first, std::size_t width, float* z, const float* offset) {
      team.share_chunks(count, 1, [&](std::size_t /*member*/, std::size_t i) {
        std::vector<Scored>& list = best[i];  // a heap with its worst entry in front
        for (std::size_t j = 0; j < width; ++j) {
          const float score = z[i * width + j] + offset[j];
          if (list.size() == top && !(score > list.front().first)) continue;
          if (list.size() == top) {
            std::pop_heap(list.begin(), list.end(), before);
            list.pop_back();
          }
          list.emplace_back(score, static_cast<std::int64_t>(first + j));
          std::push_heap(list.begin(), list.end(), before);
        }
        float highest = 0;
        log_sum[i] = add_logs(log_sum[i], exp_scores(z + i * width, offset, width, 0, width, &highest));
      });
    });
    team.share_chunks(count, 1, [&](std::size_t /*member*/, std::size_t i) {
      std::sort_heap(best[i].begin(), best[i].end(), before);
      for (std::size_t j = 0; j < top; ++j) {
        const std::size_t at = (from + i) * top + j;
        class_of[at] = best[i][j].second;
        log_probability[at] = std::min(static_cast<double>(best[i][j].first) - log_sum[i], 0.0);
      }
    });
  }
}

}  // namespace truemax
