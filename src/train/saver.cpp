#include "train/saver.hpp"

#include <fmt/format.h>

#include "core/error.hpp"
#include "ranks/ranks.hpp"
#include "train/prepared_run.hpp"

namespace truemax {

CheckpointSaver::CheckpointSaver(const PreparedRun& run, RunLog& log, std::span<TrainObserver* const> others)
    : run_(run), log_(log), others_(others) {
  if (run.resumed) about_ = run.resumed->about();
  any_ = run.resumed.has_value();
  about_.finished = false;
  about_.asked = run.asked;
  if (run.unnamed) about_.asked["model"] = "";
  about_.data_hash = run.data_hash, about_.valid_hash = run.valid_hash, about_.test_hash = run.test_hash;
  about_.init_hash = run.init_hash;
  about_.model = run.options.model, about_.log = run.options.log;
  if (!any_) about_.chosen = nlohmann::ordered_json::object();
  since_.resume();
}

void CheckpointSaver::begin() {
  if (!any_) write(nullptr);
}

void CheckpointSaver::tried(const SearchTrial& trial) {
  constexpr double kSeconds = 1;  // so that many short trials do not wait for the disk
  if (!about_.trials.empty()) about_.trials.back().memory.points.clear();  // the next trial has followed
  about_.trials.push_back(trial);
  about_.seconds = run_.watch.seconds_running();
  if (ranks().broadcast_value(since_.seconds_running() >= kSeconds)) write(nullptr);
}

void CheckpointSaver::searched(const SearchResult& search, double trial_seconds, const Plan& plan) {
  steps_per_epoch_ = plan.steps_per_epoch;
  if (about_.fitting) return;  // resumed in the fit
  about_.search = search, about_.trial_seconds = trial_seconds;
  about_.chosen = to_json(plan.recipe);
  about_.fitting = search.finished;
}

void CheckpointSaver::save(const RunState& state, bool finished) {
  about_.finished = finished;
  about_.seconds = state.plan.seconds;
  about_.epochs = state.epoch;
  about_.steps = state.epoch * steps_per_epoch_ + state.step;
  write(&state);
}

void CheckpointSaver::write(const RunState* state) {
  about_.lines = log_.lines();
  const std::string& path = run_.options.checkpoint;
  try {
    write_checkpoint(path, about_, state);
    failure_.clear();
  } catch (const UserError& error) {
    if (!any_) throw;
    failure_ = fmt::format("--checkpoint {}", error.what());
    for (TrainObserver* o : others_) o->warned(failure_ + "; the run goes on");
  }
  if (failure_.empty()) {
    any_ = true;
    log_.write({{"event", "checkpoint"}, {"epochs", about_.epochs}, {"steps", about_.steps}});
  }
  since_ = Stopwatch();
  since_.resume();
}

void CheckpointSaver::require_saved() const {
  if (!failure_.empty()) throw UserError(failure_);
}

}  // namespace truemax
