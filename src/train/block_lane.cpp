#include "train/block_lane.hpp"

#include <algorithm>
#include <functional>

#include "core/parallel.hpp"
#include "train/problem.hpp"

namespace truemax {

std::size_t useful_threads(const DataView& data, const TrainOptions& options, const Draw& draw) {
  const std::size_t threads = options.thread_count();
  if (threads == 1 || draw.complete()) return 1;
  // The mean number of blocks that two steps have in common.
  const std::vector<double> mass = label_mass(data);
  double total = 0, common = 0;
  for (const double m : mass) total += m;
  for (std::size_t k = 0; k < mass.size(); k += kLanes) {
    double label = 0;
    for (std::size_t i = k; i < std::min(mass.size(), k + kLanes); ++i) label += mass[i] / total;
    const double drawn = draw.inclusion(static_cast<ClassId>(k));
    const double there = label + (1 - label) * drawn;
    common += there * there;
  }
  constexpr double kMost = 0.3;  // largest share of steps that may wait for another
  return std::clamp<std::size_t>(1 + static_cast<std::size_t>(kMost / common), 1, threads);
}

bool BlockLane::takes(const LaneSetup& setup) {
  return setup.options.rows_per_step == 1 && setup.draw != nullptr && setup.draw->whole_blocks() &&
         setup.rule.takes_blocks();
}

BlockLane::Member::Member(const LaneSetup& setup, std::size_t number, std::size_t members, std::size_t blocks)
    : examples(setup.most_steps),
      labels(setup.most_steps),
      x(setup.most_steps),
      growth(setup.most_steps),
      stepper(setup, setup.draw->most_blocks()),
      turns(number, members, blocks) {
  drawn.shape(setup.most_steps, setup.draw->most_blocks());
  turns.reserve(setup.most_steps, setup.draw->most_blocks());
}

BlockStep BlockLane::Member::step(std::size_t i, const DataView& data) const {
  return {.example = examples[i],
          .x = x[i],
          .label = labels[i],
          .row_weight = data.weight(examples[i]),
          .blocks = blocks(i),
          .weights = &drawn.weights[i * drawn.capacity]};
}

BlockLane::BlockLane(const LaneSetup& setup) : setup_(setup), general_(setup) {
  constexpr std::uint64_t kNear = std::uint64_t{2} << 20;
  const std::size_t classes = setup.data.classes->size();
  far_ = Weights::bytes_needed(classes, setup.data.space->features) > kNear;
  // Members wait for each other: with more members than cores they would wait for the scheduler.
  const bool lock_free = setup.options.lock_free;
  const std::size_t threads =
      std::min(available_threads(), lock_free ? setup.options.thread_count()
                                              : useful_threads(setup.data, setup.options, *setup.draw));
  if (threads > 1) team_ = std::make_unique<Team>(threads);
  const std::size_t members = team_ ? team_->size() : 1, blocks = (classes + kLanes - 1) / kLanes;
  progress_ = std::make_unique<Progress>(members);
  for (std::size_t m = 0; m < members; ++m)
    members_.push_back(std::make_unique<Member>(setup, m, members, lock_free ? 0 : blocks));
}

void BlockLane::take(const Batch& batch, RunState& state) {
  // Beyond this every step would be declined. One by one, they can recompute the bound from all of W.
  if (!float_batch_holds(state.largest_weight)) return general_.take(batch, state);
  // Whether a step is taken depends only on itself and on the bound at the start of the batch, not on what
  // other threads have done since.
  const Work work{batch, {batch.step, batch.decayed, state.largest_weight}, state};
  refused_.reset();
  if (members_.size() == 1)
    run_alone(work);
  else if (setup_.options.lock_free)
    run_lock_free(work);
  else
    run_in_order(work);
  // Only at the end of the batch, when W no longer depends on which threads were faster.
  if (refused_) setup_.guard.diverged(state, refused_->step, refused_->update);
  state.step += batch.count;
}

void BlockLane::run_alone(const Work& work) {
  prepare(work, *members_[0], 0, work.batch.count);
  take_steps(work, *members_[0], 0, work.batch.count, 1, Order::one_thread);
  work.state.largest_weight = bound_before(work, work.batch.count, 1);
}

// Each member draws and plans all steps itself, which is cheaper than reading what others wrote.
void BlockLane::run_in_order(const Work& work) {
  const std::size_t members = members_.size(), count = work.batch.count;
  progress_->start();
  const auto of_member = [&](std::size_t number) {
    Member& member = *members_[number];
    try {
      prepare(work, member, 0, count);
      member.turns.start();
      for (std::size_t t = 0; t < count; ++t) member.turns.add(member.examples[t], member.blocks(t));
      take_steps(work, member, number, count, members, Order::turns);
    } catch (...) {
      progress_->give_up(number);
      throw;
    }
  };
  team_->run(std::ref(of_member));  // a copied lambda would allocate in every batch
  work.state.largest_weight = bound_before(work, count, members);
}

void BlockLane::run_lock_free(const Work& work) {
  const std::size_t count = work.batch.count, share = (count + members_.size() - 1) / members_.size();
  free_bound_ = work.terms.largest_weight + kMostBatchGrowth;  // the most that float32 steps can add
  const auto of_member = [&](std::size_t number) {
    const std::size_t from = std::min(count, number * share);
    const std::size_t size = std::min(count, from + share) - from;
    if (size == 0) return;
    prepare(work, *members_[number], from, size);
    take_steps(work, *members_[number], 0, size, 1, Order::none);
  };
  team_->run(std::ref(of_member));
  for (std::size_t t = 0; t < count; ++t) work.state.largest_weight += members_[t / share]->growth[t % share];
}

// The bound on the weights before step t of a batch; step i belongs to member i % members, and all earlier
// steps are done. Summed in the order of the steps, because rounding depends on it.
double BlockLane::bound_before(const Work& work, std::size_t t, std::size_t members) const {
  double bound = work.terms.largest_weight;
  for (std::size_t i = 0; i < t; ++i) bound += members_[i % members]->growth[i];
  return bound;
}

void BlockLane::prepare(const Work& work, Member& member, std::size_t from, std::size_t size) const {
  const Batch& batch = work.batch;
  member.from = from;
  batch.order.fill(batch.first + from, {member.examples.data(), size});
  for (std::size_t i = 0; i < size; ++i) {
    member.labels[i] = setup_.data.label(member.examples[i]);
    setup_.data.prefetch(member.examples[i]);
  }
  setup_.draw->fill_blocks(batch.random, batch.first + from, size, {member.labels.data(), size},
                           {member.examples.data(), size}, member.drawn);
  for (std::size_t i = 0; i < size; ++i) member.x[i] = setup_.data.x(member.examples[i]);
}

// Takes a member's steps start, start + stride, ... below `end`.
void BlockLane::take_steps(const Work& work, Member& member, std::size_t start, std::size_t end,
                           std::size_t stride, Order order) {
  // How many steps ahead a row, and its lines of W, are prefetched.
  constexpr std::size_t kRowsAhead = 8, kLinesAhead = 4;
  RunState& state = work.state;
  for (std::size_t i = start, n = 0; n < kRowsAhead && i < end; i += stride, ++n)
    prefetch_example(member.x[i], state, member.examples[i]);
  for (std::size_t i = start; i < end; i += stride) {
    if (const std::size_t p = i + kRowsAhead * stride; p < end)
      prefetch_example(member.x[p], state, member.examples[p]);
    LinesAhead ahead;
    if (const std::size_t p = i + kLinesAhead * stride; far_ && p < end)
      ahead = LinesAhead(state.weights, member.x[p], member.blocks(p));
    const BlockStep step = member.step(i, setup_.data);
    if (order == Order::turns) member.turns.wait(i, *progress_);
    const BlockStepper::Outcome outcome = member.stepper.run(step, work.terms, state, ahead);
    member.growth[i] = outcome.taken ? outcome.growth : take_declined(work, member, i, order);
    if (order == Order::turns) progress_->done(i);
  }
}

// Whether the general lane takes a step depends on the bound before it. So it waits for all earlier steps of
// the batch, whose growth is part of that bound; otherwise the result would depend on which thread was
// faster. Later steps may be running, so the bound cannot be recomputed from all of W here. Returns the
// growth.
double BlockLane::take_declined(const Work& work, const Member& member, std::size_t i, Order order) {
  const std::size_t members = order == Order::turns ? members_.size() : 1;
  if (order == Order::turns)
    for (std::size_t t = i > members ? i - members : 0; t < i; ++t) progress_->wait_for(t);
  const std::lock_guard lock(declined_);
  const double bound = order == Order::none ? free_bound_ : bound_before(work, i, members);
  const double growth = take_generally(work, member.from + i, bound);
  if (order == Order::none) free_bound_ += growth;
  return growth;
}

// Step t of the batch in double; not taken if it could overflow the weights.
double BlockLane::take_generally(const Work& work, std::size_t t, double bound) {
  const Batch one = work.batch.one(t);
  general_.prepare(one);
  general_.score(work.state, one, 0);
  const Growth growth = general_.solve(work.state);
  if (may_grow(bound, growth)) {
    general_.apply(work.state);
    return growth.memory;
  }
  if (!refused_ || one.first < refused_->step) refused_ = {one.first, growth.update};
  return 0;
}

}  // namespace truemax
