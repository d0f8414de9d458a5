// Products of sparse rows with a small dense matrix in double, for Newton's method.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/types.hpp"

namespace truemax {

inline constexpr std::size_t kProductLanes = 4;  // the columns of a matrix are padded to a multiple

struct DoubleRows {
  std::vector<std::uint64_t> begin{0};
  std::vector<FeatureId> index;
  std::vector<double> value;

  std::size_t rows() const { return begin.size() - 1; }
};

// z [rows][lanes] = base [lanes] + x v, with v [features][lanes].
void multiply_rows(const DoubleRows& x, const double* v, const double* base, std::size_t lanes, double* z);
// out [features][lanes] += x^T r, with r [rows][lanes].
void add_transposed(const DoubleRows& x, const double* r, std::size_t lanes, double* out);
// out [pair of features][lanes] += sum of x_a x_b r over the rows, for a >= b; the pair is a (a + 1)/2 + b.
void add_squared(const DoubleRows& x, const double* r, std::size_t lanes, double* out);

}  // namespace truemax
