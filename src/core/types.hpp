// Letters of the whole project: N rows, D features, K classes; see ARCHITECTURE.md, "Letters".
#pragma once

#include <cstddef>
#include <cstdint>

namespace truemax {

using FeatureId = std::uint32_t;
using ClassId = std::uint32_t;
using RowId = std::uint32_t;

// The class of a label that training never saw.
inline constexpr ClassId kUnseenClass = 0xFFFFFFFFu;

// Classes in a block: weights of 16 classes lie together in a cache line, and draws may take whole blocks.
inline constexpr std::size_t kBlockClasses = 16;

}  // namespace truemax
