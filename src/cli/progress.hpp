// Live progress on a terminal: rate, loss and time left, on one line that is rewritten. Nothing in a pipe.
#pragma once

#include <chrono>
#include <string>

#include "train/trainer.hpp"

namespace truemax {

// "1:05" and "12.3k".
std::string clock_text(double seconds);
std::string rate_text(double per_second);

class ProgressLine {
 public:
  ~ProgressLine() { clear(); }

  static bool wanted();  // standard error is a terminal
  bool due();            // enough time has passed since the last update
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
  void trying(const SearchTrial& next) override;
  void trial_stepped(std::uint64_t steps, std::uint64_t of) override;
  void tried(const SearchTrial& trial) override;
  void fitting(const Plan& plan, double train_seconds) override;
  void stepped(std::uint64_t epoch, std::uint64_t steps, std::uint64_t of, double train_seconds) override;
  void evaluating(std::size_t rows, std::size_t of) override;
  void evaluated(const EvaluationRecord& record) override;

 private:
  std::uint64_t epochs_ = 0, steps_ = 0;  // what ends the fit
  double seconds_ = 0;
  double fit_from_ = 0;  // training seconds when the fit began: its rate excludes the search
  bool searched_ = false;
  std::string loss_, next_;  // next_: the trial being run
  std::chrono::steady_clock::time_point trial_from_{};
  ProgressLine line_;
  RowProgress rows_;
};

}  // namespace truemax
