// The run log: one JSON object a line, each line on disk before the run goes on.
#pragma once

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "train/trainer.hpp"

namespace truemax {

class RunLog final : public TrainObserver {
 public:
  explicit RunLog(const std::string& path);  // throws UserError where it cannot be written

  void write(const nlohmann::ordered_json& event);
  void evaluated(const EvaluationRecord& record) override;

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace truemax
