// All rows of features on several threads, in chunks that do not depend on the number of threads.
#pragma once

#include <algorithm>
#include <cstddef>

#include "core/parallel.hpp"
#include "data/data_view.hpp"

namespace truemax {

inline constexpr std::size_t kChunkExamples = 4096;

// The rows of a stream come one after the other: they are one chunk.
inline std::size_t x_chunks(const DataView& data) {
  return data.streamed() != nullptr ? 1 : (data.size() + kChunkExamples - 1) / kChunkExamples;
}

// Calls visit(chunk, example, row of features) for all examples, those of a chunk in order.
template <class Visitor>
void each_x_of_chunks(const DataView& data, std::size_t threads, const Visitor& visit) {
  if (data.streamed() != nullptr) {
    data.each_x([&](ExampleId i, const RowView& x) { visit(std::size_t{0}, i, x); });
    return;
  }
  parallel_for(x_chunks(data), threads, [&](std::size_t chunk) {
    const std::size_t first = chunk * kChunkExamples, end = std::min(data.size(), first + kChunkExamples);
    for (const ExampleId i : IdRange<ExampleId>{first, end}) visit(chunk, i, data.x(i));
  });
}

}  // namespace truemax
