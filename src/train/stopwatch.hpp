// Training time.
#pragma once

#include <chrono>

namespace truemax {

// Counts training time: everything after reading, except evaluation.
class Stopwatch {
 public:
  void resume() { since_ = Clock::now(); }
  void pause() { total_ += Clock::now() - since_; }
  // As if so much more time had passed: what a clock decides can be tested without waiting.
  void add(double seconds) {
    total_ += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }
  double seconds() const { return std::chrono::duration<double>(total_).count(); }
  double seconds_running() const {
    return std::chrono::duration<double>(total_ + (Clock::now() - since_)).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point since_{};
  Clock::duration total_{};
};

}  // namespace truemax
