// The weights of the classes as an index needs them: single classes, scores in double, and exact passes. They
// are in memory, or stay in the model's files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/csr.hpp"
#include "model/model.hpp"
#include "model/weights_on_disk.hpp"
#include "weights/pass.hpp"

namespace truemax {

// What ties an index to the weights that it was made of.
struct WeightsMark {
  std::uint64_t classes = 0, features = 0, weight = 0, intercept = 0;
  bool operator==(const WeightsMark&) const = default;
};

class ClassVectors {
 public:
  ClassVectors() = default;
  virtual ~ClassVectors() = default;
  ClassVectors(const ClassVectors&) = delete;
  ClassVectors& operator=(const ClassVectors&) = delete;

  // All of these may be called by several threads.
  virtual std::size_t classes() const = 0;
  virtual std::size_t features() const = 0;
  virtual void read(ClassId k, std::span<float> w) const = 0;
  virtual float intercept(ClassId k) const = 0;  // 0 without
  // Bit for bit as in an exact pass. `scratch` is the caller's.
  virtual double score(RowView x, ClassId k, std::vector<float>& scratch) const = 0;
  // All classes; ties by `rank`. Of options, `top`, `threads`, `tie_rank` and `stop` count.
  virtual PassResult pass(CsrView rows, const PassOptions& options) const = 0;
  virtual WeightsMark mark(std::size_t threads) const = 0;
};

// `weights` and `classes` outlive the result.
std::unique_ptr<ClassVectors> vectors_in_memory(const Weights& weights, const ClassList& classes);
std::unique_ptr<ClassVectors> vectors_on_disk(const WeightsOnDisk& weights);

}  // namespace truemax
