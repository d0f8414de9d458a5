// Steps on several threads with the bits of one: a step waits only for the last earlier steps that touch one
// of its blocks or its row. Steps that share nothing commute, so every block and row sees its steps in order
// however the threads run. Step t belongs to member t % members.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/team.hpp"
#include "core/types.hpp"

namespace truemax {

// How far each member is in the current batch.
class Progress {
 public:
  explicit Progress(std::size_t members) : done_(members) {}

  std::size_t members() const { return done_.size(); }
  void start() {
    for (Done& d : done_) d.steps.store(0, std::memory_order_relaxed);
  }
  void wait_for(std::size_t t) const {
    const std::atomic<std::uint32_t>& steps = done_[t % members()].steps;
    const auto needed = static_cast<std::uint32_t>(t / members() + 1);
    for (std::size_t looks = 0; steps.load(std::memory_order_acquire) < needed; ++looks)
      pause_a_little(looks);
  }
  void done(std::size_t t) {
    done_[t % members()].steps.store(static_cast<std::uint32_t>(t / members() + 1),
                                     std::memory_order_release);
  }
  // A member that fails lets the others finish.
  void give_up(std::size_t member) { done_[member].steps.store(UINT32_MAX, std::memory_order_release); }

 private:
  struct alignas(64) Done {
    std::atomic<std::uint32_t> steps{0};  // done by this member
  };
  std::vector<Done> done_;
};

// What the steps of one member wait for. Each member has its own, which no other thread reads.
class Turns {
 public:
  Turns(std::size_t member, std::size_t members, std::size_t blocks)
      : member_(member), members_(members), last_(blocks, 0) {}

  // Allocates for batches of so many steps of up to so many blocks.
  void reserve(std::size_t steps, std::size_t blocks) {
    waits_.reserve((steps / members_ + 1) * (blocks + 1));
    begin_.reserve(steps / members_ + 2);
  }

  // Starts a batch; then add() all of its steps, including those of other members.
  void start() {
    if (batch_ == kBatches) {  // stale marks could be mistaken for new ones
      std::fill(last_.begin(), last_.end(), 0);
      rows_.fill(0);
      batch_ = 0;
    }
    ++batch_;
    step_ = 0;
    next_own_ = static_cast<std::uint32_t>(member_);
    waits_.clear();
    begin_.assign(1, 0);
  }
  // `row`: null if no two steps of a batch have the same.
  void add(const ExampleId* row, std::span<const std::uint32_t> blocks) {
    const bool own = step_ == next_own_;
    const auto meet = [&](std::uint32_t& last) {
      const std::uint32_t t = last % kSteps;
      if (own && last / kSteps == batch_ && t % members_ != member_) waits_.push_back(t);
      last = batch_ * kSteps + step_;
    };
    for (const std::uint32_t b : blocks) meet(last_[b]);
    if (row != nullptr) meet(rows_[place(number_of(*row))]);  // a hash collision only adds a wait
    if (own) {
      begin_.push_back(static_cast<std::uint32_t>(waits_.size()));
      next_own_ += static_cast<std::uint32_t>(members_);
    }
    ++step_;
  }

  // Waits until step t, one of this member's, can run.
  void wait(std::size_t t, const Progress& progress) const {
    const std::size_t i = t / members_;
    for (std::uint32_t w = begin_[i]; w < begin_[i + 1]; ++w) progress.wait_for(waits_[w]);
  }

 private:
  static constexpr std::uint32_t kSteps = 4096;  // more than in any batch
  static constexpr std::uint32_t kBatches = UINT32_MAX / kSteps - 1;
  static constexpr int kPlaceBits = 10;
  static std::size_t place(std::uint32_t id) { return (id * 0x9E3779B1U) >> (32 - kPlaceBits); }

  std::size_t member_, members_;
  std::vector<std::uint32_t> last_;  // by block: batch and number of the last step that has it
  std::array<std::uint32_t, std::size_t{1} << kPlaceBits> rows_{};
  std::uint32_t batch_ = 0, step_ = 0, next_own_ = 0;
  std::vector<std::uint32_t> waits_, begin_{0};
};

}  // namespace truemax
