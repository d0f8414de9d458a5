// Decimal numbers from text, fast. The value of a text is float(double(text)), both correctly rounded:
// the same as strtod and a cast to float.
#pragma once

#include <cstdint>
#include <string_view>

namespace truemax {

inline bool is_digit(char c) {
  return static_cast<unsigned char>(c - '0') < 10;
}

// The smallest magnitude that rounds to infinity as a float.
inline constexpr double kFloatOverflow = 0x1.ffffffp127;

namespace detail {
inline constexpr double kPowerOfTen[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                         1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                         1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
inline constexpr int kExactPower = 22;                       // 10^22 is the last power exact in a double
inline constexpr std::uint64_t kExactMantissa = 1ULL << 53;  // whole numbers up to here are exact too
inline constexpr std::ptrdiff_t kDigitsOfWord = 19;          // 19 digits never overflow 64 bits
const char* parse_float_slow(const char* text, float& value);
}  // namespace detail

// Reads [+-]digits[.digits][e[+-]digits] and returns the position after it; nullptr if there is no number or
// its magnitude is too large for a float. The text must end in a byte that belongs to no number.
inline const char* parse_float(const char* text, float& value) {
  const char* p = text;
  const bool negative = *p == '-';
  if (negative || *p == '+') ++p;
  const char* const first = p;
  std::uint64_t mantissa = 0;
  while (is_digit(*p)) mantissa = mantissa * 10 + static_cast<std::uint64_t>(*p++ - '0');
  std::ptrdiff_t digits = p - first, fraction = 0;
  if (*p == '.') {
    const char* const point = ++p;
    while (is_digit(*p)) mantissa = mantissa * 10 + static_cast<std::uint64_t>(*p++ - '0');
    fraction = p - point;
    digits += fraction;
  }
  // One rounding of exact operands is correctly rounded; everything else takes the slow path.
  if (digits == 0 || digits > detail::kDigitsOfWord || mantissa > detail::kExactMantissa ||
      (*p | 0x20) == 'e')
    return detail::parse_float_slow(text, value);
  double exact = static_cast<double>(mantissa);
  if (fraction > 0) exact /= detail::kPowerOfTen[fraction];
  value = static_cast<float>(negative ? -exact : exact);
  return p;
}

// Why parse_float refused `token`, as the end of a sentence: "is not a number", "is not finite", ...
const char* what_is_wrong_with_value(std::string_view token);

}  // namespace truemax
