// A whole training run from files to model and log: `truemax train` without the terminal output.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "train/prepare.hpp"
#include "train/search_and_fit.hpp"

namespace truemax {

// The trained model with its metadata. `row_weights`, `class_weights`: as in the options; empty: none.
Model make_model(RunState&& state, const DataView& data, const PreprocessOptions& preprocess,
                 const Recipe& recipe, const std::string& row_weights, const std::string& class_weights);

struct FinishedRun : FitResult {
  Model model;
  bool saved = false;
  std::string model_path, log_path;  // where they ended up, or "none"
};

// Trains, evaluates, logs and saves. The model is also saved after an interruption or a divergence, but a
// diverged model replaces no old one. Until the end the log is PATH.part.
FinishedRun execute_run(PreparedRun& run, std::vector<TrainObserver*> observers,
                        const std::atomic<bool>& stop);

}  // namespace truemax
