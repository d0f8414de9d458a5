#include "train/device_lane.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "core/files.hpp"
#include "core/parallel.hpp"
#include "draw/blocks.hpp"
#include "rule/methods.hpp"
#include "train/device_learnt_lane.hpp"
#include "train/step_inputs.hpp"
#include "train/steps_beside.hpp"
#include "weights/kernels.hpp"
#include "weights/on_device.hpp"
#include "weights/pairs.hpp"

namespace truemax {
namespace {

// Steps that are queued before the next look at what they report.
constexpr std::uint64_t kBetweenReports = std::uint64_t{1} << 20;
// Of a number in the memory of W: sums over a row stay inside float32.
constexpr double kDeviceLimit = 1e25;

std::optional<device::Method> method_of(const std::string& name) {
  if (name == "prox") return device::Method::prox;
  if (name == "implicit") return device::Method::implicit;
  if (name == "scent") return device::Method::scent;
  if (name == "umax") return device::Method::umax;
  if (name == "exact") return device::Method::exact;
  return std::nullopt;
}

device::Order order_of(Visit visit) {
  switch (visit) {
    case Visit::random:
      return device::Order::random;
    case Visit::shuffle:
      return device::Order::shuffled;
    case Visit::file:
      return device::Order::as_they_are;
  }
  return device::Order::shuffled;
}

std::uint64_t key_of(std::uint64_t seed, Stream stream, std::uint64_t epoch) {
  return CounterRandom(seed, stream, epoch).at(0).first;
}

}  // namespace

std::string DeviceLane::why_not(const Facts& facts) {
  const Recipe& recipe = facts.recipe;
  constexpr const char* kOrCpu = "or use --device cpu";
  const std::string& method = recipe.method;
  const auto on_device = method_of(method);
  if (!on_device)
    return fmt::format(
        "the method {} does not run on a GPU: give --method prox, implicit, scent, umax or exact, {}", method,
        kOrCpu);
  if (facts.problem.stream) return fmt::format("a GPU does not read --stream: leave it out, {}", kOrCpu);
  if (recipe.newton > 0)
    return fmt::format("Newton's method does not run on a GPU: leave --newton out, {}", kOrCpu);
  if (!facts.problem.squares_fit.value_or(true))
    return fmt::format(
        "the features of a row are too large or too small for the float32 of a GPU: give "
        "--normalize l2, {}",
        kOrCpu);
  if (*on_device == device::Method::exact) return {};
  if (recipe.rows_per_step != 1)
    return fmt::format("on a GPU a step of {} has one row: leave --rows-per-step out, {}", method, kOrCpu);
  const DrawInfo& draw = find_draw(recipe.draw);
  if (!draw.whole_blocks)
    return fmt::format("a GPU draws whole blocks of classes: give --draw blocks instead of {}, {}",
                       recipe.draw, kOrCpu);
  if (method == "umax" && recipe.rule.double_sum_alpha != 0)
    return fmt::format("on a GPU umax has alpha 0: leave --double-sum-alpha out, {}", kOrCpu);
  if (facts.draw == nullptr) return {};  // not chosen yet
  const std::size_t blocks = dynamic_cast<const BlockDraw&>(*facts.draw).places();
  if (blocks > device::kMostBlocks)
    return fmt::format(
        "on a GPU a step takes at most {} classes, and here they are {}: give a smaller --head, "
        "--rivals or --classes-per-step, {}",
        device::kMostBlocks * kBlockClasses, blocks * kBlockClasses, kOrCpu);
  return {};
}

std::uint64_t DeviceLane::bytes(const Facts& facts) {
  const auto& [recipe, problem, machine, draw] = facts;
  const std::uint64_t rows = problem.rows, examples = problem.examples;
  constexpr std::uint64_t kEntry = 8, kRow = 8, kExample = 4 + 4 + 4 + 4 + 8, kCell = 16 + 4;
  const std::uint64_t blocks = (problem.classes + kBlockClasses - 1) / kBlockClasses;
  // Rivals are found with W in 16 bits and the scores of blocks (Engine::learn_rivals).
  constexpr std::uint64_t kMostScores = std::uint64_t{512} << 20, kBestOfRow = 33 + 1;
  const std::uint64_t rivals = recipe.draws.rivals == 0
                                   ? 0
                                   : Weights::bytes_needed(problem.classes, problem.features) / 2 +
                                         std::min(kMostScores, rows * blocks * 4) + rows * kBestOfRow * 4 +
                                         examples * recipe.draws.rivals * 4;
  return rivals + Weights::bytes_needed(problem.classes, problem.features) + problem.nonzeros * kEntry +
         rows * kRow + examples * kExample + blocks * kCell +
         (recipe.intercept ? problem.classes * sizeof(float) : 0);
}

DeviceLane::DeviceLane(const LaneSetup& setup, std::unique_ptr<device::Engine> engine)
    : setup_(setup), engine_(std::move(engine)), rho_(setup.recipe.rule) {
  const std::string why = why_not(setup.facts());
  if (!why.empty()) throw UserError(fmt::format("--device {}: {}", setup.recipe.device, why));
  require_room();
  if (setup.has_rivals()) rivals_.emplace(rival_plan(setup.facts()));
}

void DeviceLane::require_room() const {
  const std::uint64_t needed = bytes(setup_.plan.facts()), free = engine_->card().free;
  if (needed <= free) return;
  const std::uint64_t of_weights =
      Weights::bytes_needed(setup_.data.classes->size(), setup_.data.space->features);
  const std::uint64_t rest = needed - of_weights;
  const std::uint64_t fits =
      free > rest ? Weights::features_that_fit(setup_.data.classes->size(), free - rest) : 0;
  throw UserError(fmt::format(
      "--device {}: the run needs {} on {}, of which {} are free; the weights of {} classes and {} features "
      "take {}: {}learn features (--hidden), or use --device cpu",
      setup_.recipe.device, size_text(needed), engine_->card().name, size_text(free),
      setup_.data.classes->size(), setup_.data.space->features, size_text(of_weights),
      fits > 0 ? fmt::format("--max-features {} would fit; give it, ", fits) : ""));
}

bool DeviceLane::start_epoch(RunState& state, const std::atomic<bool>& stop, const StepSchedule& plan) {
  const RivalSlice slice = rivals_ ? rivals_->before(state.epoch) : RivalSlice{};
  if (slice.empty()) return true;
  settle(state);
  if (stop.load(std::memory_order_relaxed) || plan.out_of_time()) return false;
  engine_->learn_rivals(static_cast<std::uint32_t>(slice.number),
                        static_cast<std::uint32_t>(rivals_->slices()));
  return true;
}

void DeviceLane::attach(RunState& state) {
  if (setup_.has_rivals()) setup_.draw->attach(state.draw_memory);
  if (there_) return;
  const DataView& data = setup_.data;
  Weights& w = state.weights;
  if (w.scaled()) w.fold_all();
  const PackedRows packed(data);
  std::vector<double> u;
  std::vector<float> norms;
  u.reserve(state.rows.size()), norms.reserve(state.rows.size());
  for (const RowState& row : state.rows) {
    u.push_back(row.u);
    norms.push_back(static_cast<float>(row.squared_norm));
  }
  engine_->set_weights(host_weights(w, state.zero_weights), setup_.ridge.includes_intercept());
  std::vector<device::AliasCell> cells;
  std::vector<float> over_mean;
  device::HostDraw draw;
  if (const auto* const blocks = dynamic_cast<const BlockDraw*>(setup_.draw)) {
    draw.head = static_cast<std::uint32_t>(blocks->head_blocks());
    draw.draws = static_cast<std::uint32_t>(blocks->tail().draws());
    for (const AliasTable::Cell& cell : blocks->tail().cells()) cells.push_back({cell.keep, cell.other});
    for (std::size_t b = 0; b < blocks->tail().outcomes(); ++b)
      over_mean.push_back(static_cast<float>(1 / blocks->tail().mean_count(b)));
    draw.cells = cells, draw.over_mean = over_mean;
  }
  if (setup_.draw != nullptr)
    beside_ =
        static_cast<std::uint32_t>(std::min(steps_beside(data, setup_.recipe.intercept, setup_.draw), 1e6));
  engine_->set_rows(packed.rows(), {packed.row, packed.label, packed.weight}, u, norms, draw);
  if (setup_.has_rivals())
    engine_->set_rivals(state.draw_memory, static_cast<std::uint32_t>(setup_.draw->most_rivals()));
  there_ = true;
  state.zero_weights = false;
  // No step: the first use of a kernel loads it.
  device::Leg nothing;
  nothing.method = *method_of(setup_.recipe.method);
  engine_->take(nothing);
  engine_->report();
}

device::Leg DeviceLane::leg_of(const Batch& batch, const RunState& state) const {
  const Recipe& recipe = setup_.recipe;
  const auto rows = static_cast<double>(recipe.rows_per_step);
  device::Leg leg;
  leg.method = *method_of(recipe.method);
  leg.order = order_of(recipe.visit);
  leg.rows_per_step = static_cast<std::uint32_t>(recipe.rows_per_step);
  leg.first = batch.first, leg.count = batch.count;
  leg.order_key = key_of(recipe.seed, Stream::visit, state.epoch);
  leg.draw_key = key_of(recipe.seed, Stream::draw, state.epoch);
  leg.step = batch.step, leg.last_step = batch.last_step;
  leg.rho_falls = recipe.rule.rho_falls;
  leg.rho = rho_.at(batch.decayed, setup_.draw != nullptr && setup_.draw->complete());
  if (setup_.ridge.on()) {
    // Every class shrinks in every step, by its mean share of the ridge.
    const double mean_weight = setup_.problem.total_weight / static_cast<double>(setup_.data.size());
    leg.decay = std::log1p(setup_.ridge.strength(batch.step, mean_weight * rows));
    if (leg.decay > device::kMostDecay)
      throw DivergenceError(
          fmt::format("--device {}: a ridge of {:.3g} with a step of {:.3g} shrinks W by {:.0f}% in one "
                      "step, which a GPU "
                      "does not do: give a smaller --ridge or --step, or use --device cpu",
                      recipe.device, recipe.ridge, batch.step, 100 * -std::expm1(-leg.decay)));
  }
  leg.most_growth = kDeviceLimit / 2 / static_cast<double>(kBetweenReports + kMostSteps);
  leg.beside = beside_;
  leg.delta = recipe.rule.delta;
  leg.most_u = std::min(setup_.problem.u_bound(), 1e300);
  if (setup_.rule.info().projects && std::isfinite(setup_.problem.weight_bound()))
    leg.most_norm = setup_.problem.weight_bound();
  return leg;
}

void DeviceLane::take(const Batch& batch, RunState& state) {
  engine_->take(leg_of(batch, state));
  moved_ = true;
  state.step += batch.count;
  pending_ += batch.count;
  // A clock is only read rightly once the steps are done.
  if (pending_ >= kBetweenReports || setup_.recipe.seconds > 0) settle(state);
}

void DeviceLane::settle(RunState& state) {
  if (!there_ || pending_ == 0) return;
  pending_ = 0;
  const device::LegReport report = engine_->report();
  state.largest_weight += report.growth;
  if (report.refused > 0) diverged(state, kDeviceLimit);
  tighten(state);
}

void DeviceLane::tighten(RunState& state) {
  if (!there_ || state.largest_weight <= kDeviceLimit / 2) return;
  state.largest_weight = engine_->largest_weight();
  if (!(state.largest_weight <= kDeviceLimit / 2)) diverged(state, state.largest_weight);
}

void DeviceLane::diverged(RunState& state, double update) {
  publish(state);
  state.largest_weight = state.weights.largest();
  setup_.guard.diverged(state, state.step, update);
}

void DeviceLane::publish(RunState& state) {
  if (!there_ || !moved_) return;
  std::vector<double> u(state.rows.size());
  engine_->download(host_weights(state.weights), u);
  for (std::size_t i = 0; i < u.size(); ++i) state.rows[i].u = u[i];
  if (setup_.has_rivals()) engine_->download_rivals(state.draw_memory);
  moved_ = false;
}

}  // namespace truemax
