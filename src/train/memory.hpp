// The memory that a run will need, part by part.
#pragma once

#include <cstdint>
#include <string>

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

}  // namespace truemax
