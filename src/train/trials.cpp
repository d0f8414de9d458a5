#include "train/trials.hpp"

#include <limits>
#include <utility>

#include "core/error.hpp"
#include "ranks/ranks.hpp"
#include "train/bind.hpp"
#include "train/fit.hpp"
#include "train/start.hpp"
#include "train/step_shape.hpp"

namespace truemax {
namespace {
constexpr double kNoLoss = std::numeric_limits<double>::infinity();
}

std::uint64_t Trials::planned_steps(const TrialRows& rows, const Recipe& recipe, std::uint64_t steps) {
  return steps > 0 ? steps : recipe.epochs * steps_per_epoch(rows.data.size(), recipe);
}

double Trials::train(const char* about, const TrialRows& rows, const Recipe& of, std::uint64_t steps) {
  Recipe recipe = of.found(false);
  recipe.eval_every = 0, recipe.seconds = 0, recipe.steps = steps;
  if (steps > 0) recipe.epochs = kUnlimitedEpochs;
  // Lock-free, two trials of the same recipe differ by more than neighbouring ridges.
  recipe.lock_free = false;
  SearchTrial tried;
  tried.about = about;
  tried.step = recipe.step, tried.ridge = recipe.ridge, tried.hidden = recipe.hidden;
  tried.rows = rows.data.size(), tried.steps = planned_steps(rows, recipe, steps);
  tried.judged_on = rows.judge.size(), tried.rows_per_step = recipe.rows_per_step;
  return run(tried, [&](SearchTrial& trial) {
    return loss_of(rows, bind(recipe, facts_of(rows.data), tools_.machine), trial);
  });
}

double Trials::run(SearchTrial& tried, const std::function<std::optional<double>(SearchTrial&)>& judge) {
  if (stopped() || late_) return kNoLoss;
  tried.number = count_ + 1;
  if (const SearchTrial* earlier = known(tried)) {
    ++count_;
    tried = *earlier;
    return tried.log_loss;
  }
  for (TrainObserver* observer : tools_.observers) observer->trying(tried);
  Stopwatch own;
  own.resume();
  const std::optional<double> loss = judge(tried);
  if (!loss) return kNoLoss;
  tried.log_loss = *loss, tried.seconds = own.seconds_running();
  ++count_;
  for (TrainObserver* observer : tools_.observers) observer->tried(tried);
  return *loss;
}

// The same trial in an earlier process, or null. A trial that diverged has taken fewer steps.
const SearchTrial* Trials::known(const SearchTrial& planned) const {
  if (planned.number > tools_.known.size()) return nullptr;
  const SearchTrial& k = tools_.known[planned.number - 1];
  const bool same = k.about == planned.about && k.step == planned.step && k.ridge == planned.ridge &&
                    k.hidden == planned.hidden && k.rows == planned.rows &&
                    k.judged_on == planned.judged_on && k.rows_per_step == planned.rows_per_step &&
                    (k.steps == planned.steps || k.log_loss == kNoLoss);
  // What a trial of Newton's method leaves to the next one is saved with it, but not by older versions.
  return same && (planned.steps > 0 || !k.memory.empty()) ? &k : nullptr;
}

// nullopt if it was stopped or given up. Sets tried.steps.
std::optional<double> Trials::loss_of(const TrialRows& rows, const Plan& plan, SearchTrial& tried) {
  const std::uint64_t planned = tried.steps, epoch_steps = plan.steps_per_epoch;
  // W of a run on a card is not in memory, and need not be cleared there.
  const bool card = plan.recipe.on_gpu();
  Fit fit(rows.data, plan, make_state(rows.data, plan.recipe, card ? nullptr : tools_.spare));
  Fit::Until until;
  if (latest_ < kNoLoss) until.seconds = latest_, until.clock = &tools_.watch;
  const Fit::End end = fit.run(until, tools_.stop, [&](std::uint64_t in_epoch) {
    for (TrainObserver* observer : tools_.observers)
      observer->trial_stepped(fit.state().epoch * epoch_steps + in_epoch, planned);
  });
  late_ = end == Fit::End::reached;
  double loss = kNoLoss;  // also if the trial diverged
  if (end == Fit::End::used_up) try {
      if (const auto metrics = fit.evaluate({}, rows.judge, plan.recipe.thread_count(), &tools_.stop))
        loss = metrics->log_loss;
    } catch (const DivergenceError&) {
      loss = kNoLoss;  // large steps made the rows that judge leave float32
    }
  loss = ranks().broadcast_value(loss);  // all ranks choose alike
  tried.steps = fit.steps();
  if (!card) *tools_.spare = std::move(fit.state().weights);
  if (stopped() || late_) return std::nullopt;
  return loss;
}

}  // namespace truemax
