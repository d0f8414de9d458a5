// Steps on several threads with the bits of one: a step waits only for the last earlier steps that touch one
// of its blocks or its row. Steps that share nothing commute, so every block and row sees its steps in order
// however the threads run. Step t of a batch is step t / members of member t % members.
//
// A member takes its steps nearly in order: one that must wait does not hold up the next few. This cannot
// deadlock. Only Turns::next() waits, and it looks at all steps of its window until one is ready. Consider
// the first step of the batch that is not done. All earlier ones are done, so it is the first of its member
// and in the window; and it waits only for earlier ones. So its member takes it, at the latest when it is
// through with the step that it is taking.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/team.hpp"
#include "core/types.hpp"

namespace truemax {

// Which steps of the current batch are done.
class Progress {
 public:
  static constexpr std::size_t kWindow = 8;  // a member's steps among which it may choose, at most 16

  explicit Progress(std::size_t members) : said_(members), patience_(members) {}

  std::size_t members() const { return said_.size(); }
  Patience& patience() { return patience_; }
  // Between two batches. What members said before no longer counts.
  void start() { ++batch_; }

  // The first steps of the member are done, and `first` + k for every bit k of `later`.
  void say(std::size_t member, std::size_t first, std::uint32_t later) {
    said_[member].word.store(std::uint64_t{batch_} << kBatch | later << kLater | first,
                             std::memory_order_release);
  }
  // Whether step i of a member is done.
  bool done(std::size_t member, std::size_t i) const {
    const std::uint64_t word = said_[member].word.load(std::memory_order_acquire);
    const std::size_t first = word & kFirst;
    if (word >> kBatch != batch_ || i >= first + kWindow) return false;
    return i < first || (word >> (kLater + (i - first)) & 1) != 0;
  }
  // Whether step i of a member and all before it are.
  bool done_up_to(std::size_t member, std::size_t i) const {
    const std::uint64_t word = said_[member].word.load(std::memory_order_acquire);
    return word >> kBatch == batch_ && i < (word & kFirst);
  }
  // A member that fails lets the others finish.
  void give_up(std::size_t member) { say(member, kFirst, 0); }

 private:
  // A word has the batch, then `later`, then `first`.
  static constexpr unsigned kLater = 16, kBatch = 32;
  static constexpr std::uint64_t kFirst = (1U << kLater) - 1;
  static_assert(kWindow <= kBatch - kLater);
  struct alignas(64) Said {
    std::atomic<std::uint64_t> word{0};
  };
  std::vector<Said> said_;
  Patience patience_;
  std::uint32_t batch_ = 0;
};

// What the steps of one member wait for. Each member has its own, which no other thread reads.
class Turns {
 public:
  Turns(std::size_t member, std::size_t members, std::size_t blocks)
      : member_(member), members_(members), last_(blocks, 0) {}

  // Allocates for batches of so many steps of up to so many blocks.
  void reserve(std::size_t steps, std::size_t blocks) {
    waits_.reserve((steps / members_ + 1) * (blocks + 1));
    own_.reserve(steps / members_ + 1);
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
    own_.clear();
    first_ = 0, later_ = 0;
  }
  // `row`: null if no two steps of a batch have the same.
  void add(const ExampleId* row, std::span<const std::uint32_t> blocks) {
    const std::uint32_t mark = batch_ * kSteps + step_;
    if (step_++ == next_own_) {
      find_waits(row, blocks);
      next_own_ += static_cast<std::uint32_t>(members_);
    }
    for (const std::uint32_t b : blocks) last_[b] = mark;
    if (row != nullptr) rows_[place(*row)] = mark;
  }

  bool all_done() const { return first_ == own_.size(); }
  // Waits until one of the member's next steps is ready, and returns the first that is.
  std::size_t next(Progress& progress) {
    for (std::size_t looks = 0;; ++looks) {
      const std::size_t end = std::min(own_.size(), first_ + Progress::kWindow);
      for (std::size_t i = first_; i < end; ++i)
        if ((later_ >> (i - first_) & 1) == 0 && ready(i, progress)) return i;
      progress.patience().pause(member_, looks);
    }
  }
  void done(std::size_t i, Progress& progress) {
    later_ |= 1U << (i - first_);
    const int more = std::countr_one(later_);
    later_ >>= more, first_ += static_cast<std::size_t>(more);
    progress.say(member_, first_, later_);
  }
  // Step i has changed nothing and is ready again when all earlier steps of the batch are done.
  void put_back(std::size_t i) { own_[i].put_back = true; }
  bool was_put_back(std::size_t i) const { return own_[i].put_back; }

 private:
  struct Wait {
    std::uint32_t member, i;
  };
  struct Own {
    std::uint32_t from, to;  // waits that may not be over
    bool put_back;
  };

  void find_waits(const ExampleId* row, std::span<const std::uint32_t> blocks) {
    const auto from = static_cast<std::uint32_t>(waits_.size());
    const auto wait_for = [&](std::uint32_t last) {
      if (last / kSteps != batch_) return;
      const auto m = static_cast<std::uint32_t>(last % kSteps % members_);
      const auto i = static_cast<std::uint32_t>(last % kSteps / members_);
      // Own steps before the window are done when this one gets into it.
      if (m != member_ || i + Progress::kWindow > own_.size()) waits_.push_back({m, i});
    };
    for (const std::uint32_t b : blocks) wait_for(last_[b]);
    if (row != nullptr) wait_for(rows_[place(*row)]);  // a hash collision only adds a wait
    own_.push_back({from, static_cast<std::uint32_t>(waits_.size()), false});
  }
  bool ready(std::size_t i, const Progress& progress) {
    Own& own = own_[i];
    for (; own.from < own.to; ++own.from)
      if (!progress.done(waits_[own.from].member, waits_[own.from].i)) return false;
    return !own.put_back || all_before(i, progress);
  }
  bool all_before(std::size_t i, const Progress& progress) const {
    for (std::size_t m = 0; m < members_; ++m) {
      const std::size_t steps = m < member_ ? i + 1 : i;
      if (steps > 0 && !progress.done_up_to(m, steps - 1)) return false;
    }
    return true;
  }

  static constexpr std::uint32_t kSteps = 4096;  // more than in any batch in order
  static constexpr std::uint32_t kBatches = UINT32_MAX / kSteps - 1;
  static constexpr int kPlaceBits = 10;
  static std::size_t place(ExampleId row) { return (number_of(row) * 0x9E3779B1U) >> (32 - kPlaceBits); }

  std::size_t member_, members_;
  std::vector<std::uint32_t> last_;  // by block: batch and number of the last step that has it
  std::array<std::uint32_t, std::size_t{1} << kPlaceBits> rows_{};
  std::uint32_t batch_ = 0, step_ = 0, next_own_ = 0;
  std::vector<Wait> waits_;
  std::vector<Own> own_;  // the member's steps
  // The first step that is not done, and bit k: step first_ + k is.
  std::size_t first_ = 0;
  std::uint32_t later_ = 0;
};

}  // namespace truemax
