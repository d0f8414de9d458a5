// Small things about text for people.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace truemax {

// "1 row", "2 rows": `plural` where it is not the singular with an s.
inline std::string counted(std::uint64_t count, std::string_view singular, std::string_view plural = "") {
  if (count == 1) return fmt::format("1 {}", singular);
  return plural.empty() ? fmt::format("{} {}s", count, singular) : fmt::format("{} {}", count, plural);
}

// `text` as a terminal may see it: control characters are written out as \x1b, as are all bytes beyond ASCII
// where it is not UTF-8.
std::string printable(std::string_view text);
// The same in quotes for a message, shortened.
std::string in_quotes(std::string_view text);

}  // namespace truemax
