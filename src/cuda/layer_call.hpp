// What the kernels of a layer (layer/layer.hpp) on the GPU read and write: plain pointers into the memory of
// the device. Every field has 8 bytes: the struct is filled by python/truemax/_card.py.
//
// A batch of B rows shares M slots for drawn classes, a multiple of 16 of which the last ones may be empty.
// A class that was drawn twice has one slot with the weight of both; the other is empty. Slot M + i belongs
// to the label of row i, if that label was not drawn and no earlier row has it. So every touched class has
// one slot, shapes do not depend on what was drawn, and nothing needs sorting.
#pragma once

#include <cstdint>

#include "core/host_device.hpp"
#include "draw/alias.hpp"
#include "layer/arrays.hpp"

namespace truemax::cuda {

inline constexpr std::uint64_t kMostSlots = std::uint64_t{1} << 24;  // M + B
inline constexpr std::uint64_t kSlotsAtOnce = 16;

enum class NumberType : std::int64_t { float32 = 0, bfloat16 = 1 };
enum class CallDraw : std::int64_t { uniform = 0, counts = 1, recent = 2, all = 3 };
enum class CallReduction : std::int64_t { none = 0, sum = 1, mean = 2 };
enum class Fault : std::int64_t {
  none = 0,
  target = 1,
  index = 2,
  x = 3,
  weights = 4,
  gradient = 5,
  ring = 6
};

// In memory of the host that the device can write: what went wrong first, since it was cleared.
struct FaultReport {
  std::int64_t kind, row, number;
  double value;
};

// Numbers that live on the device. All start at 0.
struct CallScalars {
  std::uint64_t stamp;                  // forwards so far
  double loss;                          // sum
  double of_x, of_w;                    // factors of dx, and of the gradients of W (ScaleRows)
  std::int32_t counted, scored, moved;  // rows that count; blocks that are done
  std::int32_t faulty;
};

struct LayerCall {
  std::uint64_t size, classes, features, slots, drawn, rows, u_rows, recent_size, splits;
  std::uint64_t room;   // parts of `gradient` in bfloat16 that there is memory for
  std::uint64_t keeps;  // label_w has the weights of all labels, not only of those of several rows
  CallDraw draw;
  NumberType x_type, copy_type, weight_type, score_type, dx_type, gradient_type;
  CallReduction reduction;
  std::int64_t ignore_index, x_stride, weight_stride;  // strides in numbers
  double rho;
  // The layer's arrays (layer/arrays.hpp); counters[2] is the seed.
  void* weight;
  float* bias;
  ClassMoments* moments;
  float* columns;
  float* u;
  std::int32_t* recent;
  std::int32_t* recent_count;
  std::int64_t* counters;
  const double* step;
  const AliasTable::Cell* cells;  // [K], of CallDraw::counts
  const double* probability;      // [K]
  // The batch.
  const void* x;
  const std::int64_t* target;
  const std::int64_t* index;
  // What forward leaves for backward. Copies have copy_type.
  void* x_copy;               // [B][D], 0 for rows that do not count
  void* label_w;              // [B][D]: w_y (keeps)
  void* drawn_w;              // [M][D], 0 in empty slots
  float* direction;           // [2][D]: the direction of the mean of x; how far columns move
  float* offset;              // [M]: intercept + log of the draw weight
  std::int32_t* drawn_class;  // [M], -1: empty
  std::int32_t* label;        // [B], -1: the row does not count
  std::int32_t* place;        // [B]: slot of the label, -1
  float* label_score;         // [B]
  float* sum_p;               // [B]
  float* share;               // [B]: relative to of_w; 0: changes nothing
  float* new_u;               // [B]
  float* base;                // [B]: what u keeps of earlier visits, or negative (Estimate)
  std::int32_t* rows_of;      // [B]: rows besides i with slot M + i
  std::int32_t* rank;         // [B]: among rows that are added to the ring
  float* label_gradient;      // [B][D]: sums over the rows besides i with slot M + i; 0 between passes
  float* label_bias;          // [B]; 0 between passes
  float* column_p;            // [M]: sums over rows
  void* p;                    // [B][M]; where the slot is that of the label, minus the sum of the others
  float* loss;                // [B]
  float* total_loss;          // 1
  std::int32_t* counted;      // 1: rows that count; with a ring, that are added to it
  // Memory of one call at a time.
  std::uint64_t* slot_of;  // [K]: stamp and slot (slot_key)
  CallScalars* scalars;
  std::uint32_t* draws;  // of more draws than shared memory holds (DrawClasses), or null
  void* scores;          // [B][M], may be p
  void* gradient;        // [splits][M][D]: sums are gradients of drawn classes, without the factor of_w
  float* column_sums;  // [2][D]: mean over rows of x, sum over classes of squared gradients; 0 between calls
  void* dx;            // [B][D], on entry sum_k p_k w_k; null: not wanted
  const float* gradient_in;  // of the caller's objective: in each row's loss [B], or in the total
  FaultReport* fault;
};

// Newer stamps win; of equal ones the lowest slot.
TRUEMAX_HOST_DEVICE inline std::uint64_t slot_key(std::uint64_t stamp, std::uint64_t slot) {
  return (stamp << 24U) | (kMostSlots - 1 - slot);
}
TRUEMAX_HOST_DEVICE inline std::uint32_t slot_in(std::uint64_t key) {
  return static_cast<std::uint32_t>(kMostSlots - 1 - (key & (kMostSlots - 1)));
}

}  // namespace truemax::cuda
