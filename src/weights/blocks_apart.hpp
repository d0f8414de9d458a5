// What one thread adds to some features of the first blocks of W, kept apart from it until it is added up.
// Lines that all threads write every few steps would go from core to core each time; this way they do so only
// when sums are added.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/csr.hpp"
#include "weights/weights.hpp"

namespace truemax {

// Some of the features, numbered anew.
class SomeFeatures {
 public:
  static constexpr std::uint32_t kNone = 0xFFFFFFFFU;

  SomeFeatures(std::vector<FeatureId> some, std::size_t all);

  std::span<const FeatureId> numbers() const { return some_; }  // in all
  std::uint32_t place(FeatureId feature) const {
    return place_[feature];
  }  // among them; kNone: not one of them

 private:
  std::vector<FeatureId> some_;
  std::vector<std::uint32_t> place_;  // by feature
};

class BlocksApart {
 public:
  // Of the first `classes` classes (whole blocks, or all), and these features.
  BlocksApart(std::size_t classes, std::shared_ptr<const SomeFeatures> features, bool intercept);

  std::size_t blocks() const { return numbers_.size(); }

  // z[b][lane] += x . (what was added to that lane of block b), times its scale in w, and the intercept,
  // which is also added to `intercept`.
  void add_scores(const Weights& w, const RowView& x, float* z, float* intercept);
  // Every lane of block b of w += c[b][lane] x, and the intercept: here what is kept apart, there the rest. x
  // is that of the last add_scores.
  void add(Weights& w, const float* c);
  // Moves all of it to w.
  void add_up(Weights& w);

 private:
  // Features and values of a part of a row.
  struct Part {
    std::vector<FeatureId> index;
    std::vector<float> value;
    RowView view() const { return {index, value}; }
  };

  Weights sums_;  // [blocks][features here], in memory as in w: divided by its scales
  std::shared_ptr<const SomeFeatures> features_;
  std::vector<std::uint32_t> numbers_;  // of the blocks
  std::vector<float> more_;             // [blocks][16]: scores
  Part here_, there_;                   // of the last row
};

}  // namespace truemax
