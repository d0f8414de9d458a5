// Names are UTF-8, so that every program can read them in a model file.
#pragma once

#include <cstdint>
#include <string_view>

namespace truemax {

// Well-formed UTF-8: no stray bytes, no overlong forms, no surrogates.
inline bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
    const unsigned first = byte(i++);
    if (first < 0x80) continue;
    const std::size_t more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
    if (first < 0xC2 || first > 0xF4 || text.size() - i < more) return false;
    std::uint32_t code = first & (0x3FU >> more);
    for (std::size_t j = 0; j < more; ++j) {
      const unsigned next = byte(i++);
      if ((next & 0xC0) != 0x80) return false;
      code = (code << 6) | (next & 0x3F);
    }
    const bool overlong = (more == 2 && code < 0x800) || (more == 3 && code < 0x10000);
    if (overlong || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return false;
  }
  return true;
}

}  // namespace truemax
