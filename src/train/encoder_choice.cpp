// Linear or learnt features: by memory, then by trials of both on the same rows.
#include <fmt/format.h>

#include <algorithm>

#include "core/text.hpp"
#include "train/automatic.hpp"
#include "train/memory_plan.hpp"

namespace truemax {
namespace {

constexpr std::uint64_t kSmallestHidden = 16;

// The largest h for trials that fits, by halves from the largest one below the number of classes and of
// features; 0: not even the smallest one fits.
std::uint64_t most_hidden(const TrainSets& sets, TrainOptions learnt, std::uint64_t memory_limit) {
  std::uint64_t hidden = kMostHidden;
  while (hidden > learnt.hidden && hidden >= full_rank(sets.data)) hidden /= 2;
  for (; hidden >= kSmallestHidden; hidden /= 2) {
    learnt.hidden = learnt.open.most_hidden = hidden;
    if (plan_memory(sets, learnt, memory_limit).fits()) return hidden;
  }
  return 0;
}

}  // namespace

std::string fit_to_memory(const TrainSets& sets, TrainOptions& options, std::uint64_t memory_limit) {
  const OpenChoices& open = options.open;
  if (!open.encoder && !open.hidden) return {};
  TrainOptions learnt = open.encoder ? as_learnt(sets.data, options, first_hidden(sets.data)) : options;
  const std::uint64_t most = most_hidden(sets, learnt, memory_limit);
  learnt.open.most_hidden = most;
  learnt.hidden = std::min(learnt.hidden, most);
  if (!open.encoder) {
    if (most > 0) options = learnt;
    return {};
  }
  TrainOptions linear = options;
  linear.open.encoder = linear.open.hidden = false, linear.encoder = EncoderKind::linear;
  const MemoryPlan plan = plan_memory(sets, linear, memory_limit);
  if (plan.fits() && most > 0) {
    options.open.most_hidden = most;
    return {};
  }
  if (most == 0) {
    const bool compares = options.compares_encoders();
    options = linear;
    return plan.fits() && compares ? "not enough memory to try learnt features: the model is linear" : "";
  }
  options = learnt;
  return fmt::format(
      "the weights of a linear model do not fit: {} classes x {} features need {}, {} available; learning "
      "features instead",
      plan.classes, plan.features, size_text(plan.weights), size_text(plan.there));
}

SearchResult choose_by_trials(const TrainSets& sets, TrainOptions& options, const SearchTools& given) {
  Weights own;
  SearchTools tools = given;
  if (tools.spare == nullptr) tools.spare = &own;
  if (options.learnt()) return choose_learnt_by_trials(sets, options, tools);
  if (options.newton > 0) return choose_newton_by_trials(sets, options, tools);
  const bool compares =
      options.compares_encoders() && (sets.valid.has_value() || sets.data.row_count() >= kFewestRows);
  const TrainOptions before = options;
  SearchResult linear = choose_linear_by_trials(sets, options, tools);
  options.encoder = EncoderKind::linear;
  if (!compares || !linear.finished) return linear;
  TrainOptions learnt =
      as_learnt(sets.data, before, std::min(first_hidden(sets.data), before.open.most_hidden));
  const LinearRival rival{options, linear.trials};
  SearchResult both = choose_learnt_by_trials(sets, learnt, tools, &rival);
  if (both.compared && both.compared->learnt_wins()) {
    options = learnt;
    return both;
  }
  linear.finished = both.finished, linear.trials = both.trials, linear.compared = both.compared;
  return linear;
}

}  // namespace truemax
