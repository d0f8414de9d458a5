// What solve/dense.hpp does, done by Eigen. eigen_dense.cpp is compiled twice: for any processor of this
// architecture, and for the one of this machine.
#pragma once

#include <cstddef>
#include <memory>

namespace truemax {

// Square matrices of n x n, row-major in the interface. Memory is allocated once, before anything is timed.
class EigenDense {
 public:
  EigenDense() = default;
  virtual ~EigenDense() = default;
  EigenDense(const EigenDense&) = delete;
  EigenDense& operator=(const EigenDense&) = delete;

  virtual void set(const double* a, const double* b, const double* right) = 0;
  // Each leaves its result in place and returns its first number.
  virtual double invert_by_llt() = 0;   // of a, definite
  virtual double invert_by_ldlt() = 0;  // of a, definite
  virtual double add_product() = 0;     // out += a b
  virtual double solve_lu() = 0;        // b x = right
  virtual double inverse(std::size_t i, std::size_t j) const = 0;
  virtual double out(std::size_t i, std::size_t j) const = 0;
  virtual double x(std::size_t i) const = 0;
};

std::unique_ptr<EigenDense> eigen_baseline(std::size_t n);
std::unique_ptr<EigenDense> eigen_native(std::size_t n);

}  // namespace truemax
