#pragma once

namespace truemax {
inline constexpr const char* kVersion = "0.1.0";
}
