#include "data/number.hpp"

#include <fast_float/fast_float.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace truemax {
namespace {

// A number at the start of a text; `end` is null if there is none.
struct Found {
  const char* end = nullptr;
  double value = 0;  // infinite if it is too large for a double
};

Found find_number(const char* text) {
  const char* last = text;
  while (is_digit(*last) || *last == '.' || *last == '+' || *last == '-' || (*last | 0x20) == 'e') ++last;
  const bool plus = *text == '+';
  if (plus && text[1] == '-') return {};
  Found found;
  const auto read = fast_float::from_chars(text + (plus ? 1 : 0), last, found.value);
  // Versions of fast_float differ in whether they call infinity and 0 out of range.
  if (read.ec != std::errc() && read.ec != std::errc::result_out_of_range) return {};
  if ((*read.ptr | 0x20) == 'e') return {};  // no digits after the e
  found.end = read.ptr;
  return found;
}

bool equal_fold(std::string_view a, std::string_view lower) {
  return std::equal(a.begin(), a.end(), lower.begin(), lower.end(), [](char x, char y) {
    return (x >= 'A' && x <= 'Z' ? static_cast<char>(x + ('a' - 'A')) : x) == y;
  });
}

}  // namespace

const char* detail::parse_float_slow(const char* text, float& value) {
  const Found found = find_number(text);
  if (!(std::abs(found.value) < kFloatOverflow)) return nullptr;
  if (found.end != nullptr) value = static_cast<float>(found.value);
  return found.end;
}

const char* what_is_wrong_with_value(std::string_view token) {
  if (token.empty()) return "is missing";
  const std::string text(token);  // ends in NUL, which stops the parser
  std::string_view bare = token;
  if (bare.front() == '-' || bare.front() == '+') bare.remove_prefix(1);
  if (equal_fold(bare, "nan") || equal_fold(bare, "inf") || equal_fold(bare, "infinity"))
    return "is not finite";
  if (find_number(text.c_str()).end == text.c_str() + text.size()) return "is too large for a 32-bit float";
  return "is not a number";
}

}  // namespace truemax
