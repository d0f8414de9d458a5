#include "core/checksum.hpp"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstring>

static_assert(std::endian::native == std::endian::little, "words are read as they lie in memory");

namespace truemax {
namespace {

constexpr std::uint64_t kPrime1 = 0x9E3779B185EBCA87ULL, kPrime2 = 0xC2B2AE3D27D4EB4FULL,
                        kPrime3 = 0x165667B19E3779F9ULL, kPrime4 = 0x85EBCA77C2B2AE63ULL,
                        kPrime5 = 0x27D4EB2F165667C5ULL;

template <class Word>
std::uint64_t word_at(const char* at) {
  Word word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

std::uint64_t mix(std::uint64_t lane, std::uint64_t input) {
  return std::rotl(lane + input * kPrime2, 31) * kPrime1;
}

}  // namespace

std::uint64_t xxh64(std::span<const char> bytes, std::uint64_t seed) noexcept {
  const char* at = bytes.data();
  std::size_t left = bytes.size();
  std::uint64_t sum = seed + kPrime5;
  if (left >= 32) {
    std::array<std::uint64_t, 4> lanes{seed + kPrime1 + kPrime2, seed + kPrime2, seed, seed - kPrime1};
    for (; left >= 32; left -= 32, at += 32)
      for (std::size_t i = 0; i < 4; ++i) lanes[i] = mix(lanes[i], word_at<std::uint64_t>(at + 8 * i));
    sum = std::rotl(lanes[0], 1) + std::rotl(lanes[1], 7) + std::rotl(lanes[2], 12) + std::rotl(lanes[3], 18);
    for (const std::uint64_t lane : lanes) sum = (sum ^ mix(0, lane)) * kPrime1 + kPrime4;
  }
  sum += bytes.size();
  for (; left >= 8; left -= 8, at += 8)
    sum = std::rotl(sum ^ mix(0, word_at<std::uint64_t>(at)), 27) * kPrime1 + kPrime4;
  if (left >= 4) {
    sum = std::rotl(sum ^ (word_at<std::uint32_t>(at) * kPrime1), 23) * kPrime2 + kPrime3;
    left -= 4, at += 4;
  }
  for (; left > 0; --left, ++at) sum = std::rotl(sum ^ (word_at<std::uint8_t>(at) * kPrime5), 11) * kPrime1;
  sum = (sum ^ (sum >> 33)) * kPrime2;
  sum = (sum ^ (sum >> 29)) * kPrime3;
  return sum ^ (sum >> 32);
}

std::string checksum_text(std::uint64_t sum) {
  return fmt::format("{:016x}", sum);
}

std::optional<std::uint64_t> parse_checksum(std::string_view text) {
  if (text.size() != 16) return std::nullopt;
  std::uint64_t sum = 0;
  for (const char c : text) {
    const bool digit = c >= '0' && c <= '9', letter = c >= 'a' && c <= 'f';
    if (!digit && !letter) return std::nullopt;
    sum = sum << 4 | static_cast<std::uint64_t>(digit ? c - '0' : c - 'a' + 10);
  }
  return sum;
}

}  // namespace truemax
