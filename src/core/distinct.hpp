// Different random numbers without a look at the heap, for steps.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/random.hpp"

namespace truemax {

// Numbers that were seen. Keeps its memory from one use to the next.
class SeenNumbers {
 public:
  // Forgets all; up to `most` numbers will come.
  void start(std::size_t most) {
    if (places_.size() < 2 * most) places_.assign(std::bit_ceil(2 * most), Place{}), round_ = 0;
    if (++round_ == 0) std::fill(places_.begin(), places_.end(), Place{}), round_ = 1;
  }
  // False where it was there.
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
  std::vector<Place> places_;  // a power of two, at most half of them used
  std::uint32_t round_ = 0;
};

// The numbers of draw_distinct, which looks through what is there, or where that would be slow makes a set:
// here it is one that the thread keeps, so that only more numbers than ever before allocate.
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
    out[i] = static_cast<Id>(last);  // larger than all that was there
    seen.add(static_cast<std::uint32_t>(out[i]));
  }
}

}  // namespace truemax
