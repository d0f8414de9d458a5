// Batches of steps over whole blocks, on one thread or several. Which of them takes a step never shows in the
// result (train/turns.hpp), unless the run was allowed to be lock-free: then steps do not wait for each
// other, and one may read weights that another is writing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "core/parallel.hpp"
#include "core/team.hpp"
#include "data/dataset.hpp"
#include "draw/draw.hpp"
#include "rule/rule.hpp"
#include "train/block_steps.hpp"
#include "train/epoch.hpp"
#include "train/turns.hpp"
#include "train/visit_order.hpp"

namespace truemax {

// Threads that steps of this draw can keep busy in their order: a step that has to wait for another one's
// blocks might as well be taken by that one's thread.
std::size_t useful_threads(const Dataset& data, const TrainOptions& options, const Draw& draw);

template <class R>
class BlockLoop {
 public:
  // A step that float32 cannot hold, in the general way: its number in the epoch, its row and the bound on
  // the weights before it. Returns what no number in memory has grown by more than; nothing where the step
  // could leave the range of the weights: it is not taken then.
  using General = std::function<std::optional<double>(std::uint64_t step, RowId row, double bound)>;

  BlockLoop(const Dataset& data, const TrainOptions& options, const Draw& draw, std::size_t most_steps)
      : draw_(draw), lock_free_(options.lock_free) {
    constexpr std::uint64_t kNear = std::uint64_t{2} << 20;
    far_ = Weights::bytes_needed(data.classes->size(), data.space->features) > kNear;
    // Members wait for each other: more of them than cores would wait for the system.
    const std::size_t threads =
        std::min(available_threads(),
                 options.lock_free ? options.thread_count() : useful_threads(data, options, draw));
    if (threads > 1) team_ = std::make_unique<Team>(threads);
    const std::size_t members = team_ ? team_->size() : 1;
    const std::size_t blocks = (data.classes->size() + kLanes - 1) / kLanes;
    progress_ = std::make_unique<Progress>(members);
    for (std::size_t m = 0; m < members; ++m)
      lanes_.push_back(
          std::make_unique<Lane>(most_steps, draw.most_blocks(), m, members, lock_free_ ? 0 : blocks));
  }

  // Steps first ... first + count - 1 of the epoch, from a bound on the weights of at most kBatchWeightHigh.
  // Adds their growth to it in the order of the steps: sums of doubles depend on that.
  void run(const Dataset& data, TrainState& state, const VisitOrder& order, const CounterRandom& random,
           std::uint64_t first, std::size_t count, const R& rule, BlockSteps::Terms terms,
           const General& general) {
    // What a step may do depends on the bound at the beginning of its batch and on itself, so that it does
    // not depend on what other threads have done since.
    terms.largest_weight = state.largest_weight;
    const Batch batch{data, state, order, random, first, count, rule, terms, general};
    if (lanes_.size() == 1) {
      draw_steps(batch, *lanes_[0], 0, count);
      take_steps(batch, *lanes_[0], 0, count, 1, Order::one_thread);
      state.largest_weight = bound_before(batch, count, 1);
    } else if (lock_free_) {
      run_lock_free(batch);
    } else {
      run_in_order(batch);
    }
  }

 private:
  // Steps between asking for a row, and for its lines of W, and using them.
  static constexpr std::size_t kRowsAhead = 8, kLinesAhead = 4;

  struct Batch {
    const Dataset& data;
    TrainState& state;
    const VisitOrder& order;
    const CounterRandom& random;
    std::uint64_t first;
    std::size_t count;
    const R& rule;
    const BlockSteps::Terms& terms;
    const General& general;
  };

  // What one member writes; nothing of it is read by another while steps are taken.
  struct Lane {
    Lane(std::size_t most_steps, std::size_t most_blocks, std::size_t member, std::size_t members,
         std::size_t blocks)
        : rows(most_steps),
          labels(most_steps),
          views(most_steps),
          growth(most_steps),
          turns(member, members, blocks) {
      drawn.shape(most_steps, most_blocks);
      steps.reserve(most_blocks);
      turns.reserve(most_steps, most_blocks);
    }
    std::size_t from = 0;  // step of the batch that stands at place 0 of what follows
    std::vector<RowId> rows;
    std::vector<ClassId> labels;
    std::vector<RowView> views;
    BlockBuffer drawn;
    std::vector<double> growth;
    BlockSteps steps;
    Turns turns;

    std::span<const std::uint32_t> blocks(std::size_t i) const {
      return {&drawn.blocks[i * drawn.capacity], drawn.count[i]};
    }
  };

  // Each member draws all steps and plans for itself: that costs less than fetching what others wrote.
  void run_in_order(const Batch& batch) {
    const std::size_t members = lanes_.size();
    progress_->start();
    const auto work = [&](std::size_t member) {
      Lane& lane = *lanes_[member];
      try {
        draw_steps(batch, lane, 0, batch.count);
        lane.turns.start();
        for (std::size_t t = 0; t < batch.count; ++t) lane.turns.add(lane.rows[t], lane.blocks(t));
        take_steps(batch, lane, member, batch.count, members, Order::turns);
      } catch (...) {
        progress_->give_up(member);
        throw;
      }
    };
    team_->run(std::ref(work));  // a std::function of its own would allocate in every batch
    batch.state.largest_weight = bound_before(batch, batch.count, members);
  }

  // The bound on the weights before step t of a batch whose step i is member i % members's. All earlier steps
  // are done.
  double bound_before(const Batch& batch, std::size_t t, std::size_t members) const {
    double bound = batch.terms.largest_weight;
    for (std::size_t i = 0; i < t; ++i) bound += lanes_[i % members]->growth[i];
    return bound;
  }

  void run_lock_free(const Batch& batch) {
    const std::size_t share = (batch.count + lanes_.size() - 1) / lanes_.size();
    free_bound_ = batch.terms.largest_weight + kPairWeightHigh / 2;  // what the steps in float32 may add
    const auto work = [&](std::size_t member) {
      const std::size_t from = std::min(batch.count, member * share);
      const std::size_t size = std::min(batch.count, from + share) - from;
      if (size == 0) return;
      draw_steps(batch, *lanes_[member], from, size);
      take_steps(batch, *lanes_[member], 0, size, 1, Order::none);
    };
    team_->run(std::ref(work));
    for (std::size_t t = 0; t < batch.count; ++t)
      batch.state.largest_weight += lanes_[t / share]->growth[t % share];
  }

  void draw_steps(const Batch& batch, Lane& lane, std::size_t from, std::size_t size) const {
    lane.from = from;
    batch.order.fill(batch.first + from, {lane.rows.data(), size});
    for (std::size_t i = 0; i < size; ++i) {
      lane.labels[i] = batch.data.label[lane.rows[i]];
      __builtin_prefetch(&batch.data.rows.store().begin[batch.data.row_of(lane.rows[i])]);
    }
    draw_.fill_blocks(batch.random, batch.first + from, size, {lane.labels.data(), size}, lane.drawn);
    for (std::size_t i = 0; i < size; ++i) lane.views[i] = batch.data.x(lane.rows[i]);
  }

  enum class Order { one_thread, turns, none };

  // Places start, start + stride, ... below `end` of a lane.
  void take_steps(const Batch& batch, Lane& lane, std::size_t start, std::size_t end, std::size_t stride,
                  Order order) {
    for (std::size_t i = start, n = 0; n < kRowsAhead && i < end; i += stride, ++n)
      prefetch_row(lane.views[i], batch.state, lane.rows[i]);
    for (std::size_t i = start; i < end; i += stride) {
      if (const std::size_t p = i + kRowsAhead * stride; p < end)
        prefetch_row(lane.views[p], batch.state, lane.rows[p]);
      LinesAhead ahead;
      if (const std::size_t p = i + kLinesAhead * stride; far_ && p < end)
        ahead = LinesAhead(batch.state.weights, lane.views[p], lane.blocks(p));
      const BlockStep step{.row = lane.rows[i],
                           .x = lane.views[i],
                           .label = lane.labels[i],
                           .row_weight = batch.data.example_weight(lane.rows[i]),
                           .blocks = lane.blocks(i),
                           .weights = &lane.drawn.weights[i * lane.drawn.capacity]};
      if (order == Order::turns) lane.turns.wait(i, *progress_);
      const BlockSteps::Outcome outcome = lane.steps.run(step, batch.state, batch.rule, batch.terms, ahead);
      lane.growth[i] = outcome.taken ? outcome.growth : take_declined(batch, lane, i, order);
      if (order == Order::turns) progress_->done(i);
    }
  }

  // Whether the general way takes a step depends on the bound before it, so it waits for all earlier steps of
  // the batch, whose growth makes that bound: else the answer would depend on which thread was faster. Later
  // steps may be under way, so W as a whole cannot be looked at here. Returns the growth.
  double take_declined(const Batch& batch, const Lane& lane, std::size_t i, Order order) {
    const std::size_t members = order == Order::turns ? lanes_.size() : 1;
    if (order == Order::turns)
      for (std::size_t t = i > members ? i - members : 0; t < i; ++t) progress_->wait_for(t);
    const std::lock_guard lock(general_);
    const double bound = order == Order::none ? free_bound_ : bound_before(batch, i, members);
    const double growth = batch.general(batch.first + lane.from + i, lane.rows[i], bound).value_or(0.0);
    if (order == Order::none) free_bound_ += growth;
    return growth;
  }

  const Draw& draw_;
  bool lock_free_;
  bool far_ = false;  // W does not fit into the nearest caches: its lines are asked for some steps ahead
  std::unique_ptr<Team> team_;
  std::unique_ptr<Progress> progress_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::mutex general_;     // there is one set of buffers for declined steps
  double free_bound_ = 0;  // lock-free: on the weights, with the declined steps so far
};

}  // namespace truemax
