// The order of an epoch over a stream: blocks are shuffled, consecutive ones form windows, and rows are
// shuffled within a window. A pure function of (seed, epoch, position), so a run can be resumed anywhere.
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

class WindowOrder {
 public:
  // `examples_begin`: the first example of each block, and the number of examples. A window has `blocks`
  // blocks, more if they have fewer than `together` examples.
  WindowOrder(Visit visit, std::uint64_t seed, std::vector<std::uint32_t> examples_begin, std::size_t blocks,
              std::size_t together)
      : visit_(visit),
        seed_(seed),
        begin_(std::move(examples_begin)),
        blocks_(std::max<std::size_t>(1, blocks)),
        together_(together) {}

  void start_epoch(std::uint64_t epoch) {
    epoch_ = epoch;
    order_.clear();
    for (std::uint32_t b = 0; b + 1 < begin_.size(); ++b)
      if (begin_[b + 1] > begin_[b]) order_.push_back(b);
    if (visit_ != Visit::file) shuffle(order_, 0);
    cut_windows();
    for (List& list : lists_) list.window = kNoWindow;
  }

  std::size_t windows() const { return windows_.size() - 1; }
  std::size_t window_at(std::uint64_t position) const {
    const auto after = std::upper_bound(windows_.begin(), windows_.end(), position,
                                        [](std::uint64_t p, const Window& w) { return p < w.position; });
    return static_cast<std::size_t>(after - windows_.begin()) - 1;
  }
  std::uint64_t end_of(std::size_t window) const { return windows_[window + 1].position; }
  // The blocks of a window; none after the last.
  std::span<const std::uint32_t> blocks_of(std::size_t window) const {
    if (window >= windows()) return {};
    return std::span(order_).subspan(windows_[window].first,
                                     windows_[window + 1].first - windows_[window].first);
  }

  // Makes fill() possible for positions of this window and the next.
  void enter(std::size_t window) {
    make_list(window);
    if (window + 1 < windows() && visit_ != Visit::random) make_list(window + 1);
  }

  // As VisitOrder::fill, from `first` in the window that was entered, to the end of the next at most.
  void fill(std::uint64_t first, std::span<ExampleId> out) const {
    const std::size_t window = window_at(first);
    const std::vector<ExampleId>& here = list_of(window);
    if (visit_ == Visit::random) return draw(here, first, out);
    const std::uint64_t from = windows_[window].position, end = end_of(window);
    for (std::size_t t = 0; t < out.size(); ++t)
      out[t] = first + t < end ? here[first + t - from] : list_of(window + 1)[first + t - end];
  }

  // Of the lists of two windows.
  static std::uint64_t bytes(std::uint64_t examples, std::size_t blocks, std::size_t window_blocks) {
    const double share =
        std::min(1.0, 2.0 * static_cast<double>(window_blocks) / static_cast<double>(blocks));
    return static_cast<std::uint64_t>(share * static_cast<double>(examples) * sizeof(ExampleId)) +
           blocks * 4 * sizeof(std::uint64_t);
  }

 private:
  static constexpr std::size_t kNoWindow = ~std::size_t{0};
  struct Window {
    std::uint64_t position;  // of its first example in the epoch
    std::size_t first;       // of its blocks in order_
  };
  struct List {
    std::size_t window = kNoWindow;
    std::vector<ExampleId> examples;
  };

  std::uint64_t examples_of(std::uint32_t block) const { return begin_[block + 1] - begin_[block]; }

  // Ends with a sentinel. A last window with too few examples is joined to the one before.
  void cut_windows() {
    windows_.clear();
    std::uint64_t position = 0, here = together_;
    std::size_t blocks = blocks_;
    for (std::size_t i = 0; i < order_.size(); ++i) {
      if (blocks >= blocks_ && here >= together_) {
        windows_.push_back({position, i});
        blocks = 0, here = 0;
      }
      ++blocks;
      here += examples_of(order_[i]);
      position += examples_of(order_[i]);
    }
    if (windows_.size() > 1 && here < together_) windows_.pop_back();
    windows_.push_back({position, order_.size()});
  }

  // Each shuffle of an epoch has numbers of its own.
  CounterRandom random(std::uint64_t number) const {
    return CounterRandom(seed_, Stream::window, epoch_ ^ (number << 32));
  }
  template <class T>
  void shuffle(std::vector<T>& items, std::uint64_t number) const {
    const CounterRandom numbers = random(number);
    RandomWords words(numbers, 0);
    for (std::size_t left = items.size(); left > 1; --left)
      std::swap(items[left - 1], items[uniform_below(words.next(), left)]);
  }

  List& slot(std::size_t window) { return lists_[window % 2]; }
  const std::vector<ExampleId>& list_of(std::size_t window) const { return lists_[window % 2].examples; }

  void make_list(std::size_t window) {
    List& list = slot(window);
    if (list.window == window) return;
    list.window = window;
    list.examples.clear();
    for (const std::uint32_t b : blocks_of(window))
      for (std::uint32_t i = begin_[b]; i < begin_[b + 1]; ++i) list.examples.push_back(ExampleId{i});
    if (visit_ == Visit::shuffle) shuffle(list.examples, window + 1);
  }

  // With replacement, but within a step all different.
  void draw(const std::vector<ExampleId>& from, std::uint64_t first, std::span<ExampleId> out) const {
    const CounterRandom numbers(seed_, Stream::visit, epoch_);
    RandomWords words(numbers, first);
    for (std::size_t t = 0; t < out.size(); t += together_) {
      const std::span<ExampleId> step = out.subspan(t, std::min(together_, out.size() - t));
      if (together_ == 1)
        step[0] = ExampleId{static_cast<std::uint32_t>(uniform_below(words.next(), from.size()))};
      else
        draw_distinct_again<ExampleId>(words, from.size(), step);
      for (ExampleId& i : step) i = from[number_of(i)];
    }
  }

  Visit visit_;
  std::uint64_t seed_, epoch_ = 0;
  std::vector<std::uint32_t> begin_, order_;
  std::size_t blocks_, together_;
  std::vector<Window> windows_{{0, 0}};
  List lists_[2];  // of windows of even and odd number
};

}  // namespace truemax
