// Finds names of a list by their text, in some 8 bytes a name: millions of classes must not cost more memory
// than they have weights.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/names.hpp"

namespace truemax {

class NameIndex {
 public:
  static constexpr std::uint32_t kNone = 0xFFFFFFFFU;

  // Of all names of the list, in place of earlier ones. Returns the first name that was there before, if
  // any: find() gives the one before.
  std::optional<std::uint32_t> make(const std::vector<std::string>& names) {
    slots_.assign(std::bit_ceil(std::max<std::size_t>(2 * names.size(), 2)), kNone);
    std::optional<std::uint32_t> twice;
    for (std::uint32_t i = 0; i < names.size(); ++i) {
      std::uint32_t& slot = slots_[place(names, names[i])];
      if (slot == kNone)
        slot = i;
      else if (!twice)
        twice = i;
    }
    return twice;
  }
  // The number in the list that make() was given; kNone if it is not there.
  std::uint32_t find(const std::vector<std::string>& names, std::string_view name) const {
    return slots_.empty() ? kNone : slots_[place(names, name)];
  }

 private:
  std::size_t place(const std::vector<std::string>& names, std::string_view name) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = hash_name(name) & mask;
    while (slots_[at] != kNone && names[slots_[at]] != name) at = (at + 1) & mask;
    return at;
  }
  std::vector<std::uint32_t> slots_;  // a power of two, at most half full
};

}  // namespace truemax
