// XXH64, the 64-bit hash of the xxHash specification (version 0.2.0): detects changed bytes at memory speed.
// Not cryptographic: it does not protect against deliberate changes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace truemax {

std::uint64_t xxh64(std::span<const char> bytes, std::uint64_t seed = 0) noexcept;

// Of bytes that come piece by piece: each piece is hashed with the sum so far as seed, so the sum depends on
// where pieces end.
class RunningSum {
 public:
  static constexpr std::size_t kPiece = std::size_t{1} << 20;
  void add(std::span<const char> piece) { sum_ = xxh64(piece, sum_); }
  std::uint64_t value() const { return sum_; }

 private:
  std::uint64_t sum_ = 0;
};

// To and from 16 hexadecimal digits; nullopt for any other text.
std::string checksum_text(std::uint64_t sum);
std::optional<std::uint64_t> parse_checksum(std::string_view text);

}  // namespace truemax
