// The best weights so far, kept aside while training goes on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weights/weights.hpp"

namespace truemax {

class BestWeights {
 public:
  // In memory, or, where a folder is named, in a file there that has no name: it is gone with the process,
  // however that ends.
  explicit BestWeights(std::string folder) : folder_(std::move(folder)) {}
  ~BestWeights();
  BestWeights(const BestWeights&) = delete;
  BestWeights& operator=(const BestWeights&) = delete;

  void keep(const Weights& weights);  // throws UserError where the disk is full
  void restore(Weights& weights);     // bit for bit what was kept last

 private:
  void open_file(std::uint64_t bytes);
  [[noreturn]] void fail(const char* doing, int error) const;

  std::string folder_;
  int file_ = -1;
  Weights copy_;  // empty where a file is used
  std::vector<float> intercept_;
  Weights::Scales scales_;
};

}  // namespace truemax
