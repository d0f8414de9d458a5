// How far a run goes and with which step sizes: by epochs, steps, a clock, or a recording of an earlier run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "train/recipe.hpp"
#include "train/run_state.hpp"
#include "train/stopwatch.hpp"

namespace truemax {

// What the clock decided in a run; enough to repeat it without a clock.
struct Recording {
  std::uint64_t steps = 0;
  std::vector<Segment> segments;  // empty: no step size came from the clock
};

// Asked by the step loop before every batch. Only a run with --seconds reads a clock.
class StepSchedule {
 public:
  // `epoch_steps`: steps per epoch. `watch`: the clock of --seconds; null: --seconds is ignored. `recording`:
  // a run to repeat, used instead of the clock. `search_seconds`: what the clock showed when the fit began; a
  // linear schedule falls over what is left.
  StepSchedule(const Recipe& recipe, std::uint64_t epoch_steps, const Stopwatch* watch = nullptr,
               const Recording* recording = nullptr, double search_seconds = 0);

  // The step size of the next `steps` steps; 0 steps: the budget is used up.
  struct Leg {
    double step = 0;
    std::uint64_t steps = 0;
    double last_step = 0;  // if the step falls evenly until the end of the leg; 0: it stays
  };
  Leg next(std::uint64_t epoch, std::uint64_t step_in_epoch);

  // Whoever takes the steps lets them fall within a leg, so that legs may be long; not with a clock, which
  // says how far a run is.
  void let_steps_fall() { falls_within_ = true; }

  // Resumes a run whose clock has already chosen step sizes.
  void continue_from(const PlanState& state) {
    if (!repeats_) segments_ = state.segments;
  }

  // Ends the run when `watch` shows so many seconds, but not before a step, without affecting step sizes.
  // Null: never.
  void cut_at(double seconds, const Stopwatch* watch) { cut_ = seconds, cut_watch_ = watch, moved_ = false; }
  bool cut() const { return moved_ && cut_watch_ != nullptr && cut_watch_->seconds_running() >= cut_; }

  // The steps or seconds of the options, which a cut does not end.
  bool used_up(std::uint64_t epoch, std::uint64_t step_in_epoch) const;
  bool has_clock() const { return watch_ != nullptr; }
  bool out_of_time() const { return cut() || time_used_up(); }
  const std::vector<Segment>& segments() const { return segments_; }  // chosen by the clock or the recording

 private:
  bool time_used_up() const { return has_clock() && watch_->seconds_running() >= recipe_.seconds; }
  Leg decayed(std::uint64_t epoch, std::uint64_t left);
  Leg linear(std::uint64_t done, std::uint64_t left, double seconds);
  Leg recorded(std::uint64_t done, std::uint64_t left);
  std::uint64_t piece_at(std::uint64_t done, std::uint64_t& left) const;

  Recipe recipe_;
  std::uint64_t epoch_steps_;
  std::uint64_t limit_;  // most steps of the whole run
  std::uint64_t
      total_;  // steps that a linear schedule falls over; the largest number: only time ends the run
  const Stopwatch* watch_;  // null: no clock
  double begin_;            // of the fit, by the clock
  const Stopwatch* cut_watch_ = nullptr;
  double cut_ = 0;
  bool moved_ = false;  // steps were taken since cut_at()
  bool falls_within_ = false;
  bool repeats_;  // the segments are those of a recording
  std::vector<Segment> segments_;
  std::size_t at_ = 0;                       // the current segment
  std::uint64_t epoch_ = ~std::uint64_t{0};  // the epoch of decayed_step_
  double decayed_step_ = 0;
};

}  // namespace truemax
