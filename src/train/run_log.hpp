// The run log: one JSON object per line, flushed line by line.
#pragma once

#include <cstdio>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "train/trainer.hpp"

namespace truemax {

// The lines of trials and evaluations.
nlohmann::ordered_json trial_event(const SearchTrial& trial);
nlohmann::ordered_json evaluate_event(const EvaluationRecord& record);

class RunLog final : public TrainObserver {
 public:
  // `path` "none": no file. `name`: its name in messages, if not the path. Throws UserError if it cannot be
  // opened.
  explicit RunLog(const std::string& path, const std::string& name = "");

  // From now on, keeps all lines in memory too, for checkpoints.
  void keep_lines() { keeps_ = true; }
  const std::string& lines() const { return lines_; }
  void write_lines(const std::string& earlier);  // of a run that is resumed

  // A failure is reported by require_whole(), so that a run is not lost because its log has no room.
  void write(const nlohmann::ordered_json& event);
  bool complete() const { return file_ && failure_.empty(); }
  void require_begun() const;  // throws UserError
  void require_whole() const;  // throws UserError
  void tried(const SearchTrial& trial) override;
  void evaluated(const EvaluationRecord& record) override;

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  void append(const std::string& text);

  std::string name_, failure_, lines_;
  bool keeps_ = false;
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace truemax
