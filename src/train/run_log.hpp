// The run log: one JSON object a line, each line written out before the run goes on.
#pragma once

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "train/trainer.hpp"

namespace truemax {

class RunLog final : public TrainObserver {
 public:
  // `name`: what messages call it, where that is not its path. Throws UserError where it cannot be written.
  explicit RunLog(const std::string& path, const std::string& name = "");

  // A failure is kept until require_whole(): a run must not lose what it learnt because its log has no room.
  void write(const nlohmann::ordered_json& event);
  void require_whole() const;  // throws UserError
  void tried(const SearchTrial& trial) override;
  void evaluated(const EvaluationRecord& record) override;

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string name_, failure_;
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace truemax
