// Counter-based random numbers: a number is a pure function of (seed, stream, position), so any step of any
// epoch can be drawn on its own, ahead of time, and in any order.
#pragma once

#ifdef __CUDACC__
#define R123_CUDA_DEVICE __host__ __device__
#endif
#include <Random123/philox.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <unordered_set>

#include "core/host_device.hpp"

namespace truemax {

// The purpose of a stream of numbers. Streams never overlap.
enum class Stream : std::uint32_t {
  visit = 1,
  draw = 2,
  generate_label = 3,
  generate_row = 4,
  hold_out = 5,
  tune = 6,
  evaluate = 7,
  embedding = 8,
  dropout = 9,
  window = 10,
  index = 11
};

// Numbers of one (seed, stream, epoch): at(position, word) are four 64-bit numbers. Philox of four 64-bit
// words gives twice the bits of the 32-bit one for the same time.
class CounterRandom {
 public:
  struct Block {
    std::uint64_t first, second, third, fourth;
    bool operator==(const Block&) const = default;
  };

  TRUEMAX_HOST_DEVICE CounterRandom(std::uint64_t seed, Stream stream, std::uint64_t epoch)
      : key_{{seed, (static_cast<std::uint64_t>(stream) << 56) ^ epoch}} {}

  TRUEMAX_HOST_DEVICE Block at(std::uint64_t position, std::uint64_t word = 0) const {
    const auto r = r123::Philox4x64()({{position, word, 0, 0}}, key_);
    return {r[0], r[1], r[2], r[3]};
  }

 private:
  r123::Philox4x64::key_type key_;
};

// The words of one stream in sequence, from any position: word i is a quarter of block i/4.
class RandomWords {
 public:
  RandomWords(const CounterRandom& random, std::uint64_t first) : random_(random), at_(first) {
    if (at_ % 4 != 0) load();
  }
  std::uint64_t next() {
    if (at_ % 4 == 0) load();
    return words_[at_++ % 4];
  }

 private:
  void load() {
    const CounterRandom::Block b = random_.at(at_ / 4);
    words_ = {b.first, b.second, b.third, b.fourth};
  }
  const CounterRandom& random_;
  std::uint64_t at_;
  std::array<std::uint64_t, 4> words_{};
};

// The same interface over words that are already there.
struct WordList {
  const std::uint64_t* at;
  std::uint64_t next() { return *at++; }
};

// A whole number in [0, n) from 64 random bits; probabilities differ from 1/n by less than 2^-64.
TRUEMAX_HOST_DEVICE inline std::uint64_t uniform_below(std::uint64_t bits, std::uint64_t n) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<Wide>(bits) * n) >> 64);
}

// Distinct whole numbers in [0, n), every set equally likely, one word each (Floyd's method). `words` has
// next().
template <class Id = std::uint32_t, class Words>
void draw_distinct(Words& words, std::uint64_t n, std::type_identity_t<std::span<Id>> out) {
  std::unordered_set<Id> seen;  // only if a linear search would be slow
  const bool many = out.size() > 64;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::uint64_t last = n - out.size() + i;
    auto chosen = static_cast<Id>(uniform_below(words.next(), last + 1));
    const bool taken = many ? seen.count(chosen) > 0
                            : std::find(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(i), chosen) !=
                                  out.begin() + static_cast<std::ptrdiff_t>(i);
    if (taken) chosen = static_cast<Id>(last);
    if (many) seen.insert(chosen);
    out[i] = chosen;
  }
}

// A number in [0, 1) from the top 53 bits.
TRUEMAX_HOST_DEVICE inline double uniform_unit(std::uint64_t bits) {
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

}  // namespace truemax
