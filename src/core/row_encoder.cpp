#include "core/row_encoder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "core/parallel.hpp"

namespace truemax {
namespace {

// By the bits, so that the compiler may take many numbers at once.
bool all_finite(const float* x, std::size_t count) {
  constexpr std::uint32_t kAbsolute = 0x7FFFFFFF, kInfinity = 0x7F800000;
  std::uint32_t most = 0;
  for (std::size_t i = 0; i < count; ++i)
    most = std::max(most, std::bit_cast<std::uint32_t>(x[i]) & kAbsolute);
  return most < kInfinity;
}

RowBeyondFloat beyond_float(std::size_t row, RowView x) {
  double largest = 0;
  for (const float v : x.value) largest = std::max(largest, std::abs(static_cast<double>(v)));
  return {row, fmt::format("row {}", row + 1), largest};
}

}  // namespace

RowBeyondFloat::RowBeyondFloat(std::size_t row, const std::string& name, double largest)
    : UserError(fmt::format("{}: its values, up to {:.3g}, times the learnt vectors of its features leave "
                            "float32 (3.4e38); scale the values down, or train with --normalize l2",
                            name, largest)),
      row_(row),
      largest_(largest) {}

void encode_rows(const RowEncoder& encoder, CsrView from, Csr& to, std::size_t threads) {
  const std::size_t columns = encoder.columns(), rows = from.rows();
  to.begin.resize(rows + 1);
  to.index.resize(rows * columns);
  to.value.resize(rows * columns);
  to.begin[0] = 0;
  constexpr std::size_t kRows = 256;  // per chunk
  parallel_for((rows + kRows - 1) / kRows, threads, [&](std::size_t chunk) {
    const std::size_t first = chunk * kRows, count = std::min(kRows, rows - first);
    for (std::size_t r = first; r < first + count; ++r) {
      to.begin[r + 1] = (r + 1) * columns;
      for (std::size_t c = 0; c < columns; ++c) to.index[r * columns + c] = static_cast<FeatureId>(c);
    }
    encoder.encode(from.slice(first, count), to.value.data() + first * columns);
  });
  if (all_finite(to.value.data(), rows * columns)) return;
  for (std::size_t r = 0; r < rows; ++r)
    if (!all_finite(to.value.data() + r * columns, columns)) throw beyond_float(r, from.row(r));
}

}  // namespace truemax
