// Where a run writes: names that no other live run has, a log that is written aside, and what may replace
// what at the end.
#pragma once

#include <string>
#include <vector>

#include "core/claim.hpp"

namespace truemax {

struct RunOptions;

class RunOutputs {
 public:
  RunOutputs() = default;
  // Looks whether the named places can be written; makes no file. On return options.log is named unless the
  // model is not. Throws UserError.
  explicit RunOutputs(RunOptions& options);

  // Claims the names; where there are none, those of the first of model, model-2, ... that is free. On return
  // options.model and options.log are names or "none". Throws UserError where another live run has one.
  void claim(RunOptions& options, std::vector<std::string>& notes);

  // Where the log is written while the run goes on: PATH.part; a pipe or a device as it is.
  const std::string& growing_log() const;

  // For a run whose results are not worth an older file: where one is there, they get another name, as in
  // model-diverged.safetensors. `with_model`: there is one to be saved.
  void step_aside(const char* why, bool with_model);

  const std::string& model() const { return model_.path; }
  const std::string& log() const { return log_.path; }  // "none" without one

  // The log gets its name. Throws UserError.
  void publish_log();

 private:
  struct Output {
    std::string path = "none";
    Claim claim;
    bool wanted() const { return path != "none"; }
  };
  static bool claimed(Output& output, const std::string& path);

  Output model_, log_;
  Claim other_log_;                // the name that the log gets instead of its own
  bool log_beside_model_ = false;  // nobody named it
  bool log_streams_ = false;
};

}  // namespace truemax
