// A copy of the weights, kept aside while training goes on: the best so far, for --patience.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "weights/weights.hpp"

namespace truemax {

class KeptWeights {
 public:
  // In memory, or, where a folder is named, in a file there that has no name: it is gone with the process,
  // however that ends.
  explicit KeptWeights(std::string folder) : folder_(std::move(folder)) {}
  ~KeptWeights();
  KeptWeights(const KeptWeights&) = delete;
  KeptWeights& operator=(const KeptWeights&) = delete;

  void keep(const Weights& weights);  // throws UserError where the disk is full
  void restore(Weights& weights);     // bit for bit what was kept last
  bool empty() const { return !kept_; }
  // What is kept, bit for bit.
  void write(StateSink& to) const;
  void read(StateSource& from);

 private:
  void open_file(std::uint64_t bytes);
  void keep_numbers(std::span<const float> numbers, std::uint64_t at);
  void read_numbers(std::span<float> numbers, std::uint64_t at) const;
  [[noreturn]] void fail(const char* doing, int error) const;

  std::string folder_;
  bool kept_ = false;
  int file_ = -1;
  std::uint64_t classes_ = 0, features_ = 0;
  Weights copy_;  // empty where a file is used
  std::vector<float> intercept_;
  Weights::Scales scales_;
};

}  // namespace truemax
