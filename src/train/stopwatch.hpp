// Training time.
#pragma once

#include <chrono>
#include <functional>
#include <utility>

namespace truemax {

// Empty: the steady clock. Tests pass a clock that they move themselves.
using TimeSource = std::function<std::chrono::steady_clock::time_point()>;

// Counts training time: everything after reading, except evaluation.
class Stopwatch {
 public:
  Stopwatch() = default;
  explicit Stopwatch(TimeSource source) : source_(std::move(source)) {}
  void resume() { since_ = now(); }
  // Adds the training time of an earlier part of the run.
  void add(double seconds) {
    total_ += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }
  void pause() { total_ += now() - since_; }
  double seconds() const { return std::chrono::duration<double>(total_).count(); }
  double seconds_running() const { return std::chrono::duration<double>(total_ + (now() - since_)).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point now() const { return source_ ? source_() : Clock::now(); }

  TimeSource source_;
  Clock::time_point since_{};
  Clock::duration total_{};
};

}  // namespace truemax
