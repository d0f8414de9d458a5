#include "train/solvers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

#include "device/open.hpp"
#include "rule/any_rule.hpp"
#include "rule/methods.hpp"
#include "train/adam_lane.hpp"
#include "train/all_classes_lane.hpp"
#include "train/block_lane.hpp"
#include "train/commuting.hpp"
#include "train/companion.hpp"
#include "train/device_lane.hpp"
#include "train/device_learnt_lane.hpp"
#include "train/drawn_batch.hpp"
#include "train/general_lane.hpp"
#include "train/group_lane.hpp"
#include "train/lbfgs_lane.hpp"
#include "train/learnt_lane.hpp"
#include "train/newton.hpp"
#include "train/pair_lane.hpp"
#include "train/solver_seconds.hpp"
#include "train/step_cost.hpp"
#include "train/step_shape.hpp"

namespace truemax {
namespace {

const MethodInfo& method_of(const Facts& facts) {
  return find_method(facts.recipe.method);
}

// Sentences that several solvers say.
constexpr char kNone[] = "";
constexpr char kLearnt[] = "features are learnt";
constexpr char kLinear[] = "the model is linear";
constexpr char kOnCpu[] = "the run is on the CPU";
constexpr char kOnCard[] = "the run is on a GPU";

std::string other_steps(const Facts& facts) {
  return fmt::format("the method is {}", facts.recipe.method);
}

// Of linear models on the CPU, row by row.
std::string not_row_by_row(const Facts& facts) {
  const auto& [recipe, problem, machine, draw] = facts;
  if (recipe.hidden > 0) return kLearnt;
  if (recipe.on_gpu()) return kOnCard;
  if (method_of(facts).by_weight) return other_steps(facts);
  return kNone;
}

std::string not_drawn(const Facts& facts) {
  if (std::string why = not_row_by_row(facts); !why.empty()) return why;
  if (facts.draw == nullptr) return fmt::format("{} takes all classes in every step", facts.recipe.method);
  return kNone;
}

std::unique_ptr<AnyRule> rule_of(const Facts& facts) {
  return make_rule(facts.recipe.method, facts.recipe.rule, {});
}

bool projects(const Facts& facts) {
  return method_of(facts).projects && facts.recipe.ridge > 0;
}

// ---- Batches

std::size_t few_ahead(const Facts& facts) {
  if (facts.draw != nullptr && facts.draw->learns()) return 1;
  constexpr double kAhead = 1 << 16, kWork = 1 << 19;
  const auto& [recipe, problem, machine, draw] = facts;
  const auto n = static_cast<double>(recipe.rows_per_step);
  const auto m = static_cast<double>(draw != nullptr ? draw->most_classes() : problem.classes);
  const double nonzeros = problem.nonzeros_per_row;
  const bool gram = method_of(facts).needs_gram;
  const double work = n * (m + 1) * (nonzeros + 1) + (gram ? n * n * (nonzeros + n * m) : 0.0);
  return static_cast<std::size_t>(
      std::clamp(std::min(kAhead / (n + m), kWork / work), 1.0, static_cast<double>(kStepsAhead)));
}

std::size_t learnt_ahead(const Facts& facts) {
  if (facts.draw->learns()) return 1;
  return facts.recipe.lock_free ? 4 * facts.machine.threads : few_ahead(facts);
}

// Threads prepare the steps of a GPU; a piece of a schedule has no more in most runs.
std::size_t device_learnt_ahead(const Facts& facts) {
  constexpr std::size_t kDeviceAhead = 16;
  if (facts.draw->learns()) return 1;
  return facts.recipe.lock_free ? 4 * facts.machine.threads : kDeviceAhead;
}

std::size_t device_ahead(const Facts& facts) {
  return facts.draw != nullptr && facts.draw->learns() ? 1 : DeviceLane::kMostSteps;
}

// ---- Memory

std::uint64_t no_bytes(const Facts& /*facts*/) {
  return 0;
}

// Of steps of rows and drawn classes.
std::uint64_t step_bytes(const Facts& facts) {
  const auto& [recipe, problem, machine, draw] = facts;
  const MethodInfo& info = method_of(facts);
  StepShape shape = step_shape(facts);
  shape.rows = recipe.rows_per_step;
  std::uint64_t bytes =
      StepArrays::bytes(shape.rows, shape.columns) + rule_bytes(info, shape) + Ridge::bytes(recipe, problem);
  if (draw != nullptr) bytes += draw->memory_bytes() + DrawnBatch::bytes(few_ahead(facts), shape.rows, *draw);
  if (info.has_companion) bytes += Companion::bytes(problem);
  if (recipe.lock_free && draw != nullptr && draw->whole_blocks()) bytes += BlockLane::bytes_apart(facts);
  return bytes;
}

std::uint64_t group_bytes(const Facts& facts) {
  return GroupLane::bytes(facts) + Ridge::bytes(facts.recipe, facts.problem);
}
std::uint64_t lbfgs_bytes(const Facts& facts) {
  return LbfgsLane::bytes(facts.problem) + Ridge::bytes(facts.recipe, facts.problem);
}
std::uint64_t adam_bytes(const Facts& facts) {
  return AdamLane::bytes(facts) + Ridge::bytes(facts.recipe, facts.problem);
}

template <std::size_t (*steps_ahead)(const Facts&)>
std::uint64_t learnt_bytes(const Facts& facts) {
  const Draw& draw = *facts.draw;
  return LearntLane::step_bytes(facts) + draw.memory_bytes() +
         (LearntLane::draws_ahead(facts) ? 2 : 1) *
             DrawnBatch::bytes(steps_ahead(facts), facts.recipe.rows_per_step, draw);
}

std::uint64_t newton_bytes(const Facts& facts) {
  return NewtonProblem::bytes(facts.problem) *
         (facts.recipe.sought.ridge ? 1 + newton_folds(facts.problem).used : 1);
}

std::uint64_t one_copy(const Facts& facts) {
  return method_of(facts).has_companion ? 2 : 1;
}
std::uint64_t adam_copies(const Facts& /*facts*/) {
  return 3;
}
std::uint64_t lbfgs_copies(const Facts& facts) {
  return LbfgsLane::copies(facts.problem);
}

// ---- The table

template <class OneLane>
std::unique_ptr<Lane> make(const LaneSetup& setup) {
  return std::make_unique<OneLane>(setup);
}

const auto& table() {
  static const std::array all = std::to_array<Solver>({
      {.name = "device-learnt",
       .about = "learnt features on a GPU",
       .why_not = [](const Facts& f) -> std::string {
         return f.recipe.hidden == 0 ? kLinear : f.recipe.on_gpu() ? kNone : kOnCpu;
       },
       .seconds = device_learnt_seconds,
       .state_bytes = LearntLane::state_bytes,
       .step_bytes = learnt_bytes<device_learnt_ahead>,
       .copies = one_copy,
       .steps_ahead = device_learnt_ahead,
       .make = [](const LaneSetup& setup) -> std::unique_ptr<Lane> {
         return std::make_unique<DeviceLearntLane>(
             setup, device::open_learnt(device::Choice::parse(setup.recipe.device)));
       },
       .finish = nullptr},
      {.name = "learnt",
       .about = "learnt features: many rows share many drawn classes",
       .why_not = [](const Facts& f) -> std::string {
         return f.recipe.hidden == 0 ? kLinear : f.recipe.on_gpu() ? kOnCard : kNone;
       },
       .seconds = learnt_seconds,
       .state_bytes = LearntLane::state_bytes,
       .step_bytes = learnt_bytes<learnt_ahead>,
       .copies = one_copy,
       .steps_ahead = learnt_ahead,
       .make = make<LearntLane>,
       .finish = nullptr},
      {.name = "device",
       .about = "steps of one row and whole blocks on a GPU, many side by side",
       .why_not = [](const Facts& f) -> std::string {
         if (f.recipe.hidden > 0) return kLearnt;
         return f.recipe.on_gpu() ? DeviceLane::why_not(f) : kOnCpu;
       },
       .seconds = device_seconds,
       .state_bytes = no_bytes,
       .step_bytes = no_bytes,  // they are on the card
       .copies = one_copy,
       .steps_ahead = device_ahead,
       .make = [](const LaneSetup& setup) -> std::unique_ptr<Lane> {
         return std::make_unique<DeviceLane>(setup, device::open(device::Choice::parse(setup.recipe.device)));
       },
       .finish = nullptr},
      {.name = "group",
       .about = "rows of a group side by side, from the same weights",
       .why_not = [](const Facts& f) -> std::string {
         if (std::string why = not_row_by_row(f); !why.empty()) return why;
         if (f.recipe.group == 0 && f.machine.alone())
           return "rows are taken one after the other, without --group";
         return GroupLane::why_not(f);
       },
       .seconds = group_seconds,
       .state_bytes = no_bytes,
       .step_bytes = group_bytes,
       .copies = one_copy,
       .steps_ahead = GroupLane::steps_ahead,
       .make = make<GroupLane>,
       .finish = nullptr},
      {.name = "lbfgs",
       .about = "all rows and classes at once, along directions of L-BFGS",
       .why_not = [](const Facts& f) -> std::string {
         if (f.recipe.hidden > 0) return kLearnt;
         if (f.recipe.on_gpu()) return kOnCard;
         return method_of(f).all_rows ? kNone : other_steps(f);
       },
       .seconds = lbfgs_epoch_seconds,
       .state_bytes = no_bytes,
       .step_bytes = lbfgs_bytes,
       .copies = lbfgs_copies,
       .steps_ahead = few_ahead,
       .make = make<LbfgsLane>,
       .finish = nullptr},
      {.name = "adam",
       .about = "many rows and all classes, a step of its own for every weight",
       .why_not = [](const Facts& f) -> std::string {
         if (f.recipe.hidden > 0) return kLearnt;
         if (f.recipe.on_gpu()) return kOnCard;
         return method_of(f).by_weight && !method_of(f).all_rows ? kNone : other_steps(f);
       },
       .seconds = adam_seconds,
       .state_bytes = no_bytes,
       .step_bytes = adam_bytes,
       .copies = adam_copies,
       .steps_ahead = few_ahead,
       .make = make<AdamLane>,
       .finish = nullptr},
      {.name = "all-classes",
       .about = "every class in every step, block by block",
       .why_not = [](const Facts& f) -> std::string {
         if (std::string why = not_row_by_row(f); !why.empty()) return why;
         return f.draw == nullptr ? kNone : "a step has drawn classes";
       },
       .seconds = all_classes_seconds,
       .state_bytes = no_bytes,
       .step_bytes = step_bytes,
       .copies = one_copy,
       .steps_ahead = few_ahead,
       .make = make<AllClassesLane>,
       .finish = nullptr},
      {.name = "block",
       .about = "one row and whole blocks of 16 classes a step",
       .why_not = [](const Facts& f) -> std::string {
         if (std::string why = not_drawn(f); !why.empty()) return why;
         if (f.recipe.rows_per_step != 1) return "a step has several rows";
         if (!f.draw->whole_blocks()) return fmt::format("the draw {} is not of whole blocks", f.recipe.draw);
         const MethodInfo& info = method_of(f);
         // Hooks of a method see all its steps.
         const bool alone = !projects(f) && !info.has_companion && !info.refreshes;
         return rule_of(f)->takes_blocks() || alone ? kNone
                                                    : fmt::format("{} looks at every step", info.name);
       },
       .seconds = block_seconds,
       .state_bytes = no_bytes,
       .step_bytes = step_bytes,
       .copies = one_copy,
       .steps_ahead = few_ahead,
       .make = make<BlockLane>,
       .finish = nullptr},
      {.name = "pair",
       .about = "one row and one class a step, eight steps at a time",
       .why_not = [](const Facts& f) -> std::string {
         if (std::string why = not_drawn(f); !why.empty()) return why;
         if (f.recipe.rows_per_step != 1) return "a step has several rows";
         if (f.draw->most_classes() != 1) return "a step has several classes";
         if (!f.draw->always_full()) return fmt::format("the draw {} may leave a step empty", f.recipe.draw);
         if (f.recipe.ridge > 0) return "there is a ridge";
         if (f.recipe.intercept) return "there is an intercept";
         return rule_of(f)->takes_pairs() ? kNone
                                          : fmt::format("{} solves its steps one by one", f.recipe.method);
       },
       .seconds = pair_seconds,
       .state_bytes = no_bytes,
       .step_bytes = step_bytes,
       .copies = one_copy,
       .steps_ahead = few_ahead,
       .make = make<PairLane>,
       .finish = nullptr},
      {.name = "general",
       .about = "any rows and classes, in double",
       .why_not = not_drawn,
       .seconds = general_seconds,
       .state_bytes = no_bytes,
       .step_bytes = step_bytes,
       .copies = one_copy,
       .steps_ahead = few_ahead,
       .make = make<GeneralLane>,
       .finish = nullptr},
      {.name = "newton",
       .about = "Newton's method over all rows and classes, to the optimum",
       .why_not = [](const Facts& f) -> std::string {
         if (f.recipe.learnt()) return kLearnt;
         if (f.recipe.newton == 0) return "--newton was not given";
         return f.recipe.on_gpu() ? kOnCard : kNone;
       },
       .seconds = newton_seconds,
       .state_bytes = no_bytes,
       .step_bytes = newton_bytes,
       .copies = one_copy,
       .steps_ahead = nullptr,
       .make = nullptr,
       .finish = newton_fit},
  });
  return all;
}

}  // namespace

std::span<const Solver> solvers() {
  return table();
}

const Solver& solver_of_steps(const Facts& facts) {
  for (const Solver& solver : table())
    if (solver.make != nullptr && solver.why_not(facts).empty()) return solver;
  throw std::logic_error("no solver takes the steps of this recipe");
}

const Solver& newton_solver() {
  const auto& all = table();
  return *std::find_if(all.begin(), all.end(), [](const Solver& s) { return s.finish != nullptr; });
}

}  // namespace truemax
