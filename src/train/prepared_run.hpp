// A run that has been decided and not begun.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "device/engine.hpp"
#include "train/checkpoint.hpp"
#include "train/outputs.hpp"
#include "train/plan.hpp"
#include "train/resolve.hpp"
#include "train/run_options.hpp"
#include "train/schedule.hpp"
#include "train/stopwatch.hpp"
#include "train/warm_start.hpp"

namespace truemax {

// A run whose data are read and checked; nothing is written yet. Holds the claims on its output names.
struct PreparedRun {
  RunOptions options;
  RunOutputs outputs;
  DataView data;
  std::optional<DataView> test, valid;
  std::optional<Recording> recording;  // the run to repeat
  Reading reading;
  Problem facts;  // of the data as they were read, before rows were set aside
  Machine machine;
  std::optional<Plan> plan;                      // before trials
  Reasons reasons;                               // for it
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
  nlohmann::ordered_json asked;  // the options, with "auto" for what was open
  bool unnamed = false;          // --model was not given, also not to the process that is resumed

  TrainSets sets() const { return {data, test, valid}; }
  std::size_t bytes() const { return sets().bytes(); }  // of the data
  const Recipe& recipe() const { return plan->recipe; }
  bool automatic() const { return reading.automatic; }
};

// The description of the data in the run log.
nlohmann::ordered_json data_json(const DataView& data);

}  // namespace truemax
