// Additions to blocks whose scales change from one to the next: each is divided by the scales of now and made
// later, many in one loop. Whoever multiplies scales into memory calls make() first.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "weights/blocks.hpp"

namespace truemax {

class LaterAdds {
 public:
  LaterAdds() = default;
  LaterAdds(const LaterAdds&) = delete;
  LaterAdds& operator=(const LaterAdds&) = delete;

  // One more: x must stay where it is until make(). Returns what its numbers in memory will grow by, [16],
  // for the caller to write.
  float* add(Weights& w, const RowView& x, std::uint32_t block) {
    if (count_ == kMost) make(w);
    float* const numbers = numbers_.data() + count_ * kLanes;
    tasks_[count_++] = {x.index.data(), x.value.data(), static_cast<std::uint32_t>(x.index.size()), block,
                        numbers};
    return numbers;
  }
  void make(Weights& w) {
    add_tasks_to_memory(w, {tasks_.data(), count_}, true);
    count_ = 0;
  }

 private:
  static constexpr std::size_t kMost = 128;  // their numbers stay in the first cache

  std::size_t count_ = 0;
  std::array<BlockTask, kMost> tasks_;
  alignas(64) std::array<float, kMost * kLanes> numbers_;
};

}  // namespace truemax
