#include "train/choose_place.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "core/files.hpp"
#include "device/open.hpp"
#include "rule/methods.hpp"
#include "train/alternatives.hpp"
#include "train/card_cost.hpp"
#include "train/choose_steps.hpp"
#include "train/device_lane.hpp"
#include "train/memory_plan.hpp"
#include "train/start_values.hpp"
#include "train/step_inputs.hpp"

namespace truemax {
namespace {

constexpr std::uint64_t kMostHidden = 1024, kSmallestHidden = 16;  // of trials; of what memory leaves

MemoryPlan memory_of(const Recipe& recipe, const Problem& problem, const Machine& machine) {
  const std::unique_ptr<Draw> draw = draw_for(recipe, problem);
  return plan_memory({recipe, problem, machine, draw.get()});
}

bool fits_on_card(const Recipe& learnt, const Problem& problem, const Machine& machine) {
  return !learnt.on_gpu() || !machine.card ||
         learnt_card_bytes({learnt, problem, machine}) <= machine.card->free;
}

// The largest h for trials that fits, by halves from the largest one below the number of classes and of
// features; 0: not even the smallest one fits.
std::uint64_t most_hidden(Recipe learnt, const Problem& problem, const Machine& machine) {
  std::uint64_t hidden = kMostHidden;
  while (hidden > learnt.hidden && hidden >= problem.full_rank()) hidden /= 2;
  for (; hidden >= kSmallestHidden; hidden /= 2) {
    learnt.hidden = learnt.most_hidden = hidden;
    if (memory_of(learnt, problem, machine).fits() && fits_on_card(learnt, problem, machine)) return hidden;
  }
  return 0;
}

}  // namespace

bool choose_device(const Problem& problem, const Machine& machine, Draft& d) {
  Recipe& r = d.recipe;
  if (machine.in_groups) require_cpu(r), r.device = device::kCpu;
  if (r.device != device::kAuto) return true;
  r.device = device::kCpu;
  const auto because = [&](std::string why) {
    d.reasons.device = std::move(why);
    return true;
  };
  if (problem.stream) return because("the rows are streamed");
  if (d.newton && why_not_newton(problem, r.seconds).empty())
    return because("Newton's method takes less time");
  Recipe there = r;
  if (d.shape) there.draw = "blocks";
  const bool draws = !d.shape && !r.learnt() && !find_method(r.method).whole_set;
  const std::unique_ptr<Draw> draw = draws ? draw_for(r, problem) : nullptr;
  const Facts facts{there, problem, machine, draw.get()};
  if (!r.learnt())
    if (const std::string why = DeviceLane::why_not(facts); !why.empty())
      return because(why.substr(0, why.find(':')));  // without the advice
  const CardCost cost = card_cost(facts, d.encoder, d.shape);
  if (!cost.is_faster())
    return because(
        fmt::format("steps take about {:.2g} s here, and a GPU {:.2g} s to start", cost.cpu, cost.start));
  if (!machine.knows_card) return false;
  if (!machine.card) return because("there is no GPU");
  const std::uint64_t needed =
      r.learnt() && r.hidden > 0 ? learnt_card_bytes(facts) : DeviceLane::bytes(facts);
  if (needed > machine.card->free)
    return because(fmt::format("{} needs {} and has {} free", machine.card->name, size_text(needed),
                               size_text(machine.card->free)));
  r.device = "cuda";
  d.newton = false, d.not_newton = "the run is on a GPU";
  return because("it is faster here");
}

std::string fit_to_memory(const Problem& problem, const Machine& machine, Draft& d) {
  Recipe& r = d.recipe;
  if (!d.encoder && !r.sought.hidden) return {};
  Draft learnt = d.encoder ? as_learnt(problem, d, first_hidden(problem)) : d;
  const std::uint64_t most = most_hidden(learnt.recipe, problem, machine);
  learnt.recipe.most_hidden = most;
  learnt.recipe.hidden = std::min(learnt.recipe.hidden, most);
  if (!d.encoder) {
    if (most > 0) d = std::move(learnt);
    return {};
  }
  // Trials take too long for --seconds.
  const bool compares = r.seconds == 0;
  Draft linear = d;
  linear.encoder = linear.recipe.sought.hidden = false, linear.recipe.encoder = EncoderKind::linear;
  const MemoryPlan plan = memory_of(linear.recipe, problem, machine);
  if (plan.fits() && most > 0) {
    d = std::move(linear);
    if (!compares) return {};
    Recipe& found = d.recipe;
    found.sought.encoder = true;
    found.most_hidden = most;
    found.rival = std::make_shared<const Recipe>(std::move(learnt.recipe));
    return {};
  }
  if (most == 0) {
    d = std::move(linear);
    return plan.fits() && compares ? "not enough memory to try learnt features: the model is linear" : "";
  }
  d = std::move(learnt);
  return fmt::format(
      "the weights of a linear model do not fit: {} classes x {} features need {}, {} available; learning "
      "features instead",
      plan.classes, plan.features, size_text(plan.weights), size_text(plan.there));
}

bool save_memory(const Problem& problem, const Machine& machine, Draft& d) {
  if (d.recipe.hidden == 0 || !d.row_state) return false;
  d.recipe.row_state = !memory_of(d.recipe, problem, machine).fits();
  return d.recipe.row_state;
}

}  // namespace truemax
