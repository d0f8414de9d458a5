// How far a run goes and with which step size: by epochs, steps, a clock, or as a run before it went.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "train/options.hpp"
#include "train/run_state.hpp"
#include "train/stopwatch.hpp"

namespace truemax {

// What a clock decided in a run: enough to repeat it without one.
struct Recording {
  std::uint64_t steps = 0;
  std::vector<Segment> segments;  // empty: no step size came from the clock
};

// The runner asks before every batch of steps. Only a run with --seconds looks at a clock.
class StepPlan {
 public:
  // `epoch_steps`: steps of an epoch. `watch`: what --seconds counts; none: --seconds is not looked at.
  // `recording`: the run to repeat; it takes the place of the clock.
  StepPlan(const TrainOptions& options, std::uint64_t epoch_steps, const Stopwatch* watch = nullptr,
           const Recording* recording = nullptr);

  // The step size of the next `steps` steps; no steps: the budget is used up.
  struct Leg {
    double step = 0;
    std::uint64_t steps = 0;
  };
  Leg next(std::uint64_t epoch, std::uint64_t step_in_epoch);

  // Goes on where a run stands whose clock has chosen step sizes.
  void continue_from(const PlanState& state) {
    if (!repeats_) segments_ = state.segments;
  }

  // Ends the run when the watch shows so many seconds; step sizes do not depend on it. No watch: never.
  void cut_at(double seconds, const Stopwatch* watch) { cut_ = seconds, cut_watch_ = watch; }
  bool cut() const { return cut_watch_ != nullptr && cut_watch_->seconds_running() >= cut_; }

  bool used_up(std::uint64_t epoch, std::uint64_t step_in_epoch) const;
  bool has_clock() const { return watch_ != nullptr; }
  bool out_of_time() const { return cut() || (has_clock() && watch_->seconds_running() >= options_.seconds); }
  const std::vector<Segment>& segments() const {
    return segments_;
  }  // that the clock chose, or the recording

 private:
  Leg decayed(std::uint64_t epoch, std::uint64_t left);
  Leg linear(std::uint64_t done, std::uint64_t left, double seconds);
  Leg recorded(std::uint64_t done, std::uint64_t left);
  std::uint64_t piece_at(std::uint64_t done, std::uint64_t& left) const;

  TrainOptions options_;
  std::uint64_t epoch_steps_;
  std::uint64_t limit_;  // steps of the whole run at most
  std::uint64_t
      total_;  // what a linear schedule takes for the whole run; the largest number: only time ends it
  const Stopwatch* watch_;  // null: no clock
  const Stopwatch* cut_watch_ = nullptr;
  double cut_ = 0;
  bool repeats_;  // the segments are those of a recording
  std::vector<Segment> segments_;
  std::size_t at_ = 0;                       // the segment under way
  std::uint64_t epoch_ = ~std::uint64_t{0};  // whose step size is decayed_step_
  double decayed_step_ = 0;
};

}  // namespace truemax
