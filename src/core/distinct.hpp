// Distinct random numbers without heap allocation, for the step loop.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/random.hpp"

namespace truemax {

// A set of numbers that keeps its memory from one use to the next.
class SeenNumbers {
 public:
  // Empties the set and makes room for `most` numbers.
  void start(std::size_t most) {
    if (places_.size() < 2 * most) places_.assign(std::bit_ceil(2 * most), Place{}), round_ = 0;
    if (++round_ == 0) std::fill(places_.begin(), places_.end(), Place{}), round_ = 1;
  }
  // False if it was already there.
  bool add(std::uint32_t number) {
    const std::size_t mask = places_.size() - 1;
    for (std::size_t at = (number * 0x9E3779B97F4A7C15ULL >> 32) & mask;; at = (at + 1) & mask) {
      Place& place = places_[at];
      if (place.round != round_) {
        place = {round_, number};
        return true;
      }
      if (place.number == number) return false;
    }
  }

 private:
  struct Place {
    std::uint32_t round = 0, number = 0;
  };
  std::vector<Place> places_;  // size is a power of two, at most half full
  std::uint32_t round_ = 0;
};

// Same numbers as draw_distinct, which builds a set for long lists. Here the set belongs to the thread, so
// that only a longer list than ever before allocates.
template <class Id = std::uint32_t, class Words>
void draw_distinct_again(Words& words, std::uint64_t n, std::type_identity_t<std::span<Id>> out) {
  constexpr std::size_t kFew = 64;
  if (out.size() <= kFew) return draw_distinct<Id>(words, n, out);
  static thread_local SeenNumbers seen;
  seen.start(out.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::uint64_t last = n - out.size() + i;
    out[i] = static_cast<Id>(uniform_below(words.next(), last + 1));
    if (seen.add(static_cast<std::uint32_t>(out[i]))) continue;
    out[i] = static_cast<Id>(last);  // larger than all earlier ones
    seen.add(static_cast<std::uint32_t>(out[i]));
  }
}

}  // namespace truemax
