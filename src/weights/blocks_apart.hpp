// What one thread adds to the first blocks of W, kept apart from it until it is added up. Lines that all
// threads write in every step would go from core to core each time; this way they do so only when sums are
// added.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/csr.hpp"
#include "weights/weights.hpp"

namespace truemax {

class BlocksApart {
 public:
  // Of the first `classes` classes; the last block of W may have fewer.
  BlocksApart(std::size_t classes, std::size_t features, bool intercept);
  static std::uint64_t bytes(std::uint64_t features, std::uint64_t blocks);

  std::size_t blocks() const { return numbers_.size(); }

  // z[b][lane] += x . (what was added to that lane of block b), times its scale in w, and the intercept,
  // which is also added to `intercept`.
  void add_scores(const Weights& w, const RowView& x, float* z, float* intercept);
  // Every lane of block b += c[b][lane] x, and the intercept.
  void add(const Weights& w, const RowView& x, const float* c);
  // Moves all of it to w.
  void add_up(Weights& w);

 private:
  Weights sums_;                        // in memory as in w, divided by its scales
  std::vector<std::uint32_t> numbers_;  // of the blocks
  std::vector<float> more_;             // [blocks][16]: scores
  std::vector<bool> touched_;           // by feature
  std::vector<FeatureId> features_;     // that are touched
};

}  // namespace truemax
