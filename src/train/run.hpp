// A whole training run: files in, model and log out. What `truemax train` does, less the talking.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "data/options.hpp"
#include "model/model.hpp"
#include "train/automatic.hpp"
#include "train/options.hpp"
#include "train/outputs.hpp"
#include "train/trainer.hpp"

namespace truemax {

struct RunOptions {
  std::string train_path;
  std::string test_path;
  std::string test_label_file, test_split, test_row_weights;
  std::string valid_path, valid_label_file;
  ReadOptions read;
  PreprocessOptions preprocess;
  std::string class_weights;   // "balanced" or a file; empty: all 1
  std::uint64_t max_rows = 0;  // of each file; 0: all
  TrainOptions train;
  // Where the model and the log go: "none" for nowhere; empty: a free name here, and beside the model.
  std::string model, log;
  std::uint64_t memory_limit = 0;  // 0: what is there
  std::string replay;              // the log of a run to repeat

  void describe(OptionTable& table);
  nlohmann::ordered_json to_json();
  bool saves() const { return model != "none"; }
  bool logs() const { return log != "none"; }
};

// The memory a run takes, part by part.
struct MemoryPlan {
  std::uint64_t weights = 0, rows = 0, data = 0, evaluation = 0;
  std::uint64_t there = 0;
  std::uint64_t best = 0;     // the best weights so far, where --patience keeps them
  bool best_on_disk = false;  // there is no memory for them
  std::uint64_t classes = 0, features = 0;
  std::uint64_t copies = 1;  // of weights, without the best

  std::uint64_t total() const;
  std::string to_text() const;
  void require() const;  // throws UserError with the numbers and the ways out
};

MemoryPlan plan_memory(const TrainSets& sets, const TrainOptions& options,
                       std::uint64_t memory_limit);  // 0: what is there

// What the data say of the options. Throws UserError.
void require_step_shape(const TrainOptions& options, const DataView& data);
// Patience needs something to watch. Throws UserError.
void require_validation(const TrainOptions& options, bool has_valid);

// What training has made, with all that a model file says of it. Weights as the options named them; empty:
// none.
Model make_model(Weights&& weights, const DataView& data, const PreprocessOptions& preprocess,
                 TrainOptions options, const std::string& row_weights, const std::string& class_weights);

// What was read, checked and planned; nothing has been written yet. The names of the outputs are this run's
// while it lives.
struct PreparedRun {
  RunOptions options;
  RunOutputs outputs;
  DataView data;
  std::optional<DataView> test, valid;
  std::optional<Recording> recording;  // the run to repeat
  MemoryPlan memory;
  std::string data_hash, valid_hash;  // of the contents, where a log wants them
  std::vector<std::string> notes;     // for the user
  double read_seconds = 0;
  Stopwatch watch;               // of training; starts with execute_run
  bool automatic = false;        // --method auto
  nlohmann::ordered_json asked;  // the options before anything was chosen

  TrainSets sets() const { return {data, test, valid}; }
  std::size_t bytes() const { return sets().bytes(); }  // of the data
};

// What the log of a run says of its data.
nlohmann::ordered_json data_json(const DataView& data);

// Reads and checks everything; writes nothing but its claims. On return options.model and options.log are
// names or "none".
PreparedRun prepare_run(RunOptions options);

struct FinishedRun {
  TrainOutcome outcome;
  Model model;
  bool saved = false;
  std::string model_path, log_path;  // where they are in the end; "none"
  SearchResult search;               // of --method auto; finished: also where there was nothing to search
  double trial_seconds = 0;          // part of the training time
};

// Trains, evaluates, logs and saves. The model is saved also after an interruption or a divergence, but a
// diverged one replaces no other. Until all is done, the log is PATH.part.
FinishedRun execute_run(PreparedRun& run, std::vector<TrainObserver*> observers,
                        const std::atomic<bool>& stop);

}  // namespace truemax
