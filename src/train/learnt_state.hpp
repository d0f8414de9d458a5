// What a run with learnt features carries besides RunState's rows: vectors of features and classes, each with
// the running mean of its squared gradients (RMSprop), which decays only when a step touches the row.
#pragma once

#include <cstdint>
#include <vector>

#include "core/huge_pages.hpp"
#include "weights/embedding.hpp"

namespace truemax {

// One of several ranks has the vectors and intercepts of its own classes, numbered as those of its Weights
// are; and all of E, or a part of it (EncoderTables::share).
struct LearntState {
  bool empty() const { return tables.empty(); }
  bool tied() const { return classes.columns == 0; }
  // The vector of class k is row k.
  const Embedding& output() const { return tied() ? tables.features : classes; }

  EncoderTables tables;
  Embedding classes;             // W [K][h]; no columns if tied: W is then the first K rows of E
  std::vector<float> intercept;  // [K]; empty without
  HugeVector<float> features_square, mixing_square, classes_square;
  std::vector<float> intercept_square;
  std::uint64_t updates = 0;  // steps so far
};

}  // namespace truemax
