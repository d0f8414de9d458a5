// XXH64, the 64-bit hash of the xxHash specification (version 0.2.0): finds changed bytes at the speed of
// memory. It is no protection against someone who wants to deceive.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace truemax {

std::uint64_t xxh64(std::span<const char> bytes, std::uint64_t seed = 0) noexcept;

// 16 hexadecimal digits, and back; nothing where the text is anything else.
std::string checksum_text(std::uint64_t sum);
std::optional<std::uint64_t> parse_checksum(std::string_view text);

}  // namespace truemax
