// Steps over several threads with the bits of one: a step waits for the last earlier step that touches one of
// its blocks or its row, and for no other. Steps that share nothing commute, so whatever the threads do
// meanwhile, every block and every row sees its steps in their order. Step t belongs to member t % members.
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

// How far the members are in the batch under way.
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
  // A member that cannot go on lets the others finish.
  void give_up(std::size_t member) { done_[member].steps.store(UINT32_MAX, std::memory_order_release); }

 private:
  struct alignas(64) Done {
    std::atomic<std::uint32_t> steps{0};  // of this member
  };
  std::vector<Done> done_;
};

// What the steps of one member wait for. Each member plans for itself: what is written here is read by nobody
// else.
class Turns {
 public:
  Turns(std::size_t member, std::size_t members, std::size_t blocks)
      : member_(member), members_(members), last_(blocks, 0) {}

  // Takes the memory of batches of so many steps of up to so many blocks.
  void reserve(std::size_t steps, std::size_t blocks) {
    waits_.reserve((steps / members_ + 1) * (blocks + 1));
    begin_.reserve(steps / members_ + 2);
  }

  // A new batch; then add() with all of its steps, also those of others.
  void start() {
    if (batch_ == kBatches) {  // marks of long ago could be taken for new ones
      std::fill(last_.begin(), last_.end(), 0);
      rows_.fill(0);
      batch_ = 0;
    }
    ++batch_;
    step_ = 0;
    waits_.clear();
    begin_.assign(1, 0);
  }
  void add(ExampleId row, std::span<const std::uint32_t> blocks) {
    const bool own = step_ % members_ == member_;
    const auto meet = [&](std::uint32_t& last) {
      const std::uint32_t t = last % kSteps;
      if (own && last / kSteps == batch_ && t % members_ != member_) waits_.push_back(t);
      last = batch_ * kSteps + step_;
    };
    for (const std::uint32_t b : blocks) meet(last_[b]);
    meet(rows_[place(number_of(row))]);  // other rows may share the place: one more wait, no harm
    if (own) begin_.push_back(static_cast<std::uint32_t>(waits_.size()));
    ++step_;
  }

  // Before step t, one of this member's.
  void wait(std::size_t t, const Progress& progress) const {
    const std::size_t i = t / members_;
    for (std::uint32_t w = begin_[i]; w < begin_[i + 1]; ++w) progress.wait_for(waits_[w]);
  }

 private:
  static constexpr std::uint32_t kSteps = 4096;  // more than a batch has
  static constexpr std::uint32_t kBatches = UINT32_MAX / kSteps - 1;
  static constexpr int kPlaceBits = 10;
  static std::size_t place(std::uint32_t id) { return (id * 0x9E3779B1U) >> (32 - kPlaceBits); }

  std::size_t member_, members_;
  std::vector<std::uint32_t> last_;  // of each block: batch and number of the last step that has it
  std::array<std::uint32_t, std::size_t{1} << kPlaceBits> rows_{};
  std::uint32_t batch_ = 0, step_ = 0;
  std::vector<std::uint32_t> waits_, begin_{0};
};

}  // namespace truemax
