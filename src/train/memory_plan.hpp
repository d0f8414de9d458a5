// The memory a run will need, checked before it is allocated, and checks of options against the data.
#pragma once

#include <cstdint>
#include <string>

#include "train/options.hpp"
#include "train/trainer.hpp"

namespace truemax {

// In bytes.
struct MemoryPlan {
  std::uint64_t weights = 0, rows = 0, data = 0, evaluation = 0;
  std::uint64_t there = 0;
  std::uint64_t best = 0;     // the best weights so far, for --patience
  bool best_on_disk = false;  // not enough memory for them
  std::uint64_t classes = 0, features = 0;
  std::uint64_t own_classes = 0, own_vectors = 0;                // of the rank that has most of them
  const char* more_ranks = "";                                   // advice, of several ranks
  const char* fewer = "keep fewer features (--max-features), ";  // advice
  std::uint64_t hidden = 0;                                      // learnt features of a row
  std::uint64_t copies = 1;                                      // of the weights, without the best
  bool streamed = false;                                         // --stream

  std::uint64_t total() const;
  bool fits() const { return total() <= there; }
  std::string to_text() const;
  void require() const;  // throws UserError with the numbers and what to do
};

// Of the largest run that the open choices allow. memory_limit: 0: available memory.
MemoryPlan plan_memory(const TrainSets& sets, const TrainOptions& options, std::uint64_t memory_limit);

// Learnt features: one running mean of squared gradients for each vector (--row-state) if memory is short
// otherwise and the user has not decided. Returns whether it did.
bool save_memory(const TrainSets& sets, TrainOptions& options, std::uint64_t memory_limit);
inline constexpr char kSavedMemory[] =
    "memory is short: learnt vectors keep one running mean of squared gradients each (--row-state)";

// Checks rows and classes per step against the data. Throws UserError.
void require_step_shape(const TrainOptions& options, const DataView& data);
// What can be said of triples before they are read.
void require_triples_shape(const TrainOptions& options);
// Something must end the run, and --patience needs validation rows. Throws UserError.
void require_end(const TrainOptions& options, bool has_valid);

}  // namespace truemax
