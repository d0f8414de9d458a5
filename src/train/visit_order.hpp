// Which row each step of an epoch visits; a pure function of (seed, epoch, step).
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/distinct.hpp"
#include "core/random.hpp"
#include "core/types.hpp"
#include "train/options.hpp"

namespace truemax {

class VisitOrder {
 public:
  // `together`: rows per step, all different.
  VisitOrder(Visit visit, std::uint64_t seed, std::size_t rows, std::size_t together = 1)
      : visit_(visit), seed_(seed), rows_(rows), together_(together) {}

  void start_epoch(std::uint64_t epoch) {
    if (epoch == epoch_) return;  // resuming the same epoch
    epoch_ = epoch;
    random_ = CounterRandom(seed_, Stream::visit, epoch);
    if (visit_ != Visit::shuffle) return;
    // Fisher-Yates from the identity, so that an epoch does not depend on earlier ones.
    permutation_.resize(rows_);
    for (std::size_t i = 0; i < rows_; ++i) permutation_[i] = static_cast<ExampleId>(i);
    RandomWords words(random_, 0);
    for (std::size_t left = rows_; left > 1; --left)
      std::swap(permutation_[left - 1], permutation_[uniform_below(words.next(), left)]);
  }

  // The rows at positions first ... first + out.size() - 1 of the epoch; a step begins at `first`.
  void fill(std::uint64_t first, std::span<ExampleId> out) const {
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
  Visit visit_;
  std::uint64_t seed_;
  std::size_t rows_, together_;
  CounterRandom random_{0, Stream::visit, 0};
  std::uint64_t epoch_ = ~std::uint64_t{0};
  std::vector<ExampleId> permutation_;
};

}  // namespace truemax
