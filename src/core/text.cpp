#include "core/text.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "core/utf8.hpp"

namespace truemax {

std::string printable(std::string_view text) {
  const bool readable = is_utf8(text);
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
    // U+0080 to U+009F are control characters too.
    const bool second_set = readable && byte(i) == 0xC2 && byte(i + 1) < 0xA0;
    const bool hidden = byte(i) < 0x20 || byte(i) == 0x7F || (byte(i) >= 0x80 && !readable) || second_set;
    if (!hidden) out += text[i];
    if (hidden) out += fmt::format("\\x{:02x}", byte(i));
    if (second_set) out += fmt::format("\\x{:02x}", byte(++i));
  }
  return out;
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kMost = 40;
  if (text.size() <= kMost) return fmt::format("'{}'", printable(text));
  std::size_t end = kMost;  // do not cut inside a character
  while (end > kMost - 4 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return fmt::format("'{}...'", printable(text.substr(0, end)));
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replace, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

}  // namespace truemax
