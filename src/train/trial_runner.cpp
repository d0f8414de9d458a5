#include "train/trial_runner.hpp"

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

std::uint64_t TrialRunner::planned_steps(const TrialRows& rows, const Recipe& o, std::uint64_t steps) {
  return steps > 0 ? steps : o.epochs * steps_per_epoch(rows.data.size(), o);
}

double TrialRunner::run(const char* about, const TrialRows& rows, Recipe o, std::uint64_t steps) {
  if (stopped() || late_) return kNoLoss;
  o.sought = {};
  o.rival = nullptr;
  o.target = Target::valid;
  o.eval_every = 0, o.patience = 0, o.valid_share = 0, o.seconds = 0, o.steps = steps;
  if (steps > 0) o.epochs = kUnlimitedEpochs;
  // Lock-free, two trials of the same options differ by more than neighbouring ridges.
  o.lock_free = false;
  SearchTrial tried;
  tried.about = about, tried.number = count_ + 1;
  tried.step = o.step, tried.ridge = o.ridge, tried.hidden = o.hidden;
  tried.rows = rows.data.size(), tried.steps = planned_steps(rows, o, steps);
  tried.judged_on = rows.judge.size(), tried.rows_per_step = o.rows_per_step;
  if (const SearchTrial* earlier = known(tried)) {
    ++count_;
    return earlier->log_loss;
  }
  for (TrainObserver* observer : observers_) observer->trying(tried);
  Stopwatch own;
  own.resume();
  const std::optional<double> loss = loss_of(rows, bind(o, facts_of(rows.data), machine_), tried);
  if (!loss) return kNoLoss;
  tried.log_loss = *loss, tried.seconds = own.seconds_running();
  ++count_;
  for (TrainObserver* observer : observers_) observer->tried(tried);
  return *loss;
}

// The same trial in an earlier process, or null. A trial that diverged has taken fewer steps.
const SearchTrial* TrialRunner::known(const SearchTrial& planned) const {
  if (planned.number > known_.size()) return nullptr;
  const SearchTrial& k = known_[planned.number - 1];
  const bool same = k.about == planned.about && k.step == planned.step && k.ridge == planned.ridge &&
                    k.hidden == planned.hidden && k.rows == planned.rows &&
                    k.judged_on == planned.judged_on && k.rows_per_step == planned.rows_per_step &&
                    (k.steps == planned.steps || k.log_loss == kNoLoss);
  return same ? &k : nullptr;
}

// nullopt if it was stopped or given up. Sets tried.steps.
std::optional<double> TrialRunner::loss_of(const TrialRows& rows, const Plan& plan, SearchTrial& tried) {
  const std::uint64_t planned = tried.steps, epoch_steps = plan.steps_per_epoch;
  // W of a run on a card is not in memory, and need not be cleared there.
  const bool card = plan.recipe.on_gpu();
  Fit fit(rows.data, plan, make_state(rows.data, plan.recipe, card ? nullptr : &spare_));
  Fit::Until until;
  if (latest_ < kNoLoss) until.seconds = latest_, until.clock = &watch_;
  const Fit::End end = fit.run(until, stop_, [&](std::uint64_t in_epoch) {
    for (TrainObserver* observer : observers_)
      observer->trial_stepped(fit.state().epoch * epoch_steps + in_epoch, planned);
  });
  late_ = end == Fit::End::reached;
  double loss = kNoLoss;  // also if the trial diverged
  if (end == Fit::End::used_up) try {
      if (const auto metrics = fit.evaluate({}, rows.judge, plan.machine.threads, &stop_))
        loss = metrics->log_loss;
    } catch (const DivergenceError&) {
      loss = kNoLoss;  // large steps made the rows that judge leave float32
    }
  loss = ranks().broadcast_value(loss);  // all ranks choose alike
  tried.steps = fit.steps();
  if (!card) spare_ = std::move(fit.state().weights);
  if (stopped() || late_) return std::nullopt;
  return loss;
}

}  // namespace truemax
