// data/number.hpp beside fast_float and std::from_chars, on values as libsvm files have them.
#include <fast_float/fast_float.h>
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "data/number.hpp"
#include "libraries.hpp"

namespace truemax {
namespace {

// What parse_float would be with another parser and no fast path of its own.
template <class From>
const char* parse_with(const char* text, const char* last, float& value, From&& from) {
  const char* const begin = text + (*text == '+' ? 1 : 0);
  double exact = 0;
  const auto read = from(begin, last, exact);
  if (read.ec != std::errc() || !(std::abs(exact) < kFloatOverflow)) return nullptr;
  value = static_cast<float>(exact);
  return read.ptr;
}
inline const char* by_fast_float(const char* text, const char* last, float& value) {
  return parse_with(text, last, value, [](const char* from, const char* to, double& exact) {
    return fast_float::from_chars(from, to, exact);
  });
}
inline const char* by_standard(const char* text, const char* last, float& value) {
  return parse_with(text, last, value, [](const char* from, const char* to, double& exact) {
    return std::from_chars(from, to, exact);
  });
}
// Rounds once, so it may differ from float(double(text)); timed all the same.
inline const char* by_fast_float_once(const char* text, const char* last, float& value) {
  return fast_float::from_chars(text, last, value).ptr;
}
inline const char* by_truemax(const char* text, const char*, float& value) {
  return parse_float(text, value);
}
constexpr std::size_t kTokens = 4096;

struct Tokens {
  explicit Tokens(const std::string& kind) {
    std::mt19937_64 random(2);
    std::uniform_real_distribution<double> unit(0, 1);
    const std::vector<std::string> kinds = {"1", "0.25", "0.0331943", "1e-5", "0.12345678901234567"};
    for (std::size_t i = 0; i < kTokens; ++i) {
      const std::string& one = kind == "a mixture of these" ? kinds[random() % kinds.size()] : kind;
      const double v = unit(random);
      if (one == kinds[0]) text += fmt::format("{} ", 1 + random() % 9);
      if (one == kinds[1]) text += fmt::format("{:.2f} ", v);
      if (one == kinds[2]) text += fmt::format("{:.7f} ", v);
      if (one == kinds[3]) text += fmt::format("{}e-{} ", 1 + random() % 9, 5 + random() % 4);
      if (one == kinds[4]) text += fmt::format("{:.17f} ", v);
    }
  }
  std::string text;
};

template <auto parse>
double sum_of(Tokens& tokens) {
  const char* p = tokens.text.data();
  const char* const last = p + tokens.text.size();
  float sum = 0;
  while (p < last) {
    float value = 0;
    p = parse(p, last, value) + 1;
    sum += value;
  }
  return static_cast<double>(sum);
}

std::string check_tokens(Tokens& tokens) {
  const char* p = tokens.text.data();
  const char* const last = p + tokens.text.size();
  while (p < last) {
    float value[3] = {0, 0, 0};
    const char* const end = by_truemax(p, last, value[0]);
    if (end != by_fast_float(p, last, value[1]) || end != by_standard(p, last, value[2]) ||
        value[0] != value[1] || value[0] != value[2])
      return fmt::format("parsers disagree on '{}'", std::string(p, end));
    p = end + 1;
  }
  // As a double it is half-way between two floats, so the second rounding goes to the even one below.
  const std::string rounded_twice = "1.000000059604644775390625000001 ";
  float twice = 0, once = 0;
  by_truemax(rounded_twice.data(), rounded_twice.data() + rounded_twice.size(), twice);
  by_fast_float_once(rounded_twice.data(), rounded_twice.data() + rounded_twice.size(), once);
  if (twice != 1 || once == 1) return "rounding once and twice should differ";
  return {};
}

}  // namespace

void compare_numbers() {
  for (const char* kind : {"1", "0.25", "0.0331943", "1e-5", "0.12345678901234567", "a mixture of these"}) {
    const std::vector<std::pair<std::string, double (*)(Tokens&)>> columns = {
        {"truemax", sum_of<by_truemax>},
        {"fast_float", sum_of<by_fast_float>},
        {"fast_float, rounded once", sum_of<by_fast_float_once>},
        {"std::from_chars", sum_of<by_standard>}};
    for (const auto& [column, run] : columns)
      add<Tokens>(
          fmt::format("numbers/{}/{}", kind, column),
          [kind = std::string(kind)] { return std::make_shared<Tokens>(kind); }, check_tokens, run,
          Clock::thread, kTokens);
  }
}

}  // namespace truemax
