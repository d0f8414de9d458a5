// How deeply JSON of a file may be nested.
#pragma once

#include <string_view>

namespace truemax {

inline constexpr int kMostJsonDepth = 64;

// Asked before parsing: a byte of "[[[[" would take a hundred bytes of memory.
inline bool nested_too_deeply(std::string_view json) {
  int depth = 0;
  bool inside = false;  // a string
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (inside && c == '\\')
      ++i;
    else if (c == '"')
      inside = !inside;
    else if (!inside && (c == '[' || c == '{') && ++depth > kMostJsonDepth)
      return true;
    else if (!inside && (c == ']' || c == '}'))
      --depth;
  }
  return false;
}

}  // namespace truemax
