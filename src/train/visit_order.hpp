// Which row each step of an epoch visits; a pure function of (seed, epoch, step).
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <stop_token>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "core/distinct.hpp"
#include "core/random.hpp"
#include "core/types.hpp"
#include "train/options.hpp"
#include "train/window_order.hpp"

namespace truemax {

class VisitOrder {
 public:
  // `together`: rows per step, all different. `group_of`: by row, if shuffles keep rows of a group, which
  // follow each other, together. It outlives this.
  VisitOrder(Visit visit, std::uint64_t seed, std::size_t rows, std::size_t together = 1,
             std::span<const RowId> group_of = {})
      : visit_(visit), seed_(seed), rows_(rows), together_(together), group_of_(group_of) {}

  // Of a stream.
  explicit VisitOrder(WindowOrder windows)
      : visit_(Visit::shuffle),
        seed_(0),
        rows_(0),
        together_(1),
        windows_(std::make_unique<WindowOrder>(std::move(windows))) {}
  // Null: the rows are in memory, and fill() is for any position.
  WindowOrder* windows() { return windows_.get(); }

  // Of what shuffling groups takes besides the order itself.
  static std::uint64_t grouping_bytes(std::span<const RowId> group_of) {
    return group_of.empty() ? 0 : groups_in(group_of) * sizeof(std::uint32_t);
  }

  void start_epoch(std::uint64_t epoch) {
    if (epoch == epoch_) return;  // resuming the same epoch
    epoch_ = epoch;
    if (windows_) return windows_->start_epoch(epoch);
    random_ = CounterRandom(seed_, Stream::visit, epoch);
    if (visit_ != Visit::shuffle) return;
    if (ahead_.joinable()) ahead_.join();
    if (next_epoch_ != epoch) unfinished_.reset();
    while (make_some()) {
    }
    if (std::exchange(next_epoch_, kNone) == epoch)
      std::swap(permutation_, next_);
    else
      make_order(epoch, permutation_);
    if (epoch + 1 < ahead_to_ && rows_ >= kFewestAhead) make_next(epoch + 1);
  }

  // From now on the order of the next epoch is made meanwhile, if there is one: there are so many epochs. The
  // caller makes it with make_some(), unless groups are shuffled.
  enum class Maker { thread, caller };
  void look_ahead(std::uint64_t epochs, Maker maker = Maker::thread) { ahead_to_ = epochs, maker_ = maker; }

  // Makes some of the order of the next epoch, in less than a microsecond; false if nothing is left to do. By
  // one thread at a time, not beside start_epoch().
  bool make_some() {
    constexpr std::size_t kSome = 64;
    if (!unfinished_) return false;
    Unfinished& u = *unfinished_;
    if (u.filled < rows_) {
      const std::size_t end = std::min(rows_, u.filled + 8 * kSome);
      for (; u.filled < end; ++u.filled) next_[u.filled] = static_cast<ExampleId>(u.filled);
      return true;
    }
    for (std::size_t i = 0; i < kSome && u.left > 1; ++i) swap_one(u.words, next_, u.left);
    if (u.left <= 1) unfinished_.reset();
    return true;
  }

  // The rows at positions first ... first + out.size() - 1 of the epoch; a step begins at `first`.
  void fill(std::uint64_t first, std::span<ExampleId> out) const {
    if (windows_) return windows_->fill(first, out);
    RandomWords words(random_, first);
    if (visit_ == Visit::random && together_ > 1) {
      for (std::size_t t = 0; t < out.size(); t += together_)
        draw_distinct_again<ExampleId>(words, rows_, out.subspan(t, std::min(together_, out.size() - t)));
      return;
    }
    for (std::size_t t = 0; t < out.size(); ++t) switch (visit_) {
        case Visit::random:
          out[t] = static_cast<ExampleId>(uniform_below(words.next(), rows_));
          break;
        case Visit::shuffle:
          out[t] = permutation_[first + t];
          break;
        case Visit::file:
          out[t] = static_cast<ExampleId>(first + t);
          break;
      }
  }

 private:
  // `stop`: only when nobody needs the order any more.
  void make_order(std::uint64_t epoch, std::vector<ExampleId>& order, const std::stop_token& stop = {}) {
    order.resize(rows_);
    const CounterRandom random(seed_, Stream::visit, epoch);
    if (!group_of_.empty()) return shuffle_groups(random, order, stop);
    for (std::size_t i = 0; i < rows_; ++i) order[i] = static_cast<ExampleId>(i);
    shuffle(random, order, stop);
  }

  void make_next(std::uint64_t epoch) {
    next_epoch_ = kNone;
    try {
      next_.resize(rows_);
      if (!group_of_.empty()) firsts_.reserve(groups_in(group_of_));
      if (maker_ == Maker::caller && group_of_.empty()) {
        unfinished_.emplace(CounterRandom(seed_, Stream::visit, epoch), rows_);
        next_epoch_ = epoch;
        return;
      }
      ahead_ = std::jthread([this, epoch](const std::stop_token& stop) { make_order(epoch, next_, stop); });
      next_epoch_ = epoch;
    } catch (const std::system_error&) {  // no more threads: it is made when its epoch starts
    } catch (const std::bad_alloc&) {
    }
  }

  // Fisher-Yates from the given order, so that an epoch does not depend on earlier ones.
  template <class T>
  static void shuffle(const CounterRandom& random, std::vector<T>& order, const std::stop_token& stop) {
    constexpr std::size_t kLook = 1 << 16;
    RandomWords words(random, 0);
    for (std::size_t left = order.size(); left > 1;) {
      if (left % kLook == 0 && stop.stop_requested()) return;
      swap_one(words, order, left);
    }
  }
  template <class T>
  static void swap_one(RandomWords& words, std::vector<T>& order, std::size_t& left) {
    std::swap(order[left - 1], order[uniform_below(words.next(), left)]);
    --left;
  }

  static std::size_t groups_in(std::span<const RowId> group_of) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < group_of.size(); ++i) count += i == 0 || group_of[i] != group_of[i - 1];
    return count;
  }

  void shuffle_groups(const CounterRandom& random, std::vector<ExampleId>& order,
                      const std::stop_token& stop) {
    firsts_.clear();
    firsts_.reserve(groups_in(group_of_));
    for (std::size_t i = 0; i < rows_; ++i)
      if (i == 0 || group_of_[i] != group_of_[i - 1]) firsts_.push_back(static_cast<std::uint32_t>(i));
    shuffle(random, firsts_, stop);
    std::size_t place = 0;
    for (std::size_t i : firsts_)
      for (const RowId group = group_of_[i]; i < rows_ && group_of_[i] == group; ++i)
        order[place++] = static_cast<ExampleId>(i);
  }

  Visit visit_;
  std::uint64_t seed_;
  std::size_t rows_, together_;
  CounterRandom random_{0, Stream::visit, 0};
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};
  static constexpr std::size_t kFewestAhead = 1 << 14;  // rows: a thread would cost more than it saves
  std::uint64_t epoch_ = kNone;
  std::span<const RowId> group_of_;
  std::vector<ExampleId> permutation_;
  std::unique_ptr<WindowOrder> windows_;  // null: the rows are in memory
  std::vector<std::uint32_t> firsts_;     // the first row of each group, in the order that is being made
  std::uint64_t ahead_to_ = 0;
  std::uint64_t next_epoch_ = kNone;
  std::vector<ExampleId> next_;  // its order
  Maker maker_ = Maker::thread;
  std::jthread ahead_;  // makes it, or
  struct Unfinished {
    Unfinished(const CounterRandom& of_epoch, std::size_t rows)
        : random(of_epoch), words(random, 0), left(rows) {}
    Unfinished(const Unfinished&) = delete;
    Unfinished& operator=(const Unfinished&) = delete;
    CounterRandom random;
    RandomWords words;       // of `random`
    std::size_t filled = 0;  // rows that are in their places before the shuffle
    std::size_t left;        // to shuffle
  };
  std::optional<Unfinished> unfinished_;  // make_some() does
};

}  // namespace truemax
