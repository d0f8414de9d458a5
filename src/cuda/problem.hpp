// What the kernels of linear models read and write: plain pointers into the memory of the device.
#pragma once

#include <cstdint>

#include "core/host_device.hpp"

namespace truemax::cuda {

inline constexpr int kBlock = 16;  // classes of a block; the threads that take its steps

struct Rows {
  const std::uint64_t* begin;  // [rows + 1]
  const std::uint32_t* index;
  const float* value;
};

// A feature and its value: beside each other, since a step reads both from a place it has not read before.
struct alignas(8) Entry {
  std::uint32_t feature;
  float value;
};
struct PackedRows {
  const std::uint64_t* begin;  // [rows + 1]
  const Entry* entry;
};

struct Examples {
  const std::uint32_t* row;  // null: example i is row i
  const std::uint32_t* label;
  const float* weight;  // null: all 1
  const float* norm;    // |x|^2, and 1 with an intercept
  double* u;
  std::uint32_t count;
};

// [blocks][features][16], as weights/weights.hpp has it.
struct Matrix {
  float* weight;
  float* intercept;  // null: none
  std::uint32_t classes, features;
  bool shrinks_intercept = false;  // the scale of W is that of the intercepts too
  TRUEMAX_HOST_DEVICE std::uint32_t blocks() const { return (classes + kBlock - 1) / kBlock; }
  TRUEMAX_HOST_DEVICE float* line(std::uint32_t block, std::uint32_t feature) const {
    return weight + (std::uint64_t{block} * features + feature) * kBlock;
  }
  // What class k adds to its score. `scale`: of the weights.
  TRUEMAX_HOST_DEVICE float shift(std::uint32_t k, float scale) const {
    if (intercept == nullptr) return 0;
    return shrinks_intercept ? intercept[k] * scale : intercept[k];
  }
};

// A cell of the alias table of draw/alias.hpp.
struct Cell {
  std::uint64_t keep;
  std::uint32_t other, unused;
};

// Blocks of the head, the label's, `draws` of the tail, and those that the example remembers.
struct Draw {
  std::uint32_t head, draws, blocks;
  const Cell* cells;       // [blocks - head]
  const float* over_mean;  // [blocks - head]: 1 over the mean number of draws of a block
  std::uint64_t key;
  std::uint32_t rivals;     // that an example remembers at most
  const std::uint32_t* of;  // [examples][rivals]: blocks, then kNoRival
};

}  // namespace truemax::cuda
