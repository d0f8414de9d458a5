// Dense float32 matrices: products, and the row operations of learnt features. Every number of a result is
// summed in one fixed order, so results have the same bits for any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/line_vector.hpp"
#include "core/team.hpp"

namespace truemax {

// Rows of `columns` numbers in memory: row r starts at data + stride * (index ? index[r] : r).
struct DenseRows {
  const float* data = nullptr;
  std::size_t rows = 0, columns = 0, stride = 0;
  const std::uint32_t* index = nullptr;

  const float* row(std::size_t r) const { return data + stride * (index != nullptr ? index[r] : r); }
};

// A factor of a product: the rows as they are, or transposed.
struct Factor {
  DenseRows of;
  bool transposed = false;

  std::size_t rows() const { return transposed ? of.columns : of.rows; }
  std::size_t columns() const { return transposed ? of.rows : of.columns; }
};

// A left factor in panels, as a product reads it: kRows rows of it, side by side. Made from the rows of its
// transpose, which may come a few at a time.
class LeftPanels {
 public:
  static constexpr std::size_t kRows = 8;

  // Takes the memory for a factor of this size.
  void reserve(std::size_t rows, std::size_t depth);
  void start(std::size_t rows, std::size_t depth);
  // Columns from ... to of the factor, which are rows of `transpose`. May be called for several at a time.
  void pack(const DenseRows& transpose, std::size_t from, std::size_t to);

  // [depth][kRows], of row `first` on, a multiple of kRows; 0 beyond the last row.
  const float* panel(std::size_t first) const { return numbers_.data() + first * depth_; }
  // The sums of its rows, each the sum of sums over `each` columns.
  void sum_rows(std::size_t first, std::size_t each, double* out) const;

 private:
  std::size_t rows_ = 0, depth_ = 0;
  LineVector<float> numbers_;
};

// out [a.rows()][b.columns()] = a b; a row of `out` starts every `stride` numbers.
class DenseProduct {
 public:
  static constexpr std::size_t kColumns = 32;  // of b, packed together

  // Takes the memory for factors up to this size.
  void reserve(std::size_t depth, std::size_t columns);
  void multiply(const Factor& a, const Factor& b, float* out, std::size_t stride, Team& team);

  // The same in parts, of which those between two of these lines may be done at the same time:
  // - start, for a factor b [depth][columns];
  // - pack b, numbers from ... to of its columns first ... end; first is a multiple of kColumns;
  // - multiply rows first ... end of a, which is not transposed; of panels, first is a multiple of their
  // kRows.
  void start(std::size_t depth, std::size_t columns);
  void pack(const Factor& b, std::size_t first, std::size_t end, std::size_t from, std::size_t to);
  void multiply_rows(const Factor& a, std::size_t first, std::size_t end, float* out, std::size_t stride,
                     std::size_t member);
  void multiply_rows(const LeftPanels& a, std::size_t first, std::size_t end, float* out,
                     std::size_t stride) const;
  // So many rows are a good task for a member, if there are `rows` in all.
  std::size_t rows_at_once(std::size_t rows, const Team& team) const;

 private:
  template <class PanelAt>
  void multiply_panels(std::size_t first, std::size_t end, float* out, std::size_t stride,
                       const PanelAt& panel_at) const;

  std::size_t depth_ = 0, columns_ = 0;
  LineVector<float> right_;              // b in panels
  std::vector<LineVector<float>> left_;  // by member: some rows of a in panels
};

// sum += scale * x
void add_scaled(float* sum, const float* x, float scale, std::size_t count);
// sum += x y, number by number
void add_product(float* sum, const float* x, const float* y, std::size_t count);
float dot(const float* x, const float* y, std::size_t count);

// One row of scores of drawn classes: t_j = z_j + offset_j - label_score, where t_own does not count (own >=
// count: none). Returns log(sum of exp(t_j)) and leaves exp(t_j - highest), with 0 for own, in z; *highest is
// the factor that was taken out.
double exp_scores(float* z, const float* offset, std::size_t count, float label_score, std::size_t own,
                  float* highest);
// x *= factor; returns the sum.
double scale_row(float* x, std::size_t count, float factor);

// x <- tanh(x + bias), to about 1e-7; and g <- g (1 - t^2) for t = tanh.
void tanh_row(float* x, const float* bias, std::size_t count);
void tanh_slope(float* g, const float* t, std::size_t count);
// Dropout: x_i <- factor x_i where kept_i is not 0, else 0.
void keep_some(float* x, const std::uint8_t* kept, float factor, std::size_t count);

// RMSprop on a row: v <- keep v + (1 - keep) g^2, w <- w - rate g/(sqrt(v) + tiny).
void rms_step(float* w, float* v, const float* gradient, std::size_t count, float rate, float keep);
// The same with one v for the whole row, of the mean of its g^2.
void rms_row_step(float* w, float* v, const float* gradient, std::size_t count, float rate, float keep);

}  // namespace truemax
