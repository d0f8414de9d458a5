// Steps over several threads with the bits of one: a step waits for the last earlier step that touches one of
// its blocks or its row, and for no other. Steps that share nothing commute, so whatever the threads do
// meanwhile, every block and every row sees its steps in their order.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/team.hpp"
#include "core/types.hpp"

namespace truemax {

class Turns {
 public:
  Turns(std::size_t members, std::size_t blocks) : members_(members), progress_(members), last_(blocks, 0) {}

  // Plans a batch: step t, of member t % members, waits for these.
  void start() {
    if (batch_ > kBatches) {  // marks of long ago could be taken for new ones
      std::fill(last_.begin(), last_.end(), 0);
      rows_.fill(0);
      batch_ = 0;
    }
    ++batch_;
    waits_.clear();
    begin_.assign(1, 0);
    for (Progress& p : progress_) p.done.store(0, std::memory_order_relaxed);
  }
  void add(RowId row, std::span<const std::uint32_t> blocks) {
    const auto t = static_cast<std::uint32_t>(begin_.size() - 1);
    const auto wait_for = [&](std::uint32_t& last) {
      if (last / kSteps == batch_ && last % kSteps % members_ != t % members_)
        waits_.push_back(static_cast<std::uint32_t>(last % kSteps));
      last = batch_ * kSteps + t;
    };
    for (const std::uint32_t b : blocks) wait_for(last_[b]);
    wait_for(rows_[place(row)]);  // other rows may share the place: one more wait, no harm
    begin_.push_back(static_cast<std::uint32_t>(waits_.size()));
  }

  void wait(std::size_t t) const {
    for (std::uint32_t i = begin_[t]; i < begin_[t + 1]; ++i) {
      const std::atomic<std::uint32_t>& done = progress_[waits_[i] % members_].done;
      const auto needed = static_cast<std::uint32_t>(waits_[i] / members_ + 1);
      for (std::size_t looks = 0; done.load(std::memory_order_acquire) < needed; ++looks)
        pause_a_little(looks);
    }
  }
  void done(std::size_t t) {
    progress_[t % members_].done.store(static_cast<std::uint32_t>(t / members_ + 1),
                                       std::memory_order_release);
  }
  // A member that cannot go on lets the others finish.
  void give_up(std::size_t member) { progress_[member].done.store(kSteps, std::memory_order_release); }

 private:
  static constexpr std::uint32_t kSteps = 4096;  // more than a batch has
  static constexpr std::uint32_t kBatches = (std::uint32_t{1} << 20) - 2;
  static constexpr int kPlaceBits = 10;
  static std::size_t place(std::uint32_t id) { return (id * 0x9E3779B1U) >> (32 - kPlaceBits); }

  struct alignas(64) Progress {
    std::atomic<std::uint32_t> done{0};  // steps of this member
  };

  std::size_t members_;
  std::vector<Progress> progress_;
  std::vector<std::uint32_t> last_;  // of each block: batch and number of the last step that has it
  std::array<std::uint32_t, std::size_t{1} << kPlaceBits> rows_{};
  std::uint32_t batch_ = 0;
  std::vector<std::uint32_t> waits_, begin_{0};
};

}  // namespace truemax
