// Which of the steps drawn ahead can be done side by side. Two steps commute if they share no row and no
// class: in either order, or at once, they leave the same weights bit for bit. A group takes steps in order
// and skips those that conflict with an earlier one (taken or skipped); these wait for the next group. The
// result is exactly that of the sequential method.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/types.hpp"

namespace truemax {

inline constexpr std::size_t kStepsAhead = 128;  // steps drawn ahead

class CommutingGroups {
 public:
  // Starts a batch of steps 0 ... count - 1.
  void start(std::size_t count) {
    first_ = 0;
    count_ = count;
    for (std::size_t t = 0; t < count; ++t) waiting_[t] = static_cast<std::uint8_t>(t);
  }

  bool empty() const { return first_ == count_; }

  // Writes the next group, at most group.size() steps, and returns its length: at least 1 unless empty().
  std::size_t next(const ExampleId* rows, const ClassId* labels, const ClassId* drawn,
                   std::span<std::uint8_t> group) {
    // Entries of a small hash table are marked with the number of the group. A collision only makes a step
    // wait for the next group. The first step conflicts with nothing and is always taken.
    if (++group_ == 0) {
      marks_.fill(0);
      group_ = 1;
    }
    constexpr std::size_t kLook = 32;  // steps considered for one group
    std::array<std::uint8_t, kLook> passed;
    std::size_t taken = 0, left = 0, at = first_;
    for (; at < count_ && taken < group.size() && at - first_ < kLook; ++at) {
      const std::uint8_t t = waiting_[at];
      std::uint16_t& row = marks_[place(~number_of(rows[t]))];
      std::uint16_t& label = marks_[place(labels[t])];
      std::uint16_t& other = marks_[place(drawn[t])];
      const bool meets = row == group_ || label == group_ || other == group_;
      row = label = other = group_;
      if (meets)
        passed[left++] = t;
      else
        group[taken++] = t;
    }
    // Skipped steps come first in the next group.
    first_ = at - left;
    for (std::size_t i = 0; i < left; ++i) waiting_[first_ + i] = passed[i];
    return taken;
  }

 private:
  static constexpr int kPlaceBits = 10;
  static std::size_t place(std::uint32_t id) { return (id * 0x9E3779B1U) >> (32 - kPlaceBits); }

  std::array<std::uint8_t, kStepsAhead> waiting_{};
  std::array<std::uint16_t, std::size_t{1} << kPlaceBits> marks_{};
  std::uint16_t group_ = 0;
  std::size_t first_ = 0, count_ = 0;
};

}  // namespace truemax
