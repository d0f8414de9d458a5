// Row and class weights: their files, and balanced class weights.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/memory_budget.hpp"
#include "data/dataset.hpp"

namespace truemax {

// Range of a non-zero weight, as for steps: products stay far from the ends of double.
inline constexpr double kLeastWeight = 1e-15, kLargestWeight = 1e15;

struct RowWeights {
  std::string path;             // as shown in messages
  std::vector<double> value;    // of each row of the data file
  std::uint64_t last_line = 0;  // line of the last weight; 0: an array
  MemoryCharge memory;

  // Throws UserError unless there is a weight for each of the `rows` rows of `data`, or more if `more` rows
  // may follow.
  void require_rows(std::uint64_t rows, const std::string& data, bool more) const;
};

// One number per line, or a one-dimensional npy array. Throws UserError with file and line.
RowWeights read_row_weights(const std::string& path, const std::shared_ptr<MemoryBudget>& memory = nullptr);

// `what`: empty for none, "balanced", or a file of lines `class weight`. Returns the weights by class id;
// empty if all are 1. Throws UserError with file and line, also for a class that is not in `classes`.
std::vector<double> make_class_weights(const std::string& what, const ClassList& classes,
                                       const std::shared_ptr<MemoryBudget>& memory = nullptr);

inline constexpr const char* kBalanced = "balanced";
// The file that --class-weights names; empty if none.
std::string class_weight_file(const std::string& what);

// Throws UserError if standard input would be read twice, as data and weights or as two kinds of weights.
void require_standard_input_once(const std::vector<std::string>& data,
                                 const std::vector<std::string>& weights);

}  // namespace truemax
