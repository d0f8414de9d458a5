#include "train/lbfgs_lane.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace truemax {
namespace {

constexpr std::size_t kPairs = 20;
// Of the angle between a move and the change of the gradient: below, it is rounding.
constexpr double kLeastCosine = 1e-7;

std::size_t members_for(const Facts& facts) {
  return SoftmaxGradient::members_for(facts.problem, facts.problem.examples, facts.machine.threads);
}

}  // namespace

// Their coefficients, and the rows themselves, stay in the cache while block by block adds them.
std::size_t LbfgsLane::rows_at_once(const Problem& problem) {
  constexpr std::size_t kNumbers = std::size_t{1} << 17, kFewest = 64;
  return std::min<std::uint64_t>(
      problem.examples,
      std::max<std::uint64_t>(kFewest, kNumbers / std::max<std::uint64_t>(1, problem.classes)));
}

std::uint64_t LbfgsLane::copies(const Problem& problem) {
  constexpr std::uint64_t kOthers = 5;  // two points with gradients, a direction
  const std::size_t blocks = (problem.classes + kLanes - 1) / kLanes;
  return 2 * kPairs + kOthers + SoftmaxGradient::parts_of(blocks);
}

std::uint64_t LbfgsLane::bytes(const Problem& problem) {
  return SoftmaxGradient::bytes(problem, rows_at_once(problem)) + problem.features * sizeof(float);
}

LbfgsState LbfgsLane::start(const DataView& data, const Recipe& recipe) {
  LbfgsState state;
  const auto vector = [&] {
    Weights made(data.classes->size(), data.space->features, recipe.intercept);
    made.clear_pages(recipe.thread_count());
    return made;
  };
  state.gradient = vector(), state.direction = vector();
  for (std::size_t i = 0; i < kPairs; ++i) state.moves.push_back(vector()), state.changes.push_back(vector());
  state.pairs = CurvaturePairs(kPairs);
  return state;
}

LbfgsLane::LbfgsLane(const LaneSetup& setup)
    : setup_(setup),
      units_(setup.data, setup.recipe.thread_count()),
      team_(members_for(setup.plan.facts())),
      gradient_(setup.data, rows_at_once(setup.plan.problem), team_),
      ridge_(setup.ridge.on() ? setup.ridge.of_mean_loss() : 0),
      most_weight_(units_.most_weight(setup.recipe.intercept)),
      trial_(setup.data.classes->size(), setup.data.space->features, setup.recipe.intercept),
      trial_gradient_(setup.data.classes->size(), setup.data.space->features, setup.recipe.intercept),
      sums_(gradient_.blocks() * gradient_.parts() * setup.data.space->features * kLanes),
      intercepts_(gradient_.blocks() * kLanes),
      intercept_sums_(gradient_.blocks() * kLanes) {
  trial_.clear_pages(setup.recipe.thread_count());
  trial_gradient_.clear_pages(setup.recipe.thread_count());
  // Curvature is in proportion to the rows of a feature. Its square root is the better guess, as in Adam:
  // rare features settle late. A weight that hardly moves scores is held by the ridge alone.
  const double most_unit = ridge_ > 0 ? 1 / std::sqrt(ridge_) : std::numeric_limits<double>::infinity();
  for (std::size_t f = 0; f < units_.inverse.size(); ++f) {
    const double unit = static_cast<double>(units_.inverse[f]) / std::pow(units_.share[f], 0.25);
    line_units_.features.push_back(static_cast<float>(std::min(unit, most_unit)));
  }
  const double of_intercept = setup.ridge.includes_intercept() ? std::min(1.0, most_unit) : 1.0;
  line_units_.intercepts.assign(gradient_.blocks(), static_cast<float>(of_intercept));
  lines_ = lines_of(trial_);
  gradient_sums_.resize(lines_.size()), direction_sums_.resize(lines_.size()), largest_.resize(lines_.size());
  products_.resize(lines_.size() * (4 * kPairs + 1));
  total_.resize(4 * kPairs + 1);
  vectors_.reserve(2 * kPairs), factors_.reserve(2 * kPairs);
  for (auto* const of :
       {&moves_by_[0], &moves_by_[1], &changes_by_[0], &changes_by_[1], &of_move_, &of_change_})
    of->resize(kPairs);
}

void LbfgsLane::take(const Batch& batch, RunState& state) {
  for (std::size_t t = 0; t < batch.count; ++t, ++state.step) {
    if (!state.lbfgs.known) begin(state);
    if (!state.lbfgs.ended) try_next(state);
  }
}

// Loss and gradient of all rows, in the order of the data.
LbfgsLane::Point LbfgsLane::evaluate(const Weights& weights, const Weights& direction, Weights& gradient) {
  const DataView& data = setup_.data;
  const std::size_t features = data.space->features, size = features * kLanes, parts = gradient_.parts();
  const std::size_t at_once = rows_at_once(setup_.plan.problem);
  const double unit = 1 / (units_.mean_weight * static_cast<double>(data.size()));
  const bool intercept = weights.has_intercept();
  Point point;
  std::fill(intercepts_.begin(), intercepts_.end(), 0.0);
  for (std::size_t first = 0; first < data.size(); first += at_once) {
    gradient_.clear();
    for (std::size_t i = first; i < std::min(data.size(), first + at_once); ++i) {
      const ExampleId one{static_cast<std::uint32_t>(i)};
      gradient_.add(data.x(one), data.label(one), data.weight(one) * unit);
    }
    gradient_.find(weights);
    point.loss += gradient_.loss();
    const auto add_intercepts = [&](std::size_t block) {
      if (!intercept) return;
      alignas(64) float sum[kLanes] = {};
      gradient_.add_intercepts(block, sum);
      for (std::size_t lane = 0; lane < kLanes; ++lane)
        intercepts_[block * kLanes + lane] += static_cast<double>(sum[lane]);
    };
    if (parts == 1) {
      team_.share(gradient_.tasks(), [&](std::size_t /*member*/, std::size_t t) {
        const SoftmaxGradient::Blocks task = gradient_.task(t);
        if (first == 0) std::fill_n(&sums_[task.first * size], task.count * size, 0.0F);
        gradient_.add_to(task, &sums_[task.first * size]);
        for (std::size_t b = 0; b < task.count; ++b) add_intercepts(task.first + b);
      });
    } else {
      team_.share(gradient_.blocks() * parts, [&](std::size_t /*member*/, std::size_t task) {
        if (first == 0) std::fill_n(&sums_[task * size], size, 0.0F);
        gradient_.add_part(task / parts, task % parts, &sums_[task * size]);
        if (task % parts == 0) add_intercepts(task / parts);
      });
    }
  }
  for (std::size_t k = 0; k < intercepts_.size(); ++k)
    intercept_sums_[k] = static_cast<float>(intercepts_[k]);
  team_.share(lines_.size(), [&](std::size_t /*member*/, std::size_t t) {
    const Lines& lines = lines_[t];
    const bool of_features = lines.block < gradient_.blocks();
    const float* const sum = of_features ? &sums_[lines.block * parts * size + lines.from * kLanes]
                                         : &intercept_sums_[lines.from * kLanes];
    const double ridge = of_features || setup_.ridge.includes_intercept() ? ridge_ : 0;
    gradient_sums_[t] = finish_gradient(gradient, sum, of_features ? parts : 1, size, weights, direction,
                                        line_units_, lines, static_cast<float>(ridge));
  });
  double squares = 0;
  for (const GradientSums& sums : gradient_sums_)
    point.slope += sums.slope, point.gradient += sums.gradient, squares += sums.weights;
  point.loss += 0.5 * ridge_ * squares;
  return point;
}

// The direction is 0.
void LbfgsLane::begin(RunState& state) {
  LbfgsState& at = state.lbfgs;
  require_features_fit(units_, "lbfgs");
  state.largest_weight = state.weights.largest();
  if (!(state.largest_weight <= most_weight_)) setup_.guard.diverged(state, state.step, 0);
  const Point point = evaluate(state.weights, at.direction, at.gradient);
  if (!std::isfinite(point.loss) || !std::isfinite(point.gradient))
    setup_.guard.diverged(state, state.step, 0);
  at.known = true;
  at.search.loss = at.search.least = point.loss;
  at.squared_gradient = point.gradient;
  descend(state);
}

void LbfgsLane::try_next(RunState& state) {
  LbfgsState& at = state.lbfgs;
  const auto length = static_cast<float>(at.search.length);
  team_.share(lines_.size(), [&](std::size_t /*member*/, std::size_t t) {
    largest_[t] = step_along(trial_, state.weights, at.direction, line_units_, lines_[t], length);
  });
  trial_largest_ = 0;
  for (const float largest : largest_)
    if (!(static_cast<double>(largest) <= trial_largest_)) trial_largest_ = static_cast<double>(largest);
  LineSearch::Verdict verdict = LineSearch::Verdict::failed;
  if (trial_largest_ <= most_weight_) {
    const Point point = evaluate(trial_, at.direction, trial_gradient_);
    verdict = at.search.judge(point.loss, std::isfinite(point.gradient) ? point.slope : point.gradient);
    if (verdict == LineSearch::Verdict::accepted && accept(state, point)) return choose_direction(state);
    if (verdict == LineSearch::Verdict::shorter) return;
  }
  // No shorter step is better. Without the pairs the direction is that of the gradient; if that does not help
  // either, float32 has no better point.
  if (at.pairs.count() == 0)
    at.ended = true;
  else
    descend(state);
}

// False if no weight has moved.
bool LbfgsLane::accept(RunState& state, const Point& point) {
  LbfgsState& at = state.lbfgs;
  const std::size_t to = at.pairs.next_slot(), older = at.pairs.count();
  vectors_.clear();
  for (std::size_t i = 0; i < older; ++i) vectors_.push_back(&at.moves[at.pairs.slot(i)]);
  vectors_.push_back(&at.moves[to]);
  for (std::size_t i = 0; i < older; ++i) vectors_.push_back(&at.changes[at.pairs.slot(i)]);
  vectors_.push_back(&at.changes[to]);
  const std::size_t numbers = 2 * vectors_.size() + 1;
  const TwoPoints points{trial_, state.weights, trial_gradient_, at.gradient};
  team_.share(lines_.size(), [&](std::size_t /*member*/, std::size_t t) {
    double* const sums = &products_[t * numbers];
    std::fill_n(sums, numbers, 0.0);
    sums[numbers - 1] = find_pair(at.moves[to], at.changes[to], points, line_units_, lines_[t]);
    add_products(vectors_, trial_gradient_, at.changes[to], lines_[t], sums);
  });
  std::fill_n(total_.begin(), numbers, 0.0);
  for (std::size_t t = 0; t < lines_.size(); ++t)
    for (std::size_t i = 0; i < numbers; ++i) total_[i] += products_[t * numbers + i];
  const double moved = total_[numbers - 1];
  if (!(moved > 0)) return false;
  for (std::size_t i = 0; i <= older; ++i) {
    const std::size_t slot = i < older ? at.pairs.slot(i) : to;
    for (std::size_t by = 0; by < 2; ++by) {
      moves_by_[by][slot] = total_[2 * i + by];
      changes_by_[by][slot] = total_[2 * (older + 1 + i) + by];
    }
  }
  const double along = moves_by_[1][to], changed = changes_by_[1][to];
  if (along > kLeastCosine * std::sqrt(moved * changed)) at.pairs.add(moves_by_[1], changes_by_[1]);
  std::swap(state.weights, trial_);
  std::swap(at.gradient, trial_gradient_);
  state.largest_weight = trial_largest_;
  at.search.loss = point.loss;
  at.squared_gradient = point.gradient;
  return true;
}

void LbfgsLane::choose_direction(RunState& state) {
  LbfgsState& at = state.lbfgs;
  if (at.pairs.count() == 0) return descend(state);
  CurvaturePairs::Factors factors{of_move_, of_change_};
  at.pairs.direction(moves_by_[0], changes_by_[0], factors);
  if (!search_along(state, factors)) return descend(state);
  // With the right curvature a whole step gains half of that. Less than this is rounding.
  constexpr double kLeastGain = 1e-10;
  if (-at.search.slope <= kLeastGain * at.search.loss) at.ended = true;
}

// Along the gradient, by a length of 1.
void LbfgsLane::descend(RunState& state) {
  LbfgsState& at = state.lbfgs;
  at.pairs.clear();
  CurvaturePairs::Factors factors{of_move_, of_change_};
  factors.of_gradient = -1 / std::sqrt(at.squared_gradient);
  if (at.squared_gradient > 0 && search_along(state, factors)) return;
  at.ended = true;  // at the optimum, or nothing that float32 holds leads down
  at.direction.clear();
}

// False if the direction does not lead down.
bool LbfgsLane::search_along(RunState& state, const CurvaturePairs::Factors& factors) {
  LbfgsState& at = state.lbfgs;
  vectors_.clear(), factors_.clear();
  for (std::size_t i = 0; i < at.pairs.count(); ++i) {
    const std::size_t slot = at.pairs.slot(i);
    vectors_.push_back(&at.moves[slot]), factors_.push_back(static_cast<float>(factors.of_move[slot]));
    vectors_.push_back(&at.changes[slot]), factors_.push_back(static_cast<float>(factors.of_change[slot]));
  }
  team_.share(lines_.size(), [&](std::size_t /*member*/, std::size_t t) {
    direction_sums_[t] = combine(at.direction, at.gradient, static_cast<float>(factors.of_gradient), vectors_,
                                 factors_, line_units_, lines_[t]);
  });
  double slope = 0, largest = 0;
  for (const DirectionSums& sums : direction_sums_) {
    slope += sums.slope;
    if (!(static_cast<double>(sums.largest) <= largest)) largest = static_cast<double>(sums.largest);
  }
  if (!(slope < 0 && std::isfinite(slope) && std::isfinite(largest))) return false;
  // Half of what is left to the limit: weights that grow without end do so more and more slowly.
  const double room = 0.5 * (most_weight_ - state.largest_weight);
  at.search.start(at.search.loss, slope, largest > room ? room / largest : 1.0);
  return true;
}

}  // namespace truemax
