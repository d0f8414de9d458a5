#include "train/learnt_lane.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.hpp"
#include "train/fit.hpp"
#include "train/step_shape.hpp"
#include "weights/fast_tile.hpp"

namespace truemax {

LearntLane::LearntLane(const LaneSetup& setup)
    : setup_(setup), visited_(setup), rho_(setup.recipe.rule), free_team_(teams(setup.plan.facts())) {
  // More would have nothing to do: tasks have eight rows, or eight classes.
  constexpr std::size_t kUseful = 16;
  const std::size_t classes = std::min(setup.recipe.classes_per_step, setup.data.classes->size());
  const std::size_t most =
      std::max(kUseful, std::max(setup.recipe.rows_per_step, classes) / LeftPanels::kRows);
  const std::size_t threads = std::min(setup.recipe.thread_count() / free_team_.size(), most);
  for (std::size_t m = 0; m < free_team_.size(); ++m)
    steps_.push_back(std::make_unique<LearntStep>(setup, threads));
  if (draws_ahead(setup.facts())) ahead_ = std::make_unique<Ahead>(Ahead{DrawnBatch(setup)});
}

// How many steps are taken at once. None of them sees what the others learn, so a short run has few.
std::size_t LearntLane::teams(const Facts& facts) {
  const auto& [recipe, problem, machine, draw] = facts;
  constexpr std::uint64_t kStepsOfTeam = 256;  // of the run
  if (!recipe.lock_free) return 1;
  const std::uint64_t of_epoch = steps_per_epoch(problem.examples, recipe);
  const std::uint64_t steps = recipe.steps > 0                   ? recipe.steps
                              : recipe.epochs < kUnlimitedEpochs ? recipe.epochs * of_epoch
                                                                 : of_epoch;
  return std::clamp<std::size_t>(steps / kStepsOfTeam, 1, machine.threads);
}

void LearntLane::take(const Batch& batch, RunState& state) {
  fill(batch, state);
  const auto rho_at = [&](double share) { return rho_.at(share * batch.decayed, setup_.draw->complete()); };
  const double rho = rho_at(1);
  if (steps_.size() > 1) {
    admit(state, batch.step, rho_at(batch.share_of_step(batch.count)), batch.count);
    free_team_.share(batch.count, [&](std::size_t member, std::size_t t) {
      const double share = batch.share_of_step(t);
      steps_[member]->take(visited_, t, share * batch.step, rho_at(share), state);
    });
    state.step += batch.count;
    return;
  }
  for (std::size_t t = 0; t < batch.count; ++t, ++state.step) {
    admit(state, batch.step, rho, 1);
    if (t + 1 < batch.count || !ahead_ || !goes_on_after(batch)) {
      steps_[0]->take(visited_, t, batch.step, rho, state);
      continue;
    }
    Batch next = batch;
    next.first += batch.count;
    steps_[0]->take(visited_, t, batch.step, rho, state, [&] { ahead_->visited.fill(next); });
    ahead_->epoch = state.epoch, ahead_->first = next.first, ahead_->count = next.count;
  }
}

// A stream has only the rows of now, and a draw that learns waits for them.
bool LearntLane::draws_ahead(const Facts& facts) {
  const auto& [recipe, problem, machine, draw] = facts;
  return machine.threads > 1 && teams(facts) == 1 && !recipe.on_gpu() && !problem.stream && !draw->learns();
}

// Whether the epoch has another batch as long.
bool LearntLane::goes_on_after(const Batch& batch) const {
  return (batch.first + 2 * batch.count) <= steps_per_epoch(setup_.data.size(), setup_.recipe);
}

void LearntLane::fill(const Batch& batch, const RunState& state) {
  if (ahead_ && ahead_->count == batch.count && ahead_->first == batch.first && ahead_->epoch == state.epoch)
    std::swap(visited_, ahead_->visited);
  else
    visited_.fill(batch);
  if (ahead_) ahead_->count = 0;
}

// Every number that a step computes is bounded by the parameters, the data and rho. RMSprop moves a parameter
// by at most rate/sqrt(1 - kLearntKeep).
void LearntLane::admit(RunState& state, double rate, double rho, std::size_t steps) const {
  // With one mean for a row, a number may have all of its row's gradient.
  const double of_row = setup_.recipe.row_state ? static_cast<double>(setup_.recipe.hidden) : 1;
  const double growth = static_cast<double>(steps) * rate * std::sqrt(of_row / (1 - kLearntKeep));
  if (!steps_[0]->fits(state.largest_weight + growth, rho)) {
    state.largest_weight = 0;
    const LearntState& learnt = state.learnt;
    for (const Embedding* table : {&learnt.tables.features, &learnt.tables.mixing, &learnt.classes})
      state.largest_weight = std::max<double>(state.largest_weight,
                                              largest_absolute(table->numbers.data(), table->numbers.size()));
    for (const float b : learnt.intercept)
      state.largest_weight = std::max(state.largest_weight, std::abs(static_cast<double>(b)));
    state.largest_weight = setup_.ranks.max_of(state.largest_weight);
    if (learnt.updates == 0 && !steps_[0]->fits(state.largest_weight, rho))
      throw DivergenceError(
          "the data have feature values that are too large for learnt features: try --encoder linear");
    if (!steps_[0]->fits(state.largest_weight + growth, rho))
      setup_.guard.diverged(state, state.step, growth);
  }
  state.largest_weight += growth;
}

void LearntLane::publish(RunState& state) {
  copy_weights(state, steps_.size() > 1 ? free_team_ : steps_[0]->team());
}

void LearntLane::copy_weights(RunState& state, Team& team) {
  const Embedding& w = state.learnt.output();
  const std::size_t hidden = w.columns;
  Weights& to = state.weights;
  team.share_chunks(to.blocks(), 1, [&](std::size_t /*member*/, std::size_t b) {
    const std::size_t first = b * kLanes, count = std::min(kLanes, to.classes() - first);
    std::vector<float> block(kLanes * hidden);
    std::copy_n(w.row(first), count * hidden, block.begin());
    to.set_block(b, block);
  });
  std::copy(state.learnt.intercept.begin(), state.learnt.intercept.end(), to.intercept().begin());
}

LearntState LearntLane::start(const DataView& data, const Recipe& recipe) {
  LearntState state;
  const std::size_t threads = recipe.thread_count();
  const auto share = share_of(*data.classes);
  const std::size_t classes = share ? share->classes() : data.classes->size();
  state.tables = start_tables(data, recipe);
  if (!has_tied_vectors(recipe, data.space->of_triples()))
    state.classes = Embedding(classes, recipe.hidden, threads);
  if (recipe.intercept) state.intercept.resize(classes);
  state.intercept_square.resize(state.intercept.size());
  // Of a device they come back with the vectors.
  if (!recipe.on_gpu()) add_squares(state, recipe);
  return state;
}

void LearntLane::add_squares(LearntState& state, const Recipe& recipe) {
  const std::size_t per_row = recipe.row_state ? 1 : recipe.hidden, threads = recipe.thread_count();
  resize_with(state.features_square, state.tables.features.rows * per_row, threads);
  resize_with(state.mixing_square, state.tables.mixing.numbers.size(), threads);
  resize_with(state.classes_square, state.classes.rows * per_row, threads);
}

std::uint64_t LearntLane::state_bytes(const Facts& facts) {
  const auto& [recipe, problem, machine, draw] = facts;
  const std::uint64_t classes = has_tied_vectors(recipe, problem.triples)
                                    ? 0
                                    : BlockShare::most_classes(problem.classes, machine.ranks);
  const std::uint64_t vectors = classes + most_vectors(facts);
  const std::uint64_t saved = recipe.row_state ? sizeof(float) * vectors * (recipe.hidden - 1) : 0;
  return 2 * (table_bytes(facts) + sizeof(float) * recipe.hidden * classes) - saved;
}

std::uint64_t LearntLane::step_bytes(const Facts& facts) {
  return LearntStep::bytes(facts) * teams(facts);
}

}  // namespace truemax
