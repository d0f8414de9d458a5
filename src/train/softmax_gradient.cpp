#include "train/softmax_gradient.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/error.hpp"
#include "core/parallel.hpp"
#include "solve/log_sum.hpp"
#include "train/growth.hpp"
#include "train/lane.hpp"
#include "weights/adam.hpp"
#include "weights/blocks.hpp"
#include "weights/dense.hpp"

namespace truemax {
namespace {

constexpr std::size_t kRowsOfTask = 16, kBlocksOfScores = 4;
// Sizes beyond float32's own range: features outside move more slowly or faster than others.
constexpr double kLeastSize = 1e-30, kMostSize = 1e30;
// No score and no sum of gradients may be larger.
constexpr double kMostSum = 1e37;

}  // namespace

FeatureUnits::FeatureUnits(const DataView& data, std::size_t threads)
    : inverse(data.space->features, 1.0F), share(data.space->features, 1.0F) {
  const std::size_t features = data.space->features;
  struct Part {
    std::vector<double> square, seen;
    double largest = 0, longest = 0, weight = 0, largest_weight = 0;
  };
  // A fixed number of parts: their sums do not depend on the threads.
  constexpr std::size_t kParts = 8, kFewRows = 4096;
  const bool streamed = data.streamed() != nullptr;
  std::vector<Part> parts(streamed || data.size() < kFewRows ? 1 : kParts);
  const auto add = [&](Part& part, ExampleId i, const RowView& x) {
    double length = 0;
    for (std::size_t j = 0; j < x.index.size(); ++j) {
      const auto value = std::abs(static_cast<double>(x.value[j]));
      if (value == 0) continue;
      part.square[x.index[j]] += value * value;
      part.seen[x.index[j]] += 1;
      part.largest = std::max(part.largest, value);
      length += value;
    }
    part.longest = std::max(part.longest, length);
    part.weight += data.weight(i);
    part.largest_weight = std::max(part.largest_weight, data.weight(i));
  };
  for (Part& part : parts) part.square.resize(features), part.seen.resize(features);
  if (streamed)
    data.each_x([&](ExampleId i, const RowView& x) { add(parts[0], i, x); });
  else
    parallel_for(parts.size(), threads, [&](std::size_t p) {
      for (std::size_t i = data.size() * p / parts.size(); i < data.size() * (p + 1) / parts.size(); ++i) {
        const ExampleId one{static_cast<std::uint32_t>(i)};
        add(parts[p], one, data.x(one));
      }
    });
  double total = 0;
  largest_weight = 0;
  for (const Part& part : parts) {
    largest = std::max(largest, part.largest), longest = std::max(longest, part.longest);
    total += part.weight, largest_weight = std::max(largest_weight, part.largest_weight);
  }
  for (std::size_t f = 0; f < features; ++f) {
    double square = 0, seen = 0;
    for (const Part& part : parts) square += part.square[f], seen += part.seen[f];
    if (seen == 0) continue;
    const double of_feature = 1 / std::clamp(std::sqrt(square / seen), kLeastSize, kMostSize);
    inverse[f] = static_cast<float>(of_feature);
    share[f] = static_cast<float>(seen / static_cast<double>(data.size()));
    most_inverse = std::max(most_inverse, of_feature);
  }
  const auto rows = static_cast<double>(std::max<std::size_t>(data.size(), 1));
  mean_weight = std::max(total / rows, std::numeric_limits<double>::min());
}

bool features_fit(const FeatureUnits& units) {
  const double push = units.largest_weight / units.mean_weight;
  return units.largest * std::max(push, 1.0) <= kMostSum && units.longest <= kMostSum;
}

bool features_fit_beside(const FeatureUnits& units, bool intercept) {
  constexpr double kScores = 1e6;  // that the weights of any one feature should be able to make
  return features_fit(units) && kScores * units.most_inverse <= units.most_weight(intercept);
}

void require_features_fit(const FeatureUnits& units, std::string_view method) {
  if (features_fit(units)) return;
  throw DivergenceError(
      fmt::format("{} adds in float32, for which features of up to {:.2g} are too large: give --method prox",
                  method, units.largest));
}

double FeatureUnits::most_weight(bool intercept) const {
  return std::min(kWeightLimit, kMostSum / (std::max(longest, 1.0) + (intercept ? 1 : 0)));
}

std::size_t SoftmaxGradient::parts_of(std::size_t blocks) {
  constexpr std::size_t kFewTasks = 4;
  return blocks >= kFewTasks ? 1 : (kFewTasks + blocks - 1) / blocks;
}

// Threads find each other in about a microsecond, four times a step.
std::size_t SoftmaxGradient::members_for(const DataView& data, std::size_t rows, std::size_t threads) {
  constexpr double kWorthSharing = 2e4;  // lines of W
  const std::size_t blocks = (data.classes->size() + kLanes - 1) / kLanes;
  const double lines = static_cast<double>(blocks) *
                       (static_cast<double>(std::min(rows, data.size())) * data.nonzeros_per_row() +
                        static_cast<double>(data.space->features));
  return lines < kWorthSharing ? 1 : threads;
}

// Two blocks of a task take less time than two tasks, but the last tasks are of one, so that no member waits.
SoftmaxGradient::SoftmaxGradient(const DataView& data, std::size_t most_rows, Team& team)
    : team_(team),
      classes_(data.classes->size()),
      features_(data.space->features),
      blocks_((classes_ + kLanes - 1) / kLanes),
      columns_(blocks_ * kLanes),
      parts_(parts_of(blocks_)),
      pairs_(team.size() == 1 ? blocks_ / 2 : (blocks_ - std::min(blocks_, team.size())) / 2),
      all_blocks_(blocks_),
      no_intercept_(columns_) {
  const std::size_t rows = std::min(most_rows, data.size());
  std::iota(all_blocks_.begin(), all_blocks_.end(), 0U);
  x_.reserve(rows), label_.reserve(rows), e_.reserve(rows), loss_.reserve(rows);
  coefficient_.resize(rows * columns_);
}

std::uint64_t SoftmaxGradient::bytes(const DataView& data, std::size_t most_rows) {
  const std::uint64_t blocks = (data.classes->size() + kLanes - 1) / kLanes;
  return std::min<std::uint64_t>(most_rows, data.size()) *
         (blocks * kLanes * sizeof(float) + sizeof(RowView) + sizeof(ClassId) + 2 * sizeof(double));
}

void SoftmaxGradient::clear() {
  x_.clear(), label_.clear(), e_.clear();
}

void SoftmaxGradient::add(const RowView& x, ClassId label, double e) {
  x_.push_back(x), label_.push_back(label), e_.push_back(e);
}

void SoftmaxGradient::find(const Weights& weights) {
  loss_.resize(x_.size());
  team_.share((x_.size() + kRowsOfTask - 1) / kRowsOfTask, [&](std::size_t /*member*/, std::size_t task) {
    const std::size_t first = task * kRowsOfTask;
    find_some(weights, first, std::min(kRowsOfTask, x_.size() - first));
  });
}

void SoftmaxGradient::find_some(const Weights& weights, std::size_t first, std::size_t count) {
  const std::span<const std::uint32_t> all = all_blocks_;
  for (std::size_t b = 0; b < blocks_; b += kBlocksOfScores) {
    const auto some = all.subspan(b, std::min(kBlocksOfScores, blocks_ - b));
    for (std::size_t i = first; i < first + count; ++i) {
      if (b == 0 && i + 1 < first + count) prefetch_row(x_[i + 1]);
      score_blocks(weights, x_[i], some, &coefficient_[i * columns_ + b * kLanes]);
    }
  }
  for (std::size_t i = first; i < first + count; ++i) finish_row(weights, i);
}

// From scores to C: -e p_k, and of the label e (1 - p_y), the sum of the others.
void SoftmaxGradient::finish_row(const Weights& weights, std::size_t i) {
  float* const z = &coefficient_[i * columns_];
  const float* const intercept = weights.has_intercept() ? weights.intercept().data() : no_intercept_.data();
  const std::size_t label = label_[i];
  float highest = 0;
  const double others = exp_scores(z, intercept, classes_, z[label] + intercept[label], label, &highest);
  const double loss = softplus(others);
  const double factor = -e_[i] * std::exp(static_cast<double>(highest) - loss);
  z[label] = static_cast<float>(-scale_row(z, classes_, static_cast<float>(factor)));
  std::fill(z + classes_, z + columns_, 0.0F);
  loss_[i] = e_[i] * loss;
}

double SoftmaxGradient::row_weight() const {
  return std::accumulate(e_.begin(), e_.end(), 0.0);
}
double SoftmaxGradient::loss() const {
  return std::accumulate(loss_.begin(), loss_.end(), 0.0);
}

void SoftmaxGradient::add_to(const Blocks& blocks, float* sum) const {
  add_rows(x_, &coefficient_[blocks.first * kLanes], columns_, features_, blocks.count, sum);
}

void SoftmaxGradient::add_part(std::size_t block, std::size_t part, float* sum) const {
  const std::size_t first = x_.size() * part / parts_, end = x_.size() * (part + 1) / parts_;
  if (first == end) return;
  add_rows(std::span(x_).subspan(first, end - first), &coefficient_[first * columns_ + block * kLanes],
           columns_, features_, 1, sum);
}

void SoftmaxGradient::add_intercepts(std::size_t block, float* sum) const {
  for (std::size_t i = 0; i < x_.size(); ++i)
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      sum[lane] += coefficient_[i * columns_ + block * kLanes + lane];
}

}  // namespace truemax
