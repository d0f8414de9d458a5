// Vectors of complex numbers, for ComplEx: of h numbers the first h/2 are the real parts, the rest the
// imaginary ones. The real part of sum_c x_c conj(e_c) is then dot(x, e).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/row_encoder.hpp"
#include "weights/embedding.hpp"

namespace truemax {

// out = a b, number by number; h is even. No array may overlap `out`.
void multiply_complex(float* out, const float* a, const float* b, std::size_t h);
// out = a conj(b): the gradient of dot(a, x b) in x, if `a` is that in x b.
void multiply_conjugate(float* out, const float* a, const float* b, std::size_t h);
// out += factor |v| v: with factor 3 the gradient of sum_c |v_c|^3, the N3 penalty.
void add_cubed(float* out, const float* v, float factor, std::size_t h);

// Of n queries: adds 1 to above[i] where score[i] > target[i], to equal[i] where they are the same.
void count_above(const float* score, const float* target, std::size_t n, std::uint32_t* above,
                 std::uint32_t* equal);

// x = E_entity E_relation of a row of triples. A row without features is zero.
class ComplexRows final : public RowEncoder {
 public:
  explicit ComplexRows(const Embedding& features) : features_(features) {}  // outlives the encoder

  std::size_t columns() const override { return features_.columns; }
  void encode(CsrView rows, float* out) const override {
    for (std::size_t r = 0; r < rows.rows(); ++r) encode_row(rows.row(r), out + r * columns());
  }
  void encode_row(RowView x, float* out) const {
    if (x.index.size() == 2)
      multiply_complex(out, features_.row(x.index[0]), features_.row(x.index[1]), features_.columns);
    else
      std::fill(out, out + features_.columns, 0.0F);
  }

 private:
  const Embedding& features_;
};

}  // namespace truemax
