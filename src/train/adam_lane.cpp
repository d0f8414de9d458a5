#include "train/adam_lane.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"

namespace truemax {
namespace {

constexpr std::size_t kFeaturesOfTask = 64;

std::size_t members_for(const Facts& facts) {
  return SoftmaxGradient::members_for(facts.problem, facts.recipe.rows_per_step, facts.machine.threads);
}

}  // namespace

AdamLane::AdamLane(const LaneSetup& setup)
    : setup_(setup),
      visited_(setup),
      units_(setup.data, setup.recipe.thread_count()),
      team_(members_for(setup.plan.facts())),
      gradient_(setup.data, setup.recipe.rows_per_step, team_) {
  const std::size_t sums = gradient_.parts() == 1 ? team_.size() * SoftmaxGradient::kMostBlocks
                                                  : gradient_.blocks() * gradient_.parts();
  sums_.resize(sums * setup.data.space->features * kLanes);
}

MomentState AdamLane::start(const DataView& data, const Recipe& recipe) {
  MomentState state;
  for (Weights* const of : {&state.mean, &state.square}) {
    *of = Weights(data.classes->size(), data.space->features, recipe.intercept);
    of->clear_pages(recipe.thread_count());
  }
  return state;
}

std::uint64_t AdamLane::bytes(const Facts& facts) {
  const Problem& problem = facts.problem;
  const std::uint64_t blocks = problem.blocks();
  const std::uint64_t parts = SoftmaxGradient::parts_of(blocks), features = problem.features;
  const std::uint64_t sums = parts == 1 ? SoftmaxGradient::kMostBlocks * members_for(facts) : blocks * parts;
  return SoftmaxGradient::bytes(problem, facts.recipe.rows_per_step) +
         sizeof(float) * (sums * features * kLanes + features);
}

void AdamLane::take(const Batch& batch, RunState& state) {
  visited_.fill(batch);
  if (means_.steps() != state.moments.updates) means_ = AdamMeans(state.moments.updates);
  for (std::size_t t = 0; t < batch.count; ++t, ++state.step) {
    admit(state, batch.step);
    prepare(t);
    gradient_.find(state.weights);
    move(state, batch.step);
    state.moments.updates = means_.steps();
  }
}

// Every number that a step computes is bounded by the weights, the data and the step.
void AdamLane::admit(RunState& state, double step) {
  require_features_fit(units_, "adam");
  AdamMeans next = means_;
  next.advance();
  const bool intercept = state.weights.has_intercept();
  const double growth = step * next.most() * std::max(units_.most_inverse, intercept ? 1.0 : 0.0);
  const double most = units_.most_weight(intercept);
  if (!(state.largest_weight + growth <= most)) state.largest_weight = state.weights.largest();
  if (!(state.largest_weight + growth <= most)) setup_.guard.diverged(state, state.step, growth);
  state.largest_weight += growth;
  means_ = next;
}

void AdamLane::prepare(std::size_t t) {
  const std::span<const ClassId> labels = visited_.labels(t);
  const std::span<const ExampleId> examples = visited_.examples(t);
  const double unit = 1 / (units_.mean_weight * static_cast<double>(setup_.recipe.rows_per_step));
  gradient_.clear();
  for (std::size_t i = 0; i < examples.size(); ++i)
    gradient_.add(setup_.data.x(examples[i]), labels[i], setup_.data.weight(examples[i]) * unit);
}

void AdamLane::move(RunState& state, double step) {
  AdamStep terms;
  terms.mean_share = static_cast<float>(1 - kAdamKeep);
  terms.square_share = static_cast<float>(means_.square_share());
  terms.rate = static_cast<float>(step * means_.correction());
  terms.tiny = static_cast<float>(kAdamTiny);
  const Ridge& ridge = setup_.ridge;
  // e has the weights of rows in units of their mean, and the share of a row of the step.
  if (ridge.on())
    terms.ridge = static_cast<float>(
        ridge.strength(step, gradient_.row_weight() * static_cast<double>(setup_.recipe.rows_per_step)));
  AdamStep of_intercept = terms;
  if (!ridge.includes_intercept()) of_intercept.ridge = 0;
  const std::size_t features = state.weights.features(), size = features * kLanes;
  const AdamPlace to{state.weights, state.moments.mean, state.moments.square};
  const std::size_t blocks = gradient_.blocks(), parts = gradient_.parts();
  if (parts == 1) {
    team_.share(gradient_.tasks(), [&](std::size_t member, std::size_t t) {
      const SoftmaxGradient::Blocks task = gradient_.task(t);
      float* const sum = &sums_[member * SoftmaxGradient::kMostBlocks * size];
      std::fill_n(sum, task.count * size, 0.0F);
      gradient_.add_to(task, sum);
      for (std::size_t b = 0; b < task.count; ++b) {
        adam_block(to, task.first + b, 0, features, sum + b * size, 1, units_.inverse, terms);
        move_intercepts(to, task.first + b, of_intercept);
      }
    });
    return;
  }
  team_.share(blocks * parts, [&](std::size_t /*member*/, std::size_t task) {
    float* const sum = &sums_[task * size];
    std::fill_n(sum, size, 0.0F);
    gradient_.add_part(task / parts, task % parts, sum);
  });
  const std::size_t pieces = (features + kFeaturesOfTask - 1) / kFeaturesOfTask;
  team_.share(blocks * pieces, [&](std::size_t /*member*/, std::size_t task) {
    const std::size_t b = task / pieces, from = task % pieces * kFeaturesOfTask;
    adam_block(to, b, from, std::min(kFeaturesOfTask, features - from), &sums_[b * parts * size], parts,
               units_.inverse, terms);
    if (from == 0) move_intercepts(to, b, of_intercept);
  });
}

// The intercept is a feature that every row has with value 1.
void AdamLane::move_intercepts(const AdamPlace& to, std::size_t block, const AdamStep& step) const {
  if (!to.w.has_intercept()) return;
  alignas(64) float sum[kLanes] = {};
  gradient_.add_intercepts(block, sum);
  adam_intercepts(to, block, sum, step);
}

}  // namespace truemax
