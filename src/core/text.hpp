// Text for messages.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace truemax {

// "1 row", "2 rows". `plural` is needed if it is not the singular with an s.
inline std::string counted(std::uint64_t count, std::string_view singular, std::string_view plural = "") {
  if (count == 1) return fmt::format("1 {}", singular);
  return plural.empty() ? fmt::format("{} {}s", count, singular) : fmt::format("{} {}", count, plural);
}

// `text` made safe for a terminal: control characters are escaped as \x1b, and so are all bytes beyond ASCII
// if the text is not UTF-8.
std::string printable(std::string_view text);
// The same in quotes, shortened, for a message.
std::string in_quotes(std::string_view text);

// How many bytes must be inserted, removed or replaced to turn one into the other.
std::size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace truemax
