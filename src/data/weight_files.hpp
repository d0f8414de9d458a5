// Weights of rows and of classes: their files, and the weights that balance the classes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/memory_budget.hpp"
#include "data/dataset.hpp"

namespace truemax {

// A weight other than 0 lies between these, as steps do: their products stay far from the ends of double.
inline constexpr double kLeastWeight = 1e-15, kLargestWeight = 1e15;

struct RowWeights {
  std::string path;             // as messages call it
  std::vector<double> value;    // of each row of the data file
  std::uint64_t last_line = 0;  // where the last weight stands; 0: an array
  MemoryCharge memory;

  // That there is a weight for each of the `rows` rows of `data`, or for more where `more` rows may follow.
  // Throws UserError.
  void require_rows(std::uint64_t rows, const std::string& data, bool more) const;
};

// One number a line, or a one-dimensional npy array. Throws UserError with file and line.
RowWeights read_row_weights(const std::string& path, const std::shared_ptr<MemoryBudget>& memory = nullptr);

// `what`: empty for none, "balanced", or a file of lines `class weight`. The weights by class id; empty where
// all are 1. Throws UserError with file and line, also for a class that is not in `classes`.
std::vector<double> make_class_weights(const std::string& what, const ClassList& classes,
                                       const std::shared_ptr<MemoryBudget>& memory = nullptr);

inline constexpr const char* kBalanced = "balanced";
// The file that --class-weights names; empty where it names none.
std::string class_weight_file(const std::string& what);

// Standard input can be read once: not as data and as weights, nor as weights of two kinds. Throws UserError.
void require_standard_input_once(const std::vector<std::string>& data,
                                 const std::vector<std::string>& weights);

}  // namespace truemax
