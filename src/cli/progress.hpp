// Live progress on a terminal: rate, loss and time left, on one line that is rewritten.
#pragma once

#include <chrono>
#include <string>

#include "train/trainer.hpp"

namespace truemax {

class Progress final : public TrainObserver {
 public:
  explicit Progress(std::uint64_t epochs);
  ~Progress() override;

  void stepped(std::uint64_t epoch, std::uint64_t steps, std::uint64_t of, double train_seconds) override;
  void evaluating() override;
  void evaluated(const EvaluationRecord& record) override;

  static bool wanted();  // standard error is a terminal

 private:
  void show(const std::string& text);
  void clear();
  std::uint64_t epochs_;
  std::string loss_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace truemax
