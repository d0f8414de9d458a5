// The rows of a group (--group): they are solved side by side, all from the W before the group. A rank has
// all rows, and of each the blocks that it owns, by their numbers in its own W.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "core/csr.hpp"
#include "core/types.hpp"
#include "weights/weights.hpp"

namespace truemax {

struct GroupRow {
  ExampleId example{};
  ClassId label = 0;
  RowView x;
  double e = 0;             // step size times the row's weight
  double squared_norm = 0;  // |x|^2 (+ 1 with intercept)
  double label_norm = 0;    // the same after the ridge of the label's block
  double label_ridge = 1;   // r of the label's block
  double least_weight = 1;  // o of any drawn block, on any rank
  double u = 0;             // in: old, out: new
  double label_score = 0, label_coefficient = 0;
  std::uint32_t begin = 0, end = 0;  // its blocks here
  std::uint32_t label_at = 0;        // the lane of its label among those of all blocks here; kElsewhere: none

  static constexpr std::uint32_t kElsewhere = 0xFFFFFFFFU;
  // An upper bound on what its step adds to a weight.
  double growth() const { return label_coefficient * std::max(1.0, std::sqrt(squared_norm)); }
  bool has_label() const { return label_at != kElsewhere; }
};

class GroupRows {
 public:
  // For `rows` rows with up to `blocks` blocks each.
  GroupRows(std::size_t rows, std::size_t blocks, bool with_ridge)
      : row(rows),
        block(rows * blocks),
        weight(rows * blocks),
        norm(rows * blocks),
        ridge(with_ridge ? rows * blocks : 0),
        memory_((2 * rows * blocks + 1) * kLanes) {
    const std::size_t off = reinterpret_cast<std::uintptr_t>(memory_.data()) / sizeof(float) % kLanes;
    score = memory_.data() + (kLanes - off) % kLanes;
    coefficient = score + rows * blocks * kLanes;
  }

  GroupRows(const GroupRows&) = delete;
  GroupRows& operator=(const GroupRows&) = delete;

  std::span<const std::uint32_t> blocks_of(const GroupRow& r) const {
    return {block.data() + r.begin, r.end - r.begin};
  }

  // By which the ridge of its row multiplies the weights of a block.
  double factor(std::size_t place) const { return ridge.empty() ? 1 : 1 / ridge[place]; }

  static std::uint64_t bytes(std::uint64_t rows, std::uint64_t blocks, bool with_ridge) {
    return rows * sizeof(GroupRow) +
           rows * blocks *
               (sizeof(std::uint32_t) + (with_ridge ? 3 : 2) * sizeof(double) + 2 * kLanes * sizeof(float));
  }

  std::size_t count = 0;
  std::size_t lines = 0;  // of W that the rows touch here
  std::vector<GroupRow> row;
  std::vector<std::uint32_t> block;                // [blocks]: numbers here
  std::vector<double> weight, norm, ridge;         // [blocks]: o; |x|^2 after the ridge; r
  float *score = nullptr, *coefficient = nullptr;  // [blocks][16], 64-byte aligned

 private:
  std::vector<float> memory_;
};

}  // namespace truemax
