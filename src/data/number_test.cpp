#include "data/number.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>

namespace truemax {
namespace {

// The definition: float(strtod(text)); a value that overflows a float is refused.
void expect_as_defined(const std::string& text) {
  const double exact = std::strtod(text.c_str(), nullptr);
  float value = -1;
  const char* const end = parse_float(text.c_str(), value);
  if (!(std::fabs(exact) < kFloatOverflow)) {
    EXPECT_EQ(end, nullptr) << text;
    return;
  }
  ASSERT_EQ(end, text.c_str() + text.size()) << text;
  const auto expected = static_cast<float>(exact);
  EXPECT_EQ(std::memcmp(&value, &expected, sizeof value), 0) << text << " gives " << value;
}

TEST(ParseFloat, MatchesStrtodOnRandomDecimals) {
  std::mt19937_64 random(1);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  for (int i = 0; i < 300000; ++i) {
    std::string text = below(4) == 0 ? "-" : (below(10) == 0 ? "+" : "");
    const std::uint64_t whole = below(8) == 0 ? below(25) : below(4),
                        fraction = below(3) == 0 ? below(25) : below(8);
    for (std::uint64_t d = 0; d < whole; ++d) text += static_cast<char>('0' + below(10));
    if (fraction > 0 || whole == 0 || below(5) == 0) text += '.';
    for (std::uint64_t d = 0; d < fraction + (whole == 0 ? 1 : 0); ++d)
      text += static_cast<char>('0' + below(10));
    if (below(4) == 0)
      text += (below(2) ? "e" : "E") + std::string(below(2) ? "-" : (below(2) ? "+" : "")) +
              std::to_string(below(below(4) == 0 ? 400 : 30));
    expect_as_defined(text);
  }
}

TEST(ParseFloat, MatchesStrtodOnRandomFloats) {
  std::mt19937 random(2);
  for (int i = 0; i < 100000; ++i) {
    const std::uint32_t bits = static_cast<std::uint32_t>(random());
    float value = 0;
    std::memcpy(&value, &bits, sizeof value);
    if (!std::isfinite(value)) continue;
    for (const char* form : {"%.9g", "%.17g", "%.6e"}) {
      char text[64];
      std::snprintf(text, sizeof text, form, static_cast<double>(value));
      expect_as_defined(text);
    }
  }
}

TEST(ParseFloat, MatchesStrtodAtTheEdges) {
  for (const char* text : {"0",
                           "-0",
                           "0.0",
                           "1",
                           "1.",
                           ".5",
                           "00001.50",
                           "9007199254740992",
                           "9007199254740993",
                           "9007199254740991",
                           "18446744073709551615",
                           "99999999999999999999",
                           "3.4028234663852886e38",
                           "3.4028235677973365e38",
                           "3.4028235677973366e38",
                           "3.402823567797337e38",
                           "1e38",
                           "1e39",
                           "1e-38",
                           "1e-45",
                           "7.006492321624085e-46",
                           "7.006492321624086e-46",
                           "1e-46",
                           "4.9e-324",
                           "2e-324",
                           "1e-400",
                           "1e-99999999999999999999",
                           "0e99999999999",
                           "1e308",
                           "1e309",
                           "1e400",
                           "1e99999999999999999999",
                           "0.0000000000000000000000000000000000001",
                           "1.00000005960464477539062",
                           "1.00000005960464477539063",
                           "16777217",
                           "16777219",
                           "123456789012345678",
                           "0.1234567890123456789",
                           "0.00000000000000000000000000000000000000000000000001e50",
                           "100000000000000000000000000000000000000000000e-40"})
    expect_as_defined(text);
}

TEST(ParseFloat, RefusesNonNumbers) {
  for (const char* text : {"", "+", "-", ".", "e5", "1e", "1e+", "nan", "inf", "-inf", "abc", "--1", "+-1",
                           "1e400", "-1e39", "3.5e38"}) {
    float value = 0;
    const char* const end = parse_float(text, value);
    EXPECT_TRUE(end == nullptr) << text;
  }
}

TEST(ParseFloat, StopsAfterTheNumber) {
  const char* const text = "1.5 2";
  float value = 0;
  EXPECT_EQ(parse_float(text, value), text + 3);
  const char* const hex = "0x10";  // a zero, followed by something that the caller refuses
  EXPECT_EQ(parse_float(hex, value), hex + 1);
}

TEST(ParseFloat, SaysWhatIsWrong) {
  EXPECT_STREQ(what_is_wrong_with_value("NaN"), "is not finite");
  EXPECT_STREQ(what_is_wrong_with_value("-Infinity"), "is not finite");
  EXPECT_STREQ(what_is_wrong_with_value("1e400"), "is too large for a 32-bit float");
  EXPECT_STREQ(what_is_wrong_with_value("1,5"), "is not a number");
}

}  // namespace
}  // namespace truemax
