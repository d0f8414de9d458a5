#include "data/number.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>

namespace truemax {
namespace {

const char* skip_digits(const char* p) {
  while (is_digit(*p)) ++p;
  return p;
}

// The end of a well-formed number at p (after its sign); nullptr if there is none.
const char* end_of_number(const char* p) {
  const char* const whole = p;
  p = skip_digits(p);
  std::ptrdiff_t digits = p - whole;
  if (*p == '.') {
    const char* const point = ++p;
    p = skip_digits(p);
    digits += p - point;
  }
  if (digits == 0) return nullptr;
  if ((*p | 0x20) == 'e') {
    ++p;
    if (*p == '-' || *p == '+') ++p;
    const char* const exponent = p;
    p = skip_digits(p);
    if (p == exponent) return nullptr;
  }
  return p;
}

// Whether a well-formed number outside the range of double is too small rather than too large.
bool is_tiny(const char* p, const char* end) {
  std::int64_t order = 0;  // decimal exponent of the first non-zero digit: 0 for units, -1 for tenths
  bool found = false, point = false;
  for (; p < end && (is_digit(*p) || *p == '.'); ++p) {
    if (*p == '.') {
      point = true;
    } else if (!found) {
      found = *p != '0';
      if (point) --order;
    } else if (!point) {
      ++order;
    }
  }
  std::int64_t exponent = 0;
  if (p < end) {
    ++p;
    const bool negative = *p == '-';
    if (*p == '-' || *p == '+') ++p;
    constexpr std::int64_t kEnough = 1'000'000'000'000;
    for (; p < end; ++p) exponent = std::min(exponent * 10 + (*p - '0'), kEnough);
    if (negative) exponent = -exponent;
  }
  return order + exponent < 0;
}

bool equal_fold(std::string_view a, std::string_view lower) {
  return std::equal(a.begin(), a.end(), lower.begin(), lower.end(), [](char x, char y) {
    return (x >= 'A' && x <= 'Z' ? static_cast<char>(x + ('a' - 'A')) : x) == y;
  });
}

}  // namespace

const char* detail::parse_float_slow(const char* text, float& value) {
  const bool negative = *text == '-';
  const char* const begin = text + (negative || *text == '+' ? 1 : 0);
  const char* const end = end_of_number(begin);
  if (end == nullptr) return nullptr;
  double exact = 0;
  const auto read = std::from_chars(begin, end, exact);
  if (read.ec == std::errc::result_out_of_range) {
    if (!is_tiny(begin, end)) return nullptr;
    exact = 0;
  } else if (read.ec != std::errc() || read.ptr != end) {
    return nullptr;
  }
  if (exact >= kFloatOverflow) return nullptr;
  value = static_cast<float>(negative ? -exact : exact);
  return end;
}

const char* what_is_wrong_with_value(std::string_view token) {
  if (token.empty()) return "is missing";
  const std::string text(token);  // ends in NUL, which stops the parser
  std::string_view bare = token;
  if (bare.front() == '-' || bare.front() == '+') bare.remove_prefix(1);
  if (equal_fold(bare, "nan") || equal_fold(bare, "inf") || equal_fold(bare, "infinity"))
    return "is not finite";
  const char* const end = end_of_number(text.c_str() + (token.size() - bare.size()));
  if (end == text.c_str() + text.size()) return "is too large for a 32-bit float";
  return "is not a number";
}

}  // namespace truemax
