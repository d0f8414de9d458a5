// Everything that can be said of a run: its files, and what is asked of training.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "data/options.hpp"
#include "model/model.hpp"
#include "train/options.hpp"

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
  Asked asked;
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

// All options, with the values that `training` has for those of training.
nlohmann::ordered_json with_training(const RunOptions& options, const nlohmann::ordered_json& training);

}  // namespace truemax
