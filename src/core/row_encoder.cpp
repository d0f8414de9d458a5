#include "core/row_encoder.hpp"

#include <algorithm>

#include "core/parallel.hpp"

namespace truemax {

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
}

}  // namespace truemax
