// What a run will take of the memory, before it takes it, and what the data say of the options.
#pragma once

#include <cstdint>
#include <string>

#include "train/options.hpp"
#include "train/trainer.hpp"

namespace truemax {

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

}  // namespace truemax
