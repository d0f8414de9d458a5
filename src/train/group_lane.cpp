#include "train/group_lane.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <functional>

#include "core/error.hpp"
#include "core/text.hpp"
#include "rule/methods.hpp"
#include "train/norms.hpp"
#include "train/step_hook.hpp"
#include "train/step_inputs.hpp"
#include "train/step_shape.hpp"
#include "train/steps_beside.hpp"
#include "train/x_chunks.hpp"
#include "weights/blocks.hpp"
#include "weights/kernels.hpp"

namespace truemax {
namespace {

std::size_t blocks_for(std::size_t classes) {
  return (classes + kLanes - 1) / kLanes;
}

}  // namespace

namespace {

// Rows that may be solved side by side.
double beside(const Facts& facts) {
  const Problem& p = facts.problem;
  return steps_beside((*p.cosine)[facts.recipe.intercept ? 1 : 0], p.examples, p.classes, facts.draw);
}

}  // namespace

std::string GroupLane::why_not(const Facts& facts) {
  const Recipe& recipe = facts.recipe;
  const std::string& method = recipe.method;
  if (!has_group_rule(method))
    return fmt::format("the method {} has no groups of rows: give --method prox, scent, umax or exact",
                       method);
  if (recipe.rows_per_step != 1)
    return "the rows of a group are steps of one row each: leave --rows-per-step out";
  if (recipe.newton > 0) return "Newton's method is for one process: leave --newton out";
  if (recipe.lock_free) return "the rows of a group do not see each other anyway: leave --lock-free out";
  if (!facts.problem.squares_fit.value_or(true))
    return "the features of a row are too large or too small for sums in float32: give --normalize l2";
  if (method == "umax" && recipe.rule.double_sum_alpha != 0)
    return "umax has alpha 0 there: leave --double-sum-alpha out";
  if (recipe.draws.rivals > 0) return "rows of a group remember no blocks: leave --rivals out";
  if (method != "exact" && !find_draw(recipe.draw).whole_blocks)
    return fmt::format("classes are drawn in whole blocks: give --draw blocks or head-blocks instead of {}",
                       recipe.draw);
  return {};
}

std::string warn_of_groups(const Facts& facts) {
  const Recipe& recipe = facts.recipe;
  if (recipe.group == 0 || recipe.learnt() || !facts.problem.cosine) return {};
  const auto most = static_cast<std::uint64_t>(beside(facts));
  if (recipe.group <= most) return {};
  return fmt::format(
      "--group {}: so many rows that do not see each other may overshoot on these data, which makes the "
      "log-loss far worse; up to --group {} is safe",
      recipe.group, std::bit_floor(most));
}

std::size_t GroupLane::rows_of_group(const Facts& facts) {
  const auto& [recipe, problem, machine, draw] = facts;
  // More rows wait less for messages, fewer stay in caches: on one machine 128 to 512 are equally fast.
  constexpr std::size_t kMost = 512;
  if (recipe.group > 0)
    return std::min<std::size_t>(recipe.group, std::max<std::uint64_t>(problem.examples, 1));
  const double rows = std::min(beside(facts), static_cast<double>(kMost));
  return std::bit_floor(static_cast<std::size_t>(rows));
}

std::size_t GroupLane::steps_ahead(const Facts& facts) {
  if (facts.draw != nullptr && facts.draw->learns()) return 1;
  constexpr double kRowsAhead = 1 << 14, kLinesAhead = 1 << 18;  // of W: some milliseconds of one thread
  const std::size_t group = rows_of_group(facts);
  const auto blocks =
      static_cast<double>(GroupMember::most_blocks(facts.problem.classes, nullptr, facts.draw));
  const double rows =
      std::min(kRowsAhead, kLinesAhead / (std::max(facts.problem.nonzeros_per_row, 1.0) * blocks));
  return std::max<std::size_t>(1, static_cast<std::size_t>(rows) / group) * group;
}

std::uint64_t GroupLane::bytes(const Facts& facts) {
  const auto& [recipe, problem, machine, draw] = facts;
  const std::size_t own = blocks_for(BlockShare::most_classes(problem.classes, machine.ranks));
  const std::size_t blocks = draw == nullptr ? own : std::min(own, draw->most_blocks());
  const std::size_t group = rows_of_group(facts), threads = machine.threads;
  const bool ridge = recipe.ridge > 0, together = threads > 1 && !machine.in_groups;
  const std::size_t rows = together ? RowShares::most_of_all(threads, group) : group;
  std::uint64_t bytes = 2 * GroupRows::bytes(rows, blocks, ridge);
  bytes += ridge ? BlockGrowth::bytes(own) : steps_ahead(facts) * sizeof(double);
  if (draw != nullptr)
    bytes += draw->memory_bytes() + rows * (draw->words() * sizeof(std::uint64_t) +
                                            blocks * (sizeof(std::uint32_t) + sizeof(double)));
  if (!together) return bytes;
  const auto updates = [&](std::size_t of_rows) {
    return std::uint64_t{GroupUpdates::most(LineOwners::most_cuts(threads), of_rows, blocks)};
  };
  return bytes + 2 * (updates(rows) * GroupUpdates::kBytes + updates(group) * OwnedUpdates::kBytes) +
         LineOwners::bytes(own, problem.features, threads) + threads * sizeof(GroupOwner) +
         (ridge ? GroupCuts::bytes(threads, group) : 0);
}

// With a few rows each, threads would only wait for each other. Projections, and ranks, take the rows of a
// group one after the other.
std::size_t GroupLane::useful_members(const LaneSetup& setup, std::size_t rows, std::size_t most_threads) {
  constexpr std::size_t kFewestRows = 4;
  if (tracks_norms(setup) || setup.share != nullptr || setup.ranks.in_groups()) return 1;
  return std::clamp<std::size_t>(rows / kFewestRows, 1, std::min(setup.recipe.thread_count(), most_threads));
}

GroupLane::GroupLane(const LaneSetup& setup, std::size_t most_threads)
    : setup_(setup),
      most_(rows_of_group(setup.facts())),
      tracks_norms_(tracks_norms(setup)),
      most_growth_(kMostBatchGrowth / static_cast<double>(setup.plan.steps_ahead)),
      growth_of_(setup.ridge.on() ? 0 : setup.plan.steps_ahead),
      growth_of_block_(0) {
  far_ = setup.weights_are_far();
  const std::size_t blocks =
      GroupMember::most_blocks(setup.data.classes->size(), setup.share.get(), setup.draw);
  if (tracks_norms_) now_.resize(blocks * kLanes);
  if (const std::size_t threads = useful_members(setup, most_, most_threads); threads > 1)
    team_ = std::make_unique<Team>(threads);
  const std::size_t members = team_ ? team_->size() : 1, share = RowShares::most_of_one(members, most_);
  if (share * blocks * kLanes >= GroupRow::kElsewhere)
    throw UserError(fmt::format(
        "--group {}: so many rows of so many classes cannot be counted; give a smaller one", most_));
  for (std::size_t m = 0; m < members; ++m)
    members_.push_back(std::make_unique<Member>(setup, team_ ? no_others_ : setup.ranks, share, blocks));
  if (members == 1) {
    if (setup.ridge.on())
      growth_of_block_ =
          BlockGrowth(GroupMember::most_blocks(setup.data.classes->size(), setup.share.get(), nullptr));
    return;
  }
  meeting_ = std::make_unique<Meeting>(members);
  shares_ = std::make_unique<RowShares>(members);
  owners_ =
      std::make_unique<LineOwners>(setup.data, setup.draw, members, setup.recipe.intercept, setup.ridge.on());
  if (setup.ridge.on()) cuts_ = std::make_unique<GroupCuts>(*owners_, setup.ridge, most_, most_growth_);
  const std::size_t most_updates = GroupUpdates::most(owners_->most_cuts(), most_, blocks);
  lists_ = std::make_unique<std::array<OwnedUpdates, 2>>(
      std::array{OwnedUpdates(most_updates), OwnedUpdates(most_updates)});
  for (std::size_t m = 0; m < members; ++m) {
    const auto& member = members_[m];
    member->solver.leave_to(*owners_);
    member->sources.resize(members);
    member->owner = std::make_unique<GroupOwner>(setup, *owners_, member->solver.scores(), cuts_.get(), m,
                                                 most_growth_, *lists_);
    if (setup.ridge.on()) member->grown.resize((setup.plan.steps_ahead + most_ - 1) / most_);
    for (std::size_t buffer = 0; buffer < 2; ++buffer) member->updates.emplace_back(*owners_, share, blocks);
  }
}

bool GroupLane::start_epoch(RunState& state, const std::atomic<bool>& /*stop*/,
                            const StepSchedule& /*plan*/) {
  if (tracks_norms_) Norms::recompute(state.norms, state.weights);
  return true;
}

void GroupLane::tighten(RunState& state) {
  if (state.largest_weight <= kPairWeightHigh / 2) return;
  state.largest_weight = setup_.ranks.max_of(state.weights.largest());
}

void GroupLane::attach(RunState& state) {
  if (!setup_.ridge.on()) state.weights.fold_all();
  if (members_.size() > 1) clear_fresh_pages(state, setup_.data, setup_.recipe, members_.size());
}

void GroupLane::take(const Batch& batch, RunState& state) {
  if (!float_batch_holds(state.largest_weight)) {
    state.largest_weight = setup_.ranks.max_of(state.weights.largest());
    if (!float_batch_holds(state.largest_weight))
      setup_.guard.diverged(state, state.step, state.largest_weight);
  }
  if (members_.size() == 1)
    take_alone(batch, state);
  else
    take_together(batch, state);
}

void GroupLane::take_alone(const Batch& batch, RunState& state) {
  GroupMember& solver = members_[0]->solver;
  std::size_t now = 0;
  solver.prepare(batch, 0, std::min(most_, batch.count), solver.buffers[now]);
  for (std::size_t first = 0; first < batch.count; first += most_) {
    GroupRows& rows = solver.buffers[now];
    const std::size_t next = first + most_;
    now = 1 - now;
    solver.begin(batch, state, rows);
    if (next < batch.count)
      solver.prepare(batch, next, std::min(most_, batch.count - next), solver.buffers[now]);
    solver.finish(state, rows);
    admit(state, rows);
    apply(state, rows);
    state.step += rows.count;
  }
  add_growth(state);
}

void GroupLane::take_together(const Batch& batch, RunState& state) {
  const std::uint64_t before = state.step;
  meeting_->start();
  refused_.store(false, std::memory_order_relaxed);
  if (cuts_) cuts_->start(state.weights);
  const auto of_member = [&](std::size_t number) {
    try {
      run_member(batch, state, number);
    } catch (...) {
      meeting_->give_up();
      throw;
    }
  };
  team_->run(std::ref(of_member));  // a copied lambda would allocate in every batch
  shares_->adapt();
  const std::size_t taken = state.step - before;
  if (setup_.ridge.on()) {
    for (std::size_t group = 0; group * most_ < taken; ++group) {
      double grown = 0;
      for (const auto& member : members_) grown = std::max(grown, member->grown[group]);
      growth_ += grown;
    }
  } else {
    for (std::size_t first = 0; first < taken; first += most_)
      sum_growth(first, std::min(most_, taken - first));
  }
  add_growth(state);
  if (!refused_.load(std::memory_order_relaxed)) return;
  for (const auto& member : members_)
    if (member->refused)
      setup_.guard.diverged(state, state.step + member->refused->row, member->refused->growth);
}

void GroupLane::run_member(const Batch& batch, RunState& state, std::size_t number) {
  Member& member = *members_[number];
  GroupMember& solver = member.solver;
  std::size_t now = 0;
  prepare(batch, 0, number, now);
  if (!wait(number)) return;
  score_own(state.weights, batch, 0, number, now);
  for (std::size_t first = 0; first < batch.count; first += most_, now = 1 - now) {
    GroupRows& rows = solver.buffers[now];
    const std::size_t count = std::min(most_, batch.count - first), next = first + most_;
    const Share share = share_of(batch, first, number);
    // All scores are there, and all updates of the group before.
    if (!wait(number)) return;
    const auto start = std::chrono::steady_clock::now();
    solver.begin(batch, state, rows);
    if (next < batch.count) prepare(batch, next, number, 1 - now);
    solver.finish(state, rows);
    look_over(member, rows, share, first + share.first);
    shares_->solved(number, rows.count, std::chrono::steady_clock::now() - start);
    if (!wait(number)) return;
    if (refused_.load(std::memory_order_relaxed)) return;  // before the group changes W
    write_u(state, number, now);
    double growth = 0;
    if (setup_.ridge.on())
      for (const auto& one : members_) growth = std::max(growth, one->growth);
    const double grown = member.owner->apply(state.weights, count, growth);
    if (setup_.ridge.on()) member.grown[first / most_] = grown;
    if (number == 0) state.step += count;
    if (next < batch.count) score_own(state.weights, batch, next, number, 1 - now);
  }
}

// One thread more than cores would stop one of these for as long as a shuffle takes, and all would wait.
bool GroupLane::makes_order(VisitOrder& order) {
  if (members_.size() == 1) return false;
  order_ = &order;
  return true;
}

bool GroupLane::wait(std::size_t number) {
  const bool makes_order = order_ != nullptr && number + 1 == members_.size();
  return meeting_->wait(number, [&] { return makes_order && order_->make_some(); });
}

// The rows of a group that a member solves. `group`: its first row in the batch.
GroupLane::Share GroupLane::share_of(const Batch& batch, std::size_t group, std::size_t number) const {
  return shares_->of(std::min(most_, batch.count - group), number);
}

void GroupLane::prepare(const Batch& batch, std::size_t first, std::size_t number, std::size_t buffer) {
  Member& member = *members_[number];
  const Share share = share_of(batch, first, number);
  member.solver.prepare(batch, first + share.first, share.count, member.solver.buffers[buffer]);
  member.updates[buffer].deal(member.solver.buffers[buffer]);
}

bool GroupLane::admits(const GroupRow& row) const {
  return row.growth() <= most_growth_ && std::isfinite(row.u);
}

// What a member's rows add, before any of it is added. `first`: of its rows in the batch.
void GroupLane::look_over(Member& member, GroupRows& rows, const Share& share, std::size_t first) {
  member.refused.reset();
  member.growth = 0;
  for (std::size_t i = 0; i < rows.count; ++i) {
    const GroupRow& row = rows.row[i];
    if (!cuts_) growth_of_[first + i] = row.growth();
    member.growth = std::max(member.growth, row.growth());
    rows.coefficient[row.label_at] = static_cast<float>(row.label_coefficient);
    if (cuts_) cuts_->note(rows, row, share.first + i);
    if (admits(row) || member.refused) continue;
    member.refused = Member::Refused{share.first + i, row.growth()};
    refused_.store(true, std::memory_order_relaxed);
  }
}

// An example that comes twice keeps the u of the later row.
void GroupLane::write_u(RunState& state, std::size_t number, std::size_t buffer) const {
  const auto write = [&](const GroupRow& row) { state.row(row.example).u = row.u; };
  if (!examples_recur(setup_)) {
    const GroupRows& rows = members_[number]->solver.buffers[buffer];
    for (std::size_t i = 0; i < rows.count; ++i) write(rows.row[i]);
    return;
  }
  for (const auto& member : members_) {
    const GroupRows& rows = member->solver.buffers[buffer];
    for (std::size_t i = 0; i < rows.count; ++i)
      if (number_of(rows.row[i].example) % members_.size() == number) write(rows.row[i]);
  }
}

// `group`: its first row in the batch.
void GroupLane::score_own(const Weights& w, const Batch& batch, std::size_t group, std::size_t number,
                          std::size_t buffer) {
  Member& member = *members_[number];
  for (std::size_t m = 0; m < members_.size(); ++m)
    member.sources[m] = {&members_[m]->updates[buffer], &members_[m]->solver.buffers[buffer],
                         share_of(batch, group, m).first};
  member.owner->score(w, member.sources, buffer);
}

// All ranks take the same decision, before the group changes W.
void GroupLane::admit(RunState& state, const GroupRows& rows) {
  for (std::size_t i = 0; i < rows.count; ++i) {
    if (admits(rows.row[i])) continue;
    add_growth(state);
    setup_.guard.diverged(state, state.step + i, rows.row[i].growth());
  }
}

// Where the ridge has made a scale so small that a step of the group could be a large number in memory, it is
// multiplied into memory first.
void GroupLane::make_room(Weights& w, std::uint32_t block, double growth) {
  if (growth > most_growth_ * w.least_scale(block)) w.fold_block(block);
  growth_of_block_.add(block, growth / w.least_scale(block));
}

// Of a group without ridge: the same sum for any number of threads. Several chains of additions are done
// several times sooner than one, and the other threads wait for them.
void GroupLane::sum_growth(std::size_t first, std::size_t count) {
  constexpr std::size_t kChains = 8;
  std::array<double, kChains> sum{};
  const double* const growth = growth_of_.data() + first;
  std::size_t i = 0;
  for (; i + kChains <= count; i += kChains)
    for (std::size_t chain = 0; chain < kChains; ++chain) sum[chain] += growth[i + chain];
  for (; i < count; ++i) sum[i % kChains] += growth[i];
  for (const double s : sum) growth_ += s;
}

// Without scales all ranks have the same growth.
void GroupLane::add_growth(RunState& state) {
  state.largest_weight += setup_.ridge.on() ? setup_.ranks.max_of(growth_) : growth_;
  growth_ = 0;
}

void GroupLane::apply(RunState& state, GroupRows& rows) {
  constexpr std::size_t kLinesAhead = 4;
  // So many lines are still at hand from their scores: prefetching them would cost more than it saves.
  constexpr std::size_t kNearLines = 3000;
  Weights& w = state.weights;
  double largest = 0;  // of the weights, by any row
  if (setup_.ridge.on()) {
    growth_of_block_.start_group();
    for (std::size_t i = 0; i < rows.count; ++i) largest = std::max(largest, rows.row[i].growth());
  }
  for (std::size_t i = 0; i < rows.count; ++i) {
    if (const std::size_t p = i + kLinesAhead; rows.lines > kNearLines && far_ && p < rows.count)
      LinesAhead(w, rows.row[p].x, rows.blocks_of(rows.row[p])).ask(1);
    const GroupRow& row = rows.row[i];
    state.row(row.example).u = row.u;
    const std::span<const std::uint32_t> blocks = rows.blocks_of(row);
    if (blocks.empty() && setup_.ridge.on()) continue;
    float* const c = rows.coefficient + std::size_t{row.begin} * kLanes;
    if (row.has_label()) rows.coefficient[row.label_at] = static_cast<float>(row.label_coefficient);
    if (setup_.ridge.on())
      for (const std::uint32_t b : blocks) make_room(w, b, largest);
    else
      growth_of_[i] = row.growth();
    if (tracks_norms_) update_norms(state, rows, row);
    add_to_blocks(w, row.x, blocks, c);
    add_to_block_intercepts(w, blocks, c);
    if (!setup_.ridge.on()) continue;
    for (std::uint32_t b = row.begin; b < row.end; ++b) setup_.ridge.shrink(w, rows.block[b], rows.factor(b));
  }
  if (setup_.ridge.on())
    growth_ += growth_of_block_.largest();
  else
    sum_growth(0, rows.count);
  if (tracks_norms_) project(state);
}

// |w_k|^2 after the update that follows; scores are those of now, after the earlier rows of the group.
void GroupLane::update_norms(RunState& state, const GroupRows& rows, const GroupRow& row) {
  NormState& norms = state.norms;
  const Weights& w = state.weights;
  const double square = row.squared_norm - (w.has_intercept() ? 1 : 0);
  const std::span<const std::uint32_t> blocks = rows.blocks_of(row);
  score_each_block(w, row.x, blocks, now_.data());
  for (std::size_t i = 0; i < blocks.size(); ++i)
    for (std::size_t k = blocks[i] * kLanes; k < std::min(w.classes(), (blocks[i] + 1) * kLanes); ++k) {
      const std::size_t lane = k % kLanes;
      const auto c = static_cast<double>(rows.coefficient[(row.begin + i) * kLanes + lane]);
      const double r = rows.ridge[row.begin + i], before = norms.of_class[k];
      const double change = c * (2 * static_cast<double>(now_[i * kLanes + lane]) + c * square);
      norms.of_class[k] = std::max(before + change / norms.common, 0.0) / (r * r);
      norms.total = std::max(norms.total + norms.of_class[k] - before, 0.0);
    }
}

void GroupLane::project(RunState& state) {
  NormState& norms = state.norms;
  if (!std::isfinite(setup_.ranks.sum_of(norms.common * norms.total)))
    Norms::recompute(norms, state.weights);  // products overflowed
  Norms::project(norms, state.weights, setup_.problem.weight_bound(),
                 setup_.ranks.sum_of(norms.common * norms.total));
}

}  // namespace truemax
