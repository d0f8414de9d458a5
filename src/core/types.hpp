// Letters of the whole project: N rows, D features, K classes; see ARCHITECTURE.md, "Letters".
#pragma once

#include <cstdint>

namespace truemax {

using FeatureId = std::uint32_t;
using ClassId = std::uint32_t;
using RowId = std::uint32_t;

// The class of a label that training never saw.
inline constexpr ClassId kUnseenClass = 0xFFFFFFFFu;

}  // namespace truemax
