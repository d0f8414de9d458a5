// A copy of the best weights so far, kept while training continues, for --patience.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "weights/weights.hpp"

namespace truemax {

class KeptWeights {
 public:
  // In memory or, if a folder is given, in an unnamed file there, which disappears with the process however
  // it ends.
  explicit KeptWeights(std::string folder) : folder_(std::move(folder)) {}
  ~KeptWeights();
  KeptWeights(const KeptWeights&) = delete;
  KeptWeights& operator=(const KeptWeights&) = delete;

  void keep(const Weights& weights);  // throws UserError if the disk is full
  void restore(Weights& weights);     // the last copy, bit for bit
  bool empty() const { return !kept_; }
  // Whether restore() may write the copy, which is finite, to these weights.
  bool fits(const Weights& weights) const;
  // Saves and loads the copy, bit for bit. read() throws UserError if it is truncated or not finite.
  // `share`: as Weights::share().
  void write(StateSink& to) const;
  void read(StateSource& from, std::shared_ptr<const BlockShare> share = nullptr);

 private:
  void open_file(std::uint64_t bytes);
  void keep_numbers(std::span<const float> numbers, std::uint64_t at);
  void read_numbers(std::span<float> numbers, std::uint64_t at) const;
  [[noreturn]] void fail(const char* doing, int error) const;

  std::string folder_;
  bool kept_ = false;
  int file_ = -1;
  std::uint64_t classes_ = 0, features_ = 0;
  std::shared_ptr<const BlockShare> share_;
  Weights copy_;  // empty if a file is used
  std::vector<float> intercept_;
  Weights::Scales scales_;
};

}  // namespace truemax
