// The functions of libtruemax_cuda.so: plain C, so that they are found by name. Errors come back as text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string_view>

#include "device/engine.hpp"
#include "device/learnt.hpp"

namespace truemax::device {

inline constexpr char kLibraryName[] = "libtruemax_cuda.so";

// kEngineVersion of the library.
using EngineVersion = std::uint32_t();
inline constexpr char kEngineVersionName[] = "truemax_engine_version";
// The number of cards; below 0 without a driver that works, and `why` says what is wrong with it.
using EngineCards = int(char* why, std::size_t size);
inline constexpr char kEngineCardsName[] = "truemax_engine_cards";
// Owned by the caller; null if it failed, and `why` says so.
using EngineOpen = Engine*(int card, char* why, std::size_t size);
inline constexpr char kEngineOpenName[] = "truemax_engine_open";

// The same for learnt features.
using LearntEngineOpen = LearntEngine*(int card, char* why, std::size_t size);
inline constexpr char kLearntEngineOpenName[] = "truemax_learnt_engine_open";

// Copies what fits of the text.
inline void put_text(std::string_view text, char* to, std::size_t size) {
  if (size == 0) return;
  const std::size_t length = text.size() < size ? text.size() : size - 1;
  std::memcpy(to, text.data(), length);
  to[length] = 0;
}

// What EngineOpen does with `make`, which returns an engine or throws.
template <class Make>
auto opened(const Make& make, char* why, std::size_t size) -> decltype(make()) {
  try {
    return make();
  } catch (const std::exception& error) {
    put_text(error.what(), why, size);
    return nullptr;
  }
}

}  // namespace truemax::device
