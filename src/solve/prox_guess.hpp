// Where the search of solve/prox_root.hpp starts, for many rows at once in vectors of double, with the bits
// of the search of a single row.
#pragma once

#include <cstddef>
#include <vector>

#include "solve/prox_root.hpp"

namespace truemax {

// Entry i of every array is row i. A ProxEquation each, but for inverse_rho, which all rows share.
class ProxGuesses {
 public:
  void reserve(std::size_t rows);
  void clear() { count_ = 0; }
  std::size_t size() const { return count_; }
  void add(double e, double base, double label_norm, double sum, double squares) {
    e_[count_] = e, base_[count_] = base, label_norm_[count_] = label_norm;
    sum_[count_] = sum, squares_[count_++] = squares;
  }
  // Fills what follows.
  void find(double inverse_rho);
  ProxEquation<double> equation(std::size_t i, double inverse_rho) const {
    return {e_[i], inverse_rho, base_[i], label_norm_[i], sum_[i], squares_[i]};
  }
  double y(std::size_t i) const { return y_[i]; }
  double g(std::size_t i) const { return g_[i]; }
  double common(std::size_t i) const { return common_[i]; }

  // For the kernel.
  struct Arrays {
    const double *e, *base, *label_norm, *sum, *squares;
    double *y, *g, *common;
  };

 private:
  std::size_t count_ = 0;
  std::vector<double> e_, base_, label_norm_, sum_, squares_, y_, g_, common_;
};

// `count` rows, in arrays that have room for whole vectors of 8.
void guess_prox(const ProxGuesses::Arrays& rows, std::size_t count, double inverse_rho);

}  // namespace truemax
