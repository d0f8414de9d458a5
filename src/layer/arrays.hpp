// What a layer computes with: the caller's arrays. W and everything that lasts from step to step belong to
// the caller, so that a framework can save, copy and share them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace truemax {

// What running means keep in a step, as in Adam: of squared gradients, and of gradients along the mean of x;
// and the mean of x itself. Columns differ by at most this factor from their mean.
inline constexpr double kLayerKeep = 0.999, kLayerSmooth = 0.9, kLayerKeepMean = 0.99,
                        kLayerMostOfColumn = 10;

// Numbers above this are refused: products of two stay far inside float32.
inline constexpr double kLayerLargest = 1e15;

inline constexpr double kLayerLargestGradient = 1e18;  // its square stays inside float32
inline constexpr double kLayerUniformShare = 0.1;      // of draws by counts, so that every class can be drawn

// The step of a class: running means of the squared gradients of w_k (over its D numbers) and of b_k, as of
// the step that touched it last (counted from 1, modulo 2^24); the gradient of w_k along the mean of x and
// that of b_k, smoothed, with the weight that these two have so far.
struct ClassMoments {
  float square = 0, bias_square = 0, along = 0, bias_mean = 0, mean_weight = 0, last = 0;
};

struct LayerArrays {
  float* weight = nullptr;           // row k starts at weight + k * weight_stride
  std::ptrdiff_t weight_stride = 0;  // in numbers
  float* bias = nullptr;             // [K] or null
  ClassMoments* moments = nullptr;   // [K]; only for training
  float* columns = nullptr;          // [2][D]: running means of x, and of its squared gradients; with moments
  float* u = nullptr;                // [rows]: NaN where a row has not been trained on; may be null
  std::uint64_t rows = 0;            // N
  // LayerDraw::recent (draw/recent.hpp)
  std::int32_t* recent = nullptr;
  std::uint64_t recent_size = 0;
  std::int32_t* recent_count = nullptr;  // [K]
  std::uint64_t seed = 1;
  std::int64_t* counters = nullptr;  // [2]: steps taken; labels in `recent` so far

  float* class_row(std::size_t k) const { return weight + static_cast<std::ptrdiff_t>(k) * weight_stride; }
};

struct LayerBatch {
  const float* x = nullptr;  // row i starts at x + i * x_stride
  std::ptrdiff_t x_stride = 0;
  std::size_t rows = 0;
  const std::int64_t* target = nullptr;  // [rows]
  std::int64_t ignore_index = -100;      // rows with this target do not count
  const std::int64_t* index = nullptr;   // [rows]: the place of each row in u, or null
};

}  // namespace truemax
