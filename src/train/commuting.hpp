// Which of the steps drawn ahead may be done side by side. Two steps commute when they share no row and no
// class: doing them in either order, or at once, leaves the same weights to the last bit. A group takes steps
// in their order, passing over those that meet an earlier one (taken or passed over); those wait for the next
// group. What comes out is exactly the sequential method.
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
  // Starts on steps 0 ... count - 1, which visit these rows with these two classes each.
  void start(std::size_t count) {
    first_ = 0;
    count_ = count;
    for (std::size_t t = 0; t < count; ++t) waiting_[t] = static_cast<std::uint8_t>(t);
  }

  bool empty() const { return first_ == count_; }

  // The next group, at most group.size() steps; its length, at least one unless empty.
  std::size_t next(const ExampleId* rows, const ClassId* labels, const ClassId* drawn,
                   std::span<std::uint8_t> group) {
    // Places of a small hashed table are marked with the number of the group: steps that do not meet may seem
    // to, which makes one wait and harms nothing. The first step meets nothing and is always taken.
    if (++group_ == 0) {
      marks_.fill(0);
      group_ = 1;
    }
    constexpr std::size_t kLook = 32;  // steps looked at for one group
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
    // Those passed over come first in the next group.
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
