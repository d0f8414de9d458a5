// Learnt vectors of the features, one row each; and the bag encoder x = sum_f v_f E_f.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/huge_pages.hpp"
#include "core/row_encoder.hpp"
#include "weights/dense.hpp"

namespace truemax {

struct Embedding {
  Embedding() = default;
  Embedding(std::size_t row_count, std::size_t length)
      : rows(row_count), columns(length), numbers(row_count * length) {}

  float* row(std::size_t r) { return numbers.data() + r * columns; }
  const float* row(std::size_t r) const { return numbers.data() + r * columns; }
  bool empty() const { return numbers.empty(); }

  std::size_t rows = 0, columns = 0;
  HugeVector<float> numbers;
};

// Independent normal numbers of this deviation: functions of the seed and the place alone.
void fill_normal(Embedding& table, double deviation, std::uint64_t seed, std::size_t threads);

class BagRows final : public RowEncoder {
 public:
  explicit BagRows(const Embedding& features) : features_(features) {}  // outlives the encoder

  std::size_t columns() const override { return features_.columns; }
  void encode(RowView x, float* out) const override {
    std::fill(out, out + features_.columns, 0.0F);
    for (std::size_t j = 0; j < x.index.size(); ++j)
      add_scaled(out, features_.row(x.index[j]), x.value[j], features_.columns);
  }

 private:
  const Embedding& features_;
};

}  // namespace truemax
