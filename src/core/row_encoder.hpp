// Turns the sparse rows of the data into dense rows of learnt features.
#pragma once

#include <cstddef>

#include "core/csr.hpp"

namespace truemax {

class RowEncoder {
 public:
  RowEncoder() = default;
  virtual ~RowEncoder() = default;
  RowEncoder(const RowEncoder&) = delete;
  RowEncoder& operator=(const RowEncoder&) = delete;

  virtual std::size_t columns() const = 0;
  virtual void encode(RowView x, float* out) const = 0;  // out: columns()
};

// The rows of `from`, encoded, in `to`.
void encode_rows(const RowEncoder& encoder, CsrView from, Csr& to);

}  // namespace truemax
