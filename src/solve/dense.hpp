// Small dense matrices, row-major and vectorised. Rows are `stride` apart, a multiple of kDenseLanes, and are
// aligned for kDenseLanes numbers; the padding between a row's end and the stride takes part in computations
// but never affects results.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

namespace truemax {

inline constexpr std::size_t kDenseLanes = 8;

constexpr std::size_t dense_stride(std::size_t columns) {
  return (columns + kDenseLanes - 1) / kDenseLanes * kDenseLanes;
}

// A matrix that keeps its memory when resized.
class DenseMatrix {
 public:
  // Allocates for up to this many rows and columns.
  void reserve(std::size_t rows, std::size_t columns) {
    memory_.reserve(rows * dense_stride(columns) / kDenseLanes);
  }
  void set_zero(std::size_t rows, std::size_t columns) {
    stride_ = dense_stride(columns);
    memory_.assign(rows * stride_ / kDenseLanes, Lanes{});
  }
  std::size_t stride() const { return stride_; }
  double* row(std::size_t i) { return memory_.data()->v.data() + i * stride_; }
  const double* row(std::size_t i) const { return memory_.data()->v.data() + i * stride_; }
  double& operator()(std::size_t i, std::size_t j) { return row(i)[j]; }
  double operator()(std::size_t i, std::size_t j) const { return row(i)[j]; }

 private:
  struct alignas(kDenseLanes * sizeof(double)) Lanes {
    std::array<double, kDenseLanes> v;
  };
  std::vector<Lanes> memory_;
  std::size_t stride_ = 0;
};

// Inverts a symmetric positive definite matrix in place (Gauss-Jordan, no pivoting needed).
void invert_definite(double* a, std::size_t n, std::size_t stride);

// out += a b for a of [rows][inner], b of [inner][columns].
void add_product(double* out, std::size_t out_stride, const double* a, std::size_t a_stride, const double* b,
                 std::size_t b_stride, std::size_t rows, std::size_t inner, std::size_t columns);

// Factors a = L U in place with row exchanges: pivot[i] is the row exchanged with row i.
void factor_lu(double* a, std::size_t n, std::size_t stride, std::size_t* pivot);
void solve_lu(const double* a, std::size_t n, std::size_t stride, const std::size_t* pivot, double* x);

}  // namespace truemax
