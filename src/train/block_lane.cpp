#include "train/block_lane.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "train/commuting.hpp"
#include "train/feature_shares.hpp"
#include "train/step_inputs.hpp"
#include "train/steps_beside.hpp"

namespace truemax {
namespace {
constexpr std::size_t kFewestFreeSteps = 16;   // of a thread: with fewer, threads would only wait
constexpr std::size_t kMostLinesApart = 1024;  // of a thread, in the cache of its core
static_assert(kMostLinesApart < SomeFeatures::kNone);
constexpr std::size_t kMostStepsApart = 64;  // of a thread, before it adds them up
constexpr double kMostFreePieces = 128;      // of a lock-free batch
// How many steps ahead a row, and its lines of W, are prefetched.
constexpr std::size_t kRowsAhead = 8, kLinesAhead = 4;
}  // namespace

std::size_t useful_threads(const DataView& data, const Recipe& recipe, const Draw& draw) {
  const std::size_t threads = recipe.thread_count();
  if (threads == 1 || draw.complete()) return 1;
  double common = 0;  // the mean number of blocks that two steps have in common
  for (const double load : block_loads(data, &draw)) common += load * load;
  constexpr double kMost = 0.3;  // largest share of steps that may wait for another
  return std::clamp<std::size_t>(1 + static_cast<std::size_t>(kMost / common), 1, threads);
}

BlockLane::InDouble::InDouble(const LaneSetup& of_run)
    : rule(make_rule(of_run.recipe.method, of_run.recipe.rule, of_run.problem)),
      setup{of_run.data, of_run.plan, of_run.problem, of_run.ridge, of_run.guard,
            *rule,       of_run.draw, of_run.ranks,   of_run.share},
      general(setup) {
  rule->reserve(of_run.plan.shape);
}

BlockLane::Piece::Piece(const LaneSetup& setup)
    : examples(setup.plan.steps_ahead), labels(setup.plan.steps_ahead), x(setup.plan.steps_ahead) {
  drawn.shape(setup.plan.steps_ahead, setup.draw->most_blocks());
  drawn.words.reserve(setup.plan.steps_ahead * setup.draw->words());
}

BlockStep BlockLane::Piece::step(std::size_t i, const DataView& data, bool apart) const {
  return {.example = examples[i],
          .x = x[i],
          .label = labels[i],
          .row_weight = data.weight(examples[i]),
          .blocks = blocks(i),
          .weights = &drawn.weights[i * drawn.capacity],
          .split = apart ? split.row(i) : SplitRow{}};
}

// Scales and intercepts are few, and prefetched at once.
LinesAhead BlockLane::Piece::lines(std::size_t i, const Weights& w) const {
  for (const std::uint32_t b : blocks(i)) w.prefetch_scales(b);
  return {w, x[i], blocks(i)};
}

BlockLane::Member::Member(const LaneSetup& setup, std::size_t number, std::size_t members, std::size_t steps,
                          std::size_t blocks)
    : growth(steps), stepper(setup, setup.draw->most_blocks()), turns(number, members, blocks) {
  turns.reserve(steps, setup.draw->most_blocks());
  if (!setup.rule.takes_blocks()) in_double = std::make_unique<InDouble>(setup);
}

BlockLane::BlockLane(const LaneSetup& setup, std::size_t most_threads)
    : setup_(setup),
      general_(setup),
      rows_recur_(examples_recur(setup)),
      piece_steps_(setup.plan.steps_ahead),
      free_steps_(kMostStepsApart) {
  const std::size_t classes = setup.data.classes->size();
  far_ = setup.weights_are_far();
  const bool lock_free = setup.recipe.lock_free;
  const std::size_t threads =
      std::min(most_threads, lock_free ? setup.recipe.thread_count()
                                       : useful_threads(setup.data, setup.recipe, *setup.draw));
  // Many threads take a batch of 128 steps in the time in which they find each other. So batches are longer,
  // but no longer than a few milliseconds, for clocks and Ctrl-C. In order, their length must not depend on
  // the number of threads; lock-free threads need not meet so often, unless one of them takes all steps.
  const bool all_work =
      lock_free && steps_without_ridge(setup.recipe.step) >= static_cast<double>(kFewestFreeSteps * threads);
  const double lines =
      static_cast<double>(all_work ? (1 << 16) * std::max<std::size_t>(threads, 2) : 1 << 17);
  const double lines_of_step =
      std::max(setup.data.nonzeros_per_row(), 1.0) * static_cast<double>(setup.draw->most_blocks());
  const double pieces = lines / (lines_of_step * static_cast<double>(piece_steps_));
  most_steps_ =
      piece_steps_ * static_cast<std::size_t>(std::clamp(pieces, 1.0, lock_free ? kMostFreePieces : 16.0));
  if (threads > 1) team_ = std::make_unique<Team>(threads);
  const std::size_t members = team_ ? team_->size() : 1, blocks = (classes + kLanes - 1) / kLanes;
  progress_ = std::make_unique<Progress>(members);
  const bool in_turns = members == 1 || !lock_free;
  for (std::size_t m = 0; m < members; ++m)
    members_.push_back(
        std::make_unique<Member>(setup, m, members, in_turns ? most_steps_ : 0, in_turns ? blocks : 0));
  if (!in_turns) {
    for (const auto& member : members_) {
      member->declined.reserve(most_steps_);
      if (!setup.ridge.on()) continue;
      member->stepper.allow_delays(most_steps_, blocks, members);
      member->shrinks.assign((blocks + members - 1) / members, 1.0);
    }
    keep_heads_apart();
    if (setup.ridge.on()) {
      meeting_ = std::make_unique<Meeting>(members);
      members_[0]->growth.resize(most_steps_);  // if it takes a batch alone
    }
  }
  const std::size_t held = members == 1 ? 1 : lock_free ? members : most_steps_ / piece_steps_;
  for (std::size_t p = 0; p < held; ++p) pieces_.push_back(std::make_unique<Piece>(setup));
  ready_ = std::vector<Ready>(held);
}

// Lock-free threads would take the lines of the head from each other in every step. If steps beside each
// other do not overshoot, each keeps what it adds to them apart for a while.
void BlockLane::keep_heads_apart() {
  constexpr double kFewestSteps = 8, kOften = 1.0 / 64;  // of the rows: threads would often meet there
  const DataView& data = setup_.data;
  if (!setup_.rule.takes_blocks() || data.streamed() != nullptr || setup_.draw->complete()) return;
  const std::size_t head = setup_.draw->head_blocks();
  if (head == 0 || head > kMostLinesApart) return;
  const double steps =
      steps_beside(data, setup_.recipe.intercept, setup_.draw) / static_cast<double>(members_.size());
  if (steps < kFewestSteps) return;
  if (steps < static_cast<double>(kMostStepsApart)) free_steps_ = static_cast<std::size_t>(steps);
  const std::vector<double> share = feature_shares(data);
  std::vector<FeatureId> common;
  for (std::size_t f = 0; f < share.size(); ++f)
    if (share[f] >= kOften) common.push_back(static_cast<FeatureId>(f));
  std::stable_sort(common.begin(), common.end(),
                   [&](FeatureId a, FeatureId b) { return share[a] > share[b]; });
  common.resize(std::min(common.size(), kMostLinesApart / head));
  if (common.empty() && !setup_.recipe.intercept) return;
  const auto shared = std::make_shared<SomeFeatures>(std::move(common), share.size());
  for (std::size_t m = 0; m < members_.size(); ++m)
    members_[m]->stepper.keep_apart(head, shared, m * shared->numbers().size() / members_.size());
}

std::uint64_t BlockLane::bytes_apart(const Facts& facts) {
  const auto& [recipe, problem, machine, draw] = facts;
  const std::uint64_t lines = 2 * kMostLinesApart * kLanes * sizeof(float);
  // Two parts, each with memory for twice as many numbers as all rows have.
  const double split = 4 * static_cast<double>(kMostStepsApart) * (problem.nonzeros_per_row + 1) *
                       (sizeof(FeatureId) + sizeof(float));
  const std::uint64_t blocks = (problem.classes + kLanes - 1) / kLanes;
  const std::uint64_t ridges =
      recipe.ridge > 0 ? blocks * (sizeof(BlockStepper::Delayed) + sizeof(std::uint32_t)) : 0;
  // Numbers of declined steps, and growths of one thread.
  const auto declined = static_cast<std::uint64_t>(kMostFreePieces) * kStepsAhead * sizeof(std::size_t);
  return machine.threads * (lines + static_cast<std::uint64_t>(split) + ridges + declined) + declined +
         (recipe.ridge > 0 ? blocks * sizeof(double) : 0) +
         problem.features * (sizeof(double) + sizeof(SomeFeatures::Place));
}

void BlockLane::attach(RunState& state) {
  general_.attach(state);
  if (members_.size() > 1) clear_fresh_pages(state, setup_.data, setup_.recipe, members_.size());
}

void BlockLane::take(const Batch& batch, RunState& state) {
  // Beyond this every step would be declined. One by one, they can recompute the bound from all of W.
  if (!float_batch_holds(state.largest_weight)) {
    for (std::size_t from = 0; from < batch.count; from += piece_steps_) {
      Batch part = batch;
      part.first += from, part.count = std::min(piece_steps_, batch.count - from);
      general_.take(part, state);
    }
    return;
  }
  // Whether a step is taken depends only on itself and on the bound at the start of the batch, not on what
  // other threads have done since.
  const Work work{
      batch,
      {batch.step, batch.decayed, state.largest_weight, kMostBatchGrowth / static_cast<double>(most_steps_)},
      state};
  refused_.reset();
  if (members_.size() == 1)
    run_alone(work);
  else if (setup_.recipe.lock_free)
    run_lock_free(work);
  else
    run_in_order(work);
  // Only at the end of the batch, when W no longer depends on which threads were faster.
  if (refused_) setup_.guard.diverged(state, refused_->step, refused_->update);
  state.step += batch.count;
}

void BlockLane::run_alone(const Work& work) {
  for (std::size_t from = 0; from < work.batch.count; from += piece_steps_) {
    const std::size_t size = std::min(piece_steps_, work.batch.count - from);
    prepare(work, *pieces_[0], from, size);
    take_steps(work, *members_[0], *pieces_[0], true);
  }
  work.state.largest_weight = bound_before(work, work.batch.count, 1);
}

void BlockLane::run_in_order(const Work& work) {
  progress_->start();
  ++batch_;
  failed_.store(false, std::memory_order_relaxed);
  double bound = 0;
  const auto of_member = [&](std::size_t number) {
    try {
      if (!prepare_together(work, number)) {
        progress_->give_up(number);
        return;
      }
      take_turns(work, number);
      if (number == 0) bound = bound_after(work);
    } catch (...) {
      progress_->give_up(number);
      throw;
    }
  };
  team_->run(std::ref(of_member));  // a copied lambda would allocate in every batch
  work.state.largest_weight = bound;
}

// Every member prepares some pieces, and finds in all of them what its own steps wait for. False if another
// member could not prepare its own.
bool BlockLane::prepare_together(const Work& work, std::size_t number) {
  const std::size_t count = work.batch.count, pieces = (count + piece_steps_ - 1) / piece_steps_;
  const auto say = [&](std::size_t p) { ready_[p].batch.store(batch_, std::memory_order_release); };
  std::size_t mine = number;
  try {
    for (; mine < pieces; mine += members_.size()) {
      const std::size_t from = mine * piece_steps_;
      prepare(work, *pieces_[mine], from, std::min(piece_steps_, count - from));
      say(mine);
    }
  } catch (...) {
    failed_.store(true, std::memory_order_relaxed);
    for (; mine < pieces; mine += members_.size()) say(mine);
    throw;
  }
  Turns& turns = members_[number]->turns;
  turns.start();
  progress_->patience().sit(number);
  for (std::size_t p = 0; p < pieces; ++p) {
    for (std::size_t looks = 0; ready_[p].batch.load(std::memory_order_acquire) != batch_; ++looks)
      progress_->patience().pause(number, looks);
    if (failed_.load(std::memory_order_relaxed)) return false;
    const Piece& piece = *pieces_[p];
    for (std::size_t i = 0; i < piece.size; ++i)
      turns.add(rows_recur_ ? &piece.examples[i] : nullptr, piece.blocks(i));
  }
  return true;
}

void BlockLane::run_lock_free(const Work& work) {
  const std::size_t count = work.batch.count;
  const double free = steps_without_ridge(work.batch.step);
  const std::size_t most = free < static_cast<double>(count) ? static_cast<std::size_t>(free) : count;
  if (most < count && most < kFewestFreeSteps * members_.size()) {
    run_alone(work);
    return;
  }
  for (std::size_t first = 0; first < count; first += most)
    take_freely(work, first, std::min(most, count - first));
}

// How many steps of this size may be taken before their ridge: so few that it would shrink no weight by more
// than this share on average. Infinite without ridge.
double BlockLane::steps_without_ridge(double step) const {
  constexpr double kMostDelayed = 0.02;
  return setup_.ridge.on() ? kMostDelayed / mean_ridge(step) : std::numeric_limits<double>::infinity();
}

// Of a step on any class, on average over the steps that have it and those that do not.
double BlockLane::mean_ridge(double step) const {
  const double mean_weight = setup_.problem.total_weight / static_cast<double>(setup_.data.size());
  return setup_.ridge.strength(step, mean_weight);
}

void BlockLane::take_freely(const Work& work, std::size_t first, std::size_t count) {
  RunState& state = work.state;
  Work free = work;
  free.terms.ridge_later = setup_.ridge.on(), free.terms.apart = true;
  next_free_.store(0, std::memory_order_relaxed);
  if (meeting_) meeting_->start();
  // Meanwhile all weights are as they would be halfway, on average: what steps add must not be shrunk by the
  // ridge of those before them.
  const double common = state.weights.common_scale();
  if (setup_.ridge.on())
    state.weights.set_common_scale(common *
                                   std::exp(-mean_ridge(work.batch.step) * static_cast<double>(count) / 2));
  const auto of_member = [&](std::size_t number) {
    Member& member = *members_[number];
    member.free_growth = 0;
    member.declined.clear();
    member.stepper.forget_delayed();
    std::size_t kept = 0;  // steps since it looked
    try {
      for (FreeSteps next = claim(count, kept); next.size > 0; next = claim(count, kept)) {
        prepare(free, *pieces_[number], first + next.from, next.size);
        if (kept == 0) member.stepper.look(state.weights);
        take_steps(free, member, *pieces_[number], false);
        kept += next.size;
        if (kept >= free_steps_) member.stepper.add_up(state.weights), kept = 0;
      }
      if (kept > 0) member.stepper.add_up(state.weights);
    } catch (...) {
      if (meeting_) meeting_->give_up();
      throw;
    }
    if (!meeting_ || !meeting_->wait(number)) return;
    if (number == 0) state.weights.set_common_scale(common);
    if (meeting_->wait(number)) shrink_own(state.weights, number);
  };
  try {
    team_->run(std::ref(of_member));
  } catch (...) {
    state.weights.set_common_scale(common);
    throw;
  }
  for (const auto& member : members_) state.largest_weight += member->free_growth;
  for (const auto& member : members_)
    for (const std::size_t t : member->declined)
      state.largest_weight += take_generally(work, t, state.largest_weight);
}

// The next steps for a thread: half of an equal part of those that are left. Rows differ in length and cores
// in speed; this way all come to an end at about the same time.
BlockLane::FreeSteps BlockLane::claim(std::size_t count, std::size_t kept) {
  const std::size_t most = std::min(piece_steps_, free_steps_ - kept);
  // Of a short batch, such as the first ones, every thread has some.
  const std::size_t least =
      std::min(most, std::clamp<std::size_t>(count / members_.size(), 1, kFewestFreeSteps));
  std::size_t from = next_free_.load(std::memory_order_relaxed);
  for (;;) {
    if (from >= count) return {from, 0};
    const std::size_t size = std::clamp((count - from) / (2 * members_.size()), least, most);
    const FreeSteps mine{from, std::min(size, count - from)};
    if (next_free_.compare_exchange_weak(from, from + mine.size, std::memory_order_relaxed)) return mine;
  }
}

// The ridge of all members' steps on some of the blocks. It makes numbers in memory smaller or leaves them.
void BlockLane::shrink_own(Weights& w, std::size_t number) {
  constexpr double kSmallScale =
      1e-6;  // much smaller, and the numbers in memory are too large for float32 sums
  std::vector<double>& shrinks = members_[number]->shrinks;
  for (const auto& member : members_)
    for (const BlockStepper::Delayed& delayed : member->stepper.delayed(number))
      shrinks[delayed.block / members_.size()] *= delayed.factor;
  for (const auto& member : members_)
    for (const BlockStepper::Delayed& delayed : member->stepper.delayed(number)) {
      double& factor = shrinks[delayed.block / members_.size()];
      if (factor == 1) continue;  // done, for another member
      setup_.ridge.shrink(w, delayed.block, factor);
      if (w.least_scale(delayed.block) < kSmallScale) w.fold_block(delayed.block);
      factor = 1;
    }
}

// The bound on the weights before step t of a batch; step i belongs to member i % members, and all earlier
// steps are done. Summed in the order of the steps, because rounding depends on it.
double BlockLane::bound_before(const Work& work, std::size_t t, std::size_t members) const {
  return sum_growths(work, t, members, [](std::size_t /*member*/, std::size_t /*i*/) {});
}

// The bound on the weights after the batch. Other members may still be taking their last steps.
double BlockLane::bound_after(const Work& work) const {
  return sum_growths(work, work.batch.count, members_.size(), [&](std::size_t m, std::size_t i) {
    for (std::size_t looks = 0; !progress_->done_up_to(m, i); ++looks) progress_->patience().pause(0, looks);
  });
}

// await(m, i): step i of member m is done when it returns.
template <class Await>
double BlockLane::sum_growths(const Work& work, std::size_t t, std::size_t members,
                              const Await& await) const {
  double bound = work.terms.largest_weight;
  for (std::size_t from = 0, i = 0; from < t; from += members, ++i)  // divisions would take most of the time
    for (std::size_t m = 0; m < std::min(members, t - from); ++m) {
      await(m, i);
      bound += members_[m]->growth[i];
    }
  return bound;
}

void BlockLane::prepare(const Work& work, Piece& piece, std::size_t from, std::size_t size) const {
  const Batch& batch = work.batch;
  piece.from = from, piece.size = size;
  batch.order.fill(batch.first + from, {piece.examples.data(), size});
  for (std::size_t i = 0; i < size; ++i) {
    piece.labels[i] = setup_.data.label(piece.examples[i]);
    setup_.data.prefetch(piece.examples[i]);
  }
  setup_.draw->fill_blocks(batch.random, batch.first + from, size, {piece.labels.data(), size},
                           {piece.examples.data(), size}, piece.drawn);
  for (std::size_t i = 0; i < size; ++i) piece.x[i] = setup_.data.x(piece.examples[i]);
}

// Takes the steps of a piece one after the other: in order by one thread, or lock-free.
void BlockLane::take_steps(const Work& work, Member& member, Piece& piece, bool in_order) {
  RunState& state = work.state;
  const auto ask_for_row = [&](std::size_t i) { prefetch_example(piece.x[i], state, piece.examples[i]); };
  const BlocksApart* const apart = work.terms.apart ? member.stepper.apart() : nullptr;
  piece.split.clear();
  // Only some steps ahead, when they have come from memory.
  const auto split_up_to = [&](std::size_t end) {
    while (piece.split.size() < std::min(end, piece.size))
      piece.split.add(piece.x[piece.split.size()], apart->features());
  };
  Batch drawn = work.batch;
  if (member.in_double != nullptr) {
    drawn.first += piece.from, drawn.count = piece.size;
    member.in_double->general.prepare(drawn);
  }
  for (std::size_t i = 0; i < std::min(kRowsAhead, piece.size); ++i) ask_for_row(i);
  for (std::size_t i = 0; i < piece.size; ++i) {
    if (i + kRowsAhead < piece.size) ask_for_row(i + kRowsAhead);
    if (apart != nullptr) split_up_to(i + kLinesAhead + 1);
    BlockStepper::Outcome outcome;
    if (member.in_double != nullptr) {
      outcome = take_in_double(work, *member.in_double, drawn, i);
    } else {
      LinesAhead ahead;
      if (const std::size_t p = i + kLinesAhead; far_ && p < piece.size) {
        ahead = piece.lines(p, state.weights);
        if (apart != nullptr) ahead.with_first(apart->blocks(), piece.split.row(p).there);
      }
      outcome = member.stepper.run(piece.step(i, setup_.data, apart != nullptr), work.terms, state, ahead);
    }
    const std::size_t t = piece.from + i;
    if (in_order) {
      member.growth[t] = outcome.taken ? outcome.growth : take_generally(work, t, bound_before(work, t, 1));
    } else {
      member.free_growth += outcome.growth;
      if (!outcome.taken) member.declined.push_back(t);
    }
  }
}

// Takes a member's steps of the batch, each as soon as those are done that it has to wait for.
void BlockLane::take_turns(const Work& work, std::size_t number) {
  RunState& state = work.state;
  Member& member = *members_[number];
  const std::size_t members = members_.size();
  struct Place {
    const Piece* piece = nullptr;  // null: no such step
    std::size_t i = 0;
  };
  const auto at = [&](std::size_t i) -> Place {
    const std::size_t t = number + i * members;
    if (t >= work.batch.count) return {};
    return {pieces_[t / piece_steps_].get(), t % piece_steps_};
  };
  const auto ask_for_row = [&](std::size_t i) {
    if (const auto [piece, p] = at(i); piece != nullptr)
      prefetch_example(piece->x[p], state, piece->examples[p]);
  };
  const auto step = [&](std::size_t i, std::size_t t, std::size_t later) -> BlockStepper::Outcome {
    if (member.in_double != nullptr) {
      const Batch one = work.batch.one(t);
      member.in_double->general.prepare(one);
      return take_in_double(work, *member.in_double, one, 0);
    }
    LinesAhead ahead;
    if (const auto [piece, p] = at(later); far_ && piece != nullptr) ahead = piece->lines(p, state.weights);
    const Place place = at(i);
    return member.stepper.run(place.piece->step(place.i, setup_.data, false), work.terms, state, ahead);
  };
  for (std::size_t i = 0; i < kRowsAhead; ++i) ask_for_row(i);
  // Rows and lines are prefetched in order, whichever steps are taken meanwhile.
  for (std::size_t taken = 0; !member.turns.all_done();) {
    ask_for_row(taken + kRowsAhead);
    const std::size_t i = member.turns.next(*progress_), t = number + i * members;
    if (member.turns.was_put_back(i)) {
      member.growth[i] = take_declined(work, t);
    } else {
      const BlockStepper::Outcome outcome = step(i, t, taken + kLinesAhead);
      if (!outcome.taken) {
        member.turns.put_back(i);
        continue;
      }
      member.growth[i] = outcome.growth;
    }
    member.turns.done(i, *progress_);
    ++taken;
  }
}

// Step i of what was drawn.
BlockStepper::Outcome BlockLane::take_in_double(const Work& work, InDouble& own, const Batch& drawn,
                                                std::size_t i) const {
  own.general.score(work.state, drawn, i);
  const Growth growth = own.general.solve(work.state);
  if (!growth.finite || !(growth.memory <= work.terms.most_growth)) return {};
  own.general.apply(work.state);
  return {true, growth.memory};
}

// Whether the general lane takes a step depends on the bound before it. So all earlier steps of the batch are
// done, whose growth is part of that bound; otherwise the result would depend on which thread was faster.
// Later steps may be running, so the bound cannot be recomputed from all of W here. Returns the growth.
double BlockLane::take_declined(const Work& work, std::size_t t) {
  const std::lock_guard lock(declined_);  // if a member has given up, two may be here
  return take_generally(work, t, bound_before(work, t, members_.size()));
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
