// The output files of a run: names that no other running process uses, a log that is written to a temporary
// name, and which old files may be replaced at the end.
#pragma once

#include <string>
#include <vector>

#include "core/claim.hpp"

namespace truemax {

struct RunOptions;

// Whether there is something at the path. A dangling link counts: it must not be replaced unasked.
bool is_there(const std::string& path);

// The same of a model, which may be a set of files.
bool is_model_there(const std::string& path);

class RunOutputs {
 public:
  RunOutputs() = default;
  // Checks that the given paths can be written, without creating files. On return options.log is set unless
  // the model is unnamed. Throws UserError.
  explicit RunOutputs(RunOptions& options);

  // Claims the names; without given names, the first free one of model, model-2, ... On return options.model
  // and options.log are names or "none". Throws UserError if another running process has claimed one.
  void claim(RunOptions& options, std::vector<std::string>& notes);

  // Where the log is written during the run: PATH.part, or PATH itself for a pipe or device.
  const std::string& growing_log() const;

  // For a run whose results must not replace an old file: if there is one, the results get another name, such
  // as model-diverged.safetensors. `with_model`: a model will be saved.
  void step_aside(const char* why, bool with_model);

  const std::string& model() const { return model_.path; }
  const std::string& log() const { return log_.path; }  // "none" without one

  // Renames the log to its final name. Throws UserError.
  void publish_log();

 private:
  struct Output {
    std::string path = "none";
    Claim claim;
    bool wanted() const { return path != "none"; }
  };
  static bool claimed(Output& output, const std::string& path);

  Output model_, log_;
  Claim other_log_;                // claim on the name the log gets after step_aside()
  bool log_beside_model_ = false;  // --log was not given
  bool log_streams_ = false;
};

}  // namespace truemax
