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

}  // namespace

std::size_t SoftmaxGradient::parts_of(std::size_t blocks) {
  constexpr std::size_t kFewTasks = 4;
  return blocks >= kFewTasks ? 1 : (kFewTasks + blocks - 1) / blocks;
}

// Threads find each other in about a microsecond, four times a step.
std::size_t SoftmaxGradient::members_for(const Problem& problem, std::size_t rows, std::size_t threads) {
  constexpr double kWorthSharing = 2e4;  // lines of W
  const std::size_t blocks = (problem.classes + kLanes - 1) / kLanes;
  const double lines =
      static_cast<double>(blocks) *
      (static_cast<double>(std::min<std::uint64_t>(rows, problem.examples)) * problem.nonzeros_per_row +
       static_cast<double>(problem.features));
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

std::uint64_t SoftmaxGradient::bytes(const Problem& problem, std::size_t most_rows) {
  const std::uint64_t blocks = (problem.classes + kLanes - 1) / kLanes;
  return std::min<std::uint64_t>(most_rows, problem.examples) *
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
