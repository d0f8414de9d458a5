// Live progress on a terminal: rate, loss and time left, on one line that is rewritten. In a pipe: nothing.
#pragma once

#include <chrono>
#include <string>

#include "train/trainer.hpp"

namespace truemax {

// The line itself.
class ProgressLine {
 public:
  ~ProgressLine() { clear(); }

  static bool wanted();  // standard error is a terminal
  bool due();            // whether the last text has stood long enough
  void show(const std::string& text);
  void clear();

 private:
  bool shown_ = false;
  std::chrono::steady_clock::time_point last_{};
};

// "evaluating 40%, 0:12 left".
class RowProgress {
 public:
  void show(ProgressLine& line, std::size_t rows, std::size_t of, const std::string& behind = "");
  void restart() { started_ = {}; }

 private:
  std::chrono::steady_clock::time_point started_{};
};

class TrainProgress final : public TrainObserver {
 public:
  explicit TrainProgress(const TrainOptions& options)
      : epochs_(options.epochs), steps_(options.steps), seconds_(options.seconds) {}

  void stepped(std::uint64_t epoch, std::uint64_t steps, std::uint64_t of, double train_seconds) override;
  void evaluating(std::size_t rows, std::size_t of) override;
  void evaluated(const EvaluationRecord& record) override;

 private:
  std::uint64_t epochs_, steps_;  // what ends the run
  double seconds_;
  std::string loss_;
  ProgressLine line_;
  RowProgress rows_;
};

}  // namespace truemax
