#include "core/row_encoder.hpp"

namespace truemax {

void encode_rows(const RowEncoder& encoder, CsrView from, Csr& to) {
  const std::size_t columns = encoder.columns(), rows = from.rows();
  to.begin.resize(rows + 1);
  to.index.resize(rows * columns);
  to.value.resize(rows * columns);
  to.begin[0] = 0;
  for (std::size_t r = 0; r < rows; ++r) {
    to.begin[r + 1] = (r + 1) * columns;
    for (std::size_t c = 0; c < columns; ++c) to.index[r * columns + c] = static_cast<FeatureId>(c);
  }
  encoder.encode(from, to.value.data());
}

}  // namespace truemax
