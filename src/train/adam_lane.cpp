#include "train/adam_lane.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/error.hpp"
#include "core/parallel.hpp"
#include "solve/log_sum.hpp"
#include "weights/blocks.hpp"
#include "weights/dense.hpp"

namespace truemax {
namespace {

constexpr std::size_t kRowsOfTask = 16, kBlocksOfTask = 4, kFeaturesOfTask = 64;
// Sizes beyond float32's own range: features outside move more slowly or faster than others.
constexpr double kLeastSize = 1e-30, kMostSize = 1e30;
// No score and no sum of gradients may be larger.
constexpr double kMostSum = 1e37;

}  // namespace

AdamUnits::AdamUnits(const DataView& data, std::size_t threads) : inverse(data.space->features, 1.0F) {
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
    most_inverse = std::max(most_inverse, of_feature);
  }
  const auto rows = static_cast<double>(std::max<std::size_t>(data.size(), 1));
  mean_weight = std::max(total / rows, std::numeric_limits<double>::min());
}

// With few blocks there would be too few of them for the threads: their rows are summed in parts.
std::size_t AdamLane::parts_of(std::size_t blocks) {
  constexpr std::size_t kFewTasks = 4;
  return blocks >= kFewTasks ? 1 : (kFewTasks + blocks - 1) / blocks;
}

// Blocks of a task: two if there are enough for all members. The result does not depend on it.
std::size_t AdamLane::width_for(std::size_t blocks, std::size_t members) {
  return blocks >= 4 * members ? 2 : 1;
}

// Threads find each other in about a microsecond, four times a step.
std::size_t AdamLane::members_for(const DataView& data, const TrainOptions& options) {
  constexpr double kWorthSharing = 2e4;  // lines of W
  const auto rows = static_cast<double>(std::min<std::size_t>(options.rows_per_step, data.size()));
  const auto blocks = static_cast<double>((data.classes->size() + kLanes - 1) / kLanes);
  const double lines = blocks * (rows * data.nonzeros_per_row() + static_cast<double>(data.space->features));
  return lines < kWorthSharing ? 1 : options.thread_count();
}

AdamLane::AdamLane(const LaneSetup& setup)
    : setup_(setup),
      visited_(setup),
      units_(setup.data, setup.options.thread_count()),
      team_(members_for(setup.data, setup.options)),
      classes_(setup.data.classes->size()),
      blocks_((classes_ + kLanes - 1) / kLanes),
      columns_(blocks_ * kLanes),
      parts_(parts_of(blocks_)),
      width_(width_for(blocks_, team_.size())),
      all_blocks_(blocks_),
      no_intercept_(columns_) {
  const std::size_t rows = std::min<std::size_t>(setup.options.rows_per_step, setup.data.size());
  std::iota(all_blocks_.begin(), all_blocks_.end(), 0U);
  x_.reserve(rows), label_.reserve(rows), e_.reserve(rows);
  coefficient_.resize(rows * columns_);
  sums_.resize((parts_ == 1 ? team_.size() * width_ : blocks_ * parts_) * setup.data.space->features *
               kLanes);
}

MomentState AdamLane::start(const DataView& data, const TrainOptions& options) {
  MomentState state;
  for (Weights* const of : {&state.mean, &state.square}) {
    *of = Weights(data.classes->size(), data.space->features, options.intercept);
    of->clear_pages(options.thread_count());
  }
  return state;
}

std::uint64_t AdamLane::bytes(const DataView& data, const TrainOptions& options) {
  const std::uint64_t blocks = (data.classes->size() + kLanes - 1) / kLanes, parts = parts_of(blocks);
  const std::uint64_t features = data.space->features;
  const std::uint64_t sums = parts == 1 ? 2 * members_for(data, options) : blocks * parts;
  return sizeof(float) * (std::min<std::uint64_t>(options.rows_per_step, data.size()) * blocks * kLanes +
                          sums * features * kLanes + features) +
         options.rows_per_step * (sizeof(RowView) + sizeof(ClassId) + sizeof(double));
}

void AdamLane::take(const Batch& batch, RunState& state) {
  visited_.fill(batch);
  if (means_.steps() != state.moments.updates) means_ = AdamMeans(state.moments.updates);
  for (std::size_t t = 0; t < batch.count; ++t, ++state.step) {
    admit(state, batch.step);
    prepare(t);
    team_.share((x_.size() + kRowsOfTask - 1) / kRowsOfTask, [&](std::size_t /*member*/, std::size_t task) {
      const std::size_t first = task * kRowsOfTask;
      find_coefficients(state.weights, first, std::min(kRowsOfTask, x_.size() - first));
    });
    move(state, batch.step);
    state.moments.updates = means_.steps();
  }
}

// Every number that a step computes is bounded by the weights, the data and the step.
void AdamLane::admit(RunState& state, double step) {
  const double push = units_.largest_weight / units_.mean_weight;
  if (!(units_.largest * std::max(push, 1.0) <= kMostSum && units_.longest <= kMostSum))
    throw DivergenceError(fmt::format(
        "adam adds in float32, for which features of up to {:.2g} are too large with any --step: give "
        "--normalize l2 or another --method",
        units_.largest));
  AdamMeans next = means_;
  next.advance();
  const bool intercept = state.weights.has_intercept();
  const double growth = step * next.most() * std::max(units_.most_inverse, intercept ? 1.0 : 0.0);
  const double reach = std::max(units_.longest, 1.0) + (intercept ? 1 : 0);
  const auto fits = [&] {
    const double bound = state.largest_weight + growth;
    return bound <= kWeightLimit && bound * reach <= kMostSum;
  };
  if (!fits()) state.largest_weight = state.weights.largest();
  if (!fits()) setup_.guard.diverged(state, state.step, growth);
  state.largest_weight += growth;
  means_ = next;
}

void AdamLane::prepare(std::size_t t) {
  x_.clear(), e_.clear();
  const std::span<const ClassId> labels = visited_.labels(t);
  label_.assign(labels.begin(), labels.end());
  const double unit = 1 / (units_.mean_weight * static_cast<double>(setup_.options.rows_per_step));
  for (const ExampleId i : visited_.examples(t)) {
    x_.push_back(setup_.data.x(i));
    e_.push_back(setup_.data.weight(i) * unit);
  }
}

void AdamLane::find_coefficients(const Weights& weights, std::size_t first, std::size_t count) {
  const std::span<const std::uint32_t> all = all_blocks_;
  for (std::size_t b = 0; b < blocks_; b += kBlocksOfTask) {
    const auto some = all.subspan(b, std::min(kBlocksOfTask, blocks_ - b));
    for (std::size_t i = first; i < first + count; ++i) {
      if (b == 0 && i + 1 < first + count) prefetch_row(x_[i + 1]);
      score_blocks(weights, x_[i], some, &coefficient_[i * columns_ + b * kLanes]);
    }
  }
  for (std::size_t i = first; i < first + count; ++i) finish_row(weights, i);
}

// From scores to C: -e p_k, and of the label e (1 - p_y), the sum of the others.
void AdamLane::finish_row(const Weights& weights, std::size_t i) {
  float* const z = &coefficient_[i * columns_];
  const float* const intercept = weights.has_intercept() ? weights.intercept().data() : no_intercept_.data();
  const std::size_t label = label_[i];
  float highest = 0;
  const double others = exp_scores(z, intercept, classes_, z[label] + intercept[label], label, &highest);
  const double factor = -e_[i] * std::exp(static_cast<double>(highest) - softplus(others));
  z[label] = static_cast<float>(-scale_row(z, classes_, static_cast<float>(factor)));
  std::fill(z + classes_, z + columns_, 0.0F);
}

void AdamLane::move(RunState& state, double step) {
  double row_weight = 0;
  for (const double e : e_) row_weight += e;
  AdamStep terms;
  terms.mean_share = static_cast<float>(1 - kAdamKeep);
  terms.square_share = static_cast<float>(means_.square_share());
  terms.rate = static_cast<float>(step * means_.correction());
  terms.tiny = static_cast<float>(kAdamTiny);
  const Ridge& ridge = setup_.ridge;
  // e has the weights of rows in units of their mean, and the share of a row of the step.
  if (ridge.on())
    terms.ridge = static_cast<float>(
        ridge.strength(step, row_weight * static_cast<double>(setup_.options.rows_per_step)));
  AdamStep of_intercept = terms;
  if (!ridge.includes_intercept()) of_intercept.ridge = 0;
  const std::size_t features = state.weights.features(), size = features * kLanes;
  const AdamPlace to{state.weights, state.moments.mean, state.moments.square};
  if (parts_ == 1) {
    team_.share((blocks_ + width_ - 1) / width_, [&](std::size_t member, std::size_t task) {
      const std::size_t first = task * width_, count = std::min(width_, blocks_ - first);
      float* const sum = &sums_[member * width_ * size];
      std::fill_n(sum, count * size, 0.0F);
      add_rows(x_, &coefficient_[first * kLanes], columns_, features, count, sum);
      for (std::size_t b = first; b < first + count; ++b) {
        adam_block(to, b, 0, features, sum + (b - first) * size, 1, units_.inverse, terms);
        move_intercepts(to, b, of_intercept);
      }
    });
    return;
  }
  team_.share(blocks_ * parts_, [&](std::size_t /*member*/, std::size_t task) {
    const std::size_t b = task / parts_, p = task % parts_;
    const std::size_t first = x_.size() * p / parts_, end = x_.size() * (p + 1) / parts_;
    float* const sum = &sums_[task * size];
    std::fill_n(sum, size, 0.0F);
    add_rows(std::span(x_).subspan(first, end - first), &coefficient_[first * columns_ + b * kLanes],
             columns_, features, 1, sum);
  });
  const std::size_t pieces = (features + kFeaturesOfTask - 1) / kFeaturesOfTask;
  team_.share(blocks_ * pieces, [&](std::size_t /*member*/, std::size_t task) {
    const std::size_t b = task / pieces, from = task % pieces * kFeaturesOfTask;
    adam_block(to, b, from, std::min(kFeaturesOfTask, features - from), &sums_[b * parts_ * size], parts_,
               units_.inverse, terms);
    if (from == 0) move_intercepts(to, b, of_intercept);
  });
}

// The intercept is a feature that every row has with value 1.
void AdamLane::move_intercepts(const AdamPlace& to, std::size_t block, const AdamStep& step) const {
  if (!to.w.has_intercept()) return;
  alignas(64) float sum[kLanes] = {};
  for (std::size_t i = 0; i < x_.size(); ++i)
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      sum[lane] += coefficient_[i * columns_ + block * kLanes + lane];
  adam_intercepts(to, block, sum, step);
}

}  // namespace truemax
