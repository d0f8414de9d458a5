// A whole training run from files to model and log: `truemax train` without the terminal output.
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
#include "train/checkpoint.hpp"
#include "train/memory_plan.hpp"
#include "train/options.hpp"
#include "train/outputs.hpp"
#include "train/search_and_fit.hpp"
#include "train/trainer.hpp"
#include "train/warm_start.hpp"

namespace truemax {

inline constexpr char kDefaultCheckpointEvery[] = "10min";

struct RunOptions {
  std::string train_path;
  std::string test_path;
  std::string test_label_file, test_split, test_row_weights;
  std::string valid_path, valid_label_file;
  ReadOptions read;
  PreprocessOptions preprocess;
  std::string class_weights;        // "balanced" or a file; empty: all 1
  std::uint64_t max_rows = 0;       // of each file; 0: all
  bool stream = false;              // the training rows stay in their cache
  std::uint64_t stream_window = 0;  // bytes; 0: chosen by the memory
  TrainOptions train;
  // Output paths; "none": not written. Empty: a free name in the current folder, the log beside the model.
  std::string model, log;
  bool split_model = false;        // the model is a set of files
  std::uint64_t memory_limit = 0;  // 0: available memory
  std::string replay;              // the log of a run to repeat
  std::string checkpoint;          // where the run is saved along the way; empty: nowhere
  std::string checkpoint_every = kDefaultCheckpointEvery;
  bool resume = false;                 // go on from the checkpoint, if there is one
  std::string init;                    // a model to start from
  std::shared_ptr<const Model> start;  // the model of `init`, once it is read

  void describe(OptionTable& table);
  nlohmann::ordered_json to_json();
  bool saves() const { return model != "none"; }
  ModelForm model_form() const { return split_model ? ModelForm::set : ModelForm::one_file; }
  bool logs() const { return log != "none"; }
};

// The trained model with its metadata. `row_weights`, `class_weights`: as in the options; empty: none.
Model make_model(RunState&& state, const DataView& data, const PreprocessOptions& preprocess,
                 TrainOptions options, const std::string& row_weights, const std::string& class_weights);

// A run whose data are read and checked; nothing is written yet. Holds the claims on its output names.
struct PreparedRun {
  RunOptions options;
  RunOutputs outputs;
  DataView data;
  std::optional<DataView> test, valid;
  std::optional<Recording> recording;  // the run to repeat
  MemoryPlan memory;
  std::string data_hash, valid_hash, test_hash;  // of the contents, if a log or checkpoint is written
  std::optional<CheckpointFile> resumed;         // the checkpoint to go on from
  Claim checkpoint_claim;
  SaveEvery save_every;
  std::shared_ptr<const Model> start;      // --init
  std::string init_hash;                   // of its file
  StartMatch start_match;                  // with the training data
  std::shared_ptr<device::Engine> engine;  // says which GPU it is; null: the CPU
  std::vector<std::string> notes;          // for the user
  double read_seconds = 0;
  Stopwatch watch;               // training time; started by execute_run
  bool automatic = false;        // --method auto
  nlohmann::ordered_json asked;  // the options before anything was chosen
  bool unnamed = false;          // --model was not given, also not to the process that is resumed

  TrainSets sets() const { return {data, test, valid}; }
  std::size_t bytes() const { return sets().bytes(); }  // of the data
  std::uint64_t steps_of(const RunState& state) const;  // finished steps of the whole fit
};

// The description of the data in the run log.
nlohmann::ordered_json data_json(const DataView& data);

// Reads and checks everything; writes only its claims. On return options.model and options.log are names or
// "none".
PreparedRun prepare_run(RunOptions options);

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
