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
#include <span>
#include <vector>

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
  // A step that float32 cannot hold, in the general way: its number in the epoch and its row.
  using General = std::function<void(std::uint64_t step, RowId row)>;

  BlockLoop(const Dataset& data, const TrainOptions& options, const Draw& draw, std::size_t most_steps)
      : draw_(draw), rows_(most_steps), labels_(most_steps), views_(most_steps), growth_(most_steps) {
    constexpr std::uint64_t kNear = std::uint64_t{2} << 20;
    far_ = Weights::bytes_needed(data.classes->size(), data.space->features) > kNear;
    const std::size_t threads =
        options.lock_free ? options.thread_count() : useful_threads(data, options, draw);
    if (threads > 1) team_ = std::make_unique<Team>(threads);
    members_ = team_ ? team_->size() : 1;
    lanes_.resize(members_);
    ordered_ = members_ > 1 && !options.lock_free;
    if (ordered_) turns_ = std::make_unique<Turns>(members_, (data.classes->size() + kLanes - 1) / kLanes);
  }

  // Steps first ... first + count - 1 of the epoch.
  void run(const Dataset& data, TrainState& state, const VisitOrder& order, const CounterRandom& random,
           std::uint64_t first, std::size_t count, const R& rule, BlockSteps::Terms terms,
           const General& general) {
    // What a step may do depends on the bound at the beginning of its batch and on itself, so that it does
    // not depend on what other threads have done since.
    terms.largest_weight = state.largest_weight;
    const std::size_t members = state.largest_weight > kBatchWeightHigh ? 1 : members_;
    const bool ordered = ordered_ && members > 1;
    const std::size_t chunk = (count + members - 1) / members;
    const auto blocks_of = [&](std::size_t t) {
      const BlockBuffer& drawn = lanes_[t / chunk].drawn;
      return std::span<const std::uint32_t>(&drawn.blocks[t % chunk * drawn.capacity],
                                            drawn.count[t % chunk]);
    };
    const auto draw_chunk = [&](std::size_t member) {
      const std::size_t from = std::min(count, member * chunk), size = std::min(count, from + chunk) - from;
      if (size > 0) draw_steps(data, order, random, first, from, size, lanes_[member].drawn);
    };
    const auto take_steps = [&](std::size_t member) {
      BlockSteps& steps = lanes_[member].steps;
      for (std::size_t t = member, i = 0; i < kRowsAhead && t < count; t += members, ++i)
        prefetch_row(views_[t], state, rows_[t]);
      for (std::size_t t = member; t < count; t += members) {
        if (const std::size_t p = t + kRowsAhead * members; p < count)
          prefetch_row(views_[p], state, rows_[p]);
        LinesAhead ahead;
        if (const std::size_t p = t + kLinesAhead * members; far_ && p < count)
          ahead = LinesAhead(state.weights, views_[p], blocks_of(p));
        const BlockBuffer& drawn = lanes_[t / chunk].drawn;
        const BlockStep step{.row = rows_[t],
                             .x = views_[t],
                             .label = labels_[t],
                             .row_weight = data.example_weight(rows_[t]),
                             .blocks = blocks_of(t),
                             .weights = &drawn.weights[t % chunk * drawn.capacity]};
        if (ordered) turns_->wait(t);
        const BlockSteps::Outcome outcome = steps.run(step, state, rule, terms, ahead);
        growth_[t] = outcome.growth;
        if (!outcome.taken) {
          const std::lock_guard lock(general_);
          general(first + t, rows_[t]);
        }
        if (ordered) turns_->done(t);
      }
    };
    if (members == 1) {
      draw_chunk(0);
      take_steps(0);
    } else {
      team_->run(draw_chunk);
      if (ordered) plan(count, blocks_of);
      team_->run([&](std::size_t member) {
        try {
          take_steps(member);
        } catch (...) {
          if (ordered) turns_->give_up(member);
          throw;
        }
      });
    }
    for (std::size_t t = 0; t < count; ++t) state.largest_weight += growth_[t];
    state.step += count;
  }

 private:
  // Steps between asking for a row, and for its lines of W, and using them.
  static constexpr std::size_t kRowsAhead = 8, kLinesAhead = 4;

  struct alignas(64) Lane {
    BlockSteps steps;
    BlockBuffer drawn;  // of a share of the steps
  };

  void draw_steps(const Dataset& data, const VisitOrder& order, const CounterRandom& random,
                  std::uint64_t first, std::size_t from, std::size_t size, BlockBuffer& drawn) {
    order.fill(first + from, {&rows_[from], size});
    for (std::size_t t = from; t < from + size; ++t) {
      labels_[t] = data.label[rows_[t]];
      __builtin_prefetch(&data.rows.begin[data.row_of(rows_[t])]);
    }
    draw_.fill_blocks(random, first + from, size, {&labels_[from], size}, drawn);
    for (std::size_t t = from; t < from + size; ++t) views_[t] = data.x(rows_[t]);
  }

  template <class BlocksOf>
  void plan(std::size_t count, const BlocksOf& blocks_of) {
    turns_->start();
    for (std::size_t t = 0; t < count; ++t) turns_->add(rows_[t], blocks_of(t));
  }

  const Draw& draw_;
  std::vector<RowId> rows_;
  std::vector<ClassId> labels_;
  std::vector<RowView> views_;
  std::vector<double> growth_;
  bool far_ = false;  // W does not fit into the nearest caches: its lines are asked for some steps ahead
  std::unique_ptr<Team> team_;
  std::size_t members_ = 1;
  std::vector<Lane> lanes_;
  bool ordered_ = false;
  std::unique_ptr<Turns> turns_;
  std::mutex general_;
};

}  // namespace truemax
