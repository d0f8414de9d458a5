#include "report/table.hpp"

#include <algorithm>

namespace truemax {

// Counts the bytes that start a UTF-8 character.
std::size_t screen_width(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string Table::to_text() const {
  std::vector<std::size_t> widths;
  for (const std::string& cell : header_) widths.push_back(screen_width(cell));
  for (const auto& row : rows_)
    for (std::size_t c = 0; c < row.size() && c < widths.size(); ++c)
      widths[c] = std::max(widths[c], screen_width(row[c]));
  std::string text;
  const auto line = [&](const std::vector<std::string>& row) {
    std::string out;
    for (std::size_t c = 0; c < row.size() && c < widths.size(); ++c) {
      const std::string pad(widths[c] - screen_width(row[c]), ' ');
      if (c > 0) out += "  ";
      out += c == 0 || left_.count(c) > 0 ? row[c] + pad : pad + row[c];
    }
    out.erase(out.find_last_not_of(' ') + 1);
    text += out + "\n";
  };
  line(header_);
  std::vector<std::string> rule;
  rule.reserve(widths.size());
  for (const std::size_t w : widths) rule.emplace_back(w, '-');
  line(rule);
  for (const auto& row : rows_) line(row);
  return text;
}

}  // namespace truemax
