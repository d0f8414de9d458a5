// Distinct names, numbered by first occurrence.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace truemax {

inline std::uint64_t hash_name(std::string_view name) {
  constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15ULL, kOdd2 = 0xD6E8FEB86659FD93ULL;
  // Every step is invertible, so different words stay different; two rounds carry each bit to the low ones.
  const auto mix = [](std::uint64_t h) {
    h = (h ^ (h >> 32)) * kOdd;
    h = (h ^ (h >> 29)) * kOdd2;
    return h ^ (h >> 32);
  };
  std::uint64_t h = name.size() * kOdd, word = 0;
  const char* p = name.data();
  std::size_t left = name.size();
  for (; left >= 8; left -= 8, p += 8) {
    std::memcpy(&word, p, 8);
    h = mix(h ^ word);
  }
  if (left >= 4) {  // two overlapping loads: with the length they cover every byte
    std::uint32_t low = 0, high = 0;
    std::memcpy(&low, p, 4);
    std::memcpy(&high, p + left - 4, 4);
    h = mix(h ^ (low | (static_cast<std::uint64_t>(high) << 32)));
  } else if (left > 0) {
    const auto byte = [p](std::size_t i) {
      return static_cast<std::uint64_t>(static_cast<unsigned char>(p[i]));
    };
    h = mix(h ^ (byte(0) | (byte(left / 2) << 8) | (byte(left - 1) << 16)));
  }
  return h;
}

// Text = std::string owns its names; Text = std::string_view points into text that outlives the table.
template <class Text>
class NameTable {
 public:
  static constexpr std::uint32_t kNone = 0xFFFFFFFFU;

  std::uint32_t add(std::string_view name) { return add(name, hash_name(name)); }
  // The number of `name`; equal to the old size() if the name is new.
  std::uint32_t add(std::string_view name, std::uint64_t hash) {
    if (names_.size() * 2 >= slots_.size()) grow();
    Slot& slot = slots_[place(name, hash)];
    if (slot.number == kNone) {
      slot = {hash, static_cast<std::uint32_t>(names_.size()), static_cast<std::uint32_t>(name.size())};
      names_.emplace_back(name);
      hashes_.push_back(hash);
      text_bytes_ += heap_bytes(name.size());
    }
    return slot.number;
  }
  std::uint32_t find(std::string_view name) const {
    return slots_.empty() ? kNone : slots_[place(name, hash_name(name))].number;
  }
  std::size_t size() const { return names_.size(); }
  const Text& operator[](std::uint32_t i) const { return names_[i]; }
  std::uint64_t hash(std::uint32_t i) const { return hashes_[i]; }
  // The memory of the table, and an upper bound on it while `more` names of `more_text` bytes are added: a
  // growing table exists twice for a moment.
  std::uint64_t bytes() const {
    return names_.capacity() * sizeof(Text) + hashes_.capacity() * sizeof(std::uint64_t) +
           slots_.size() * sizeof(Slot) + text_bytes_;
  }
  std::uint64_t bytes_with(std::size_t more, std::uint64_t more_text) const {
    const std::size_t names = names_.size() + more;
    std::uint64_t sum = bytes() + (is_owner ? more_text + more * kHeapBlock : 0);
    const auto doubled = [names](std::size_t room) { return std::max(names, 2 * room); };
    if (names > names_.capacity()) sum += doubled(names_.capacity()) * sizeof(Text);
    if (names > hashes_.capacity()) sum += doubled(hashes_.capacity()) * sizeof(std::uint64_t);
    if (names * 2 >= slots_.size())
      sum += std::max(kFewestSlots, std::bit_ceil(2 * names + 1)) * sizeof(Slot);
    return sum;
  }
  std::vector<Text> take_names() {
    auto names = std::move(names_);
    *this = NameTable();
    return names;
  }
  // Empties the table and keeps its memory.
  void clear() {
    names_.clear();
    hashes_.clear();
    text_bytes_ = 0;
    slots_.assign(slots_.size(), Slot{});
  }

 private:
  static constexpr bool is_owner = std::is_same_v<Text, std::string>;
  static constexpr std::size_t kFewestSlots = 64;
  static constexpr std::size_t kHeapBlock = 32;  // the smallest heap allocation of a string
  static std::uint64_t heap_bytes(std::size_t size) {
    constexpr std::size_t kInside = 15;  // longest text stored inside the string
    return is_owner && size > kInside ? (size + kHeapBlock) / 16 * 16 : 0;
  }

  struct Slot {
    std::uint64_t hash = 0;
    std::uint32_t number = kNone;
    std::uint32_t length = 0;  // of the name, stored here to avoid reading the name
  };

  // Names of one length up to 8 bytes have the same hash only if they are equal: hash_name maps a single word
  // by invertible steps.
  bool holds(const Slot& slot, std::string_view name, std::uint64_t hash) const {
    return slot.hash == hash && slot.length == static_cast<std::uint32_t>(name.size()) &&
           (name.size() <= 8 || names_[slot.number] == name);
  }
  std::size_t place(std::string_view name, std::uint64_t hash) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = hash & mask;
    while (slots_[at].number != kNone && !holds(slots_[at], name, hash)) at = (at + 1) & mask;
    return at;
  }
  void grow() {
    slots_.assign(slots_.empty() ? kFewestSlots : slots_.size() * 2, Slot{});
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t i = 0; i < names_.size(); ++i) {
      std::size_t at = hashes_[i] & mask;
      while (slots_[at].number != kNone) at = (at + 1) & mask;
      slots_[at] = {hashes_[i], static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(names_[i].size())};
    }
  }

  std::vector<Text> names_;
  std::uint64_t text_bytes_ = 0;  // of names stored outside names_
  std::vector<std::uint64_t> hashes_;
  std::vector<Slot> slots_;  // size is a power of two, at most half full
};

using NameViews = NameTable<std::string_view>;
using NameStore = NameTable<std::string>;

}  // namespace truemax
