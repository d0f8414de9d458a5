#include "train/start.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "model/model.hpp"
#include "ranks/ranks.hpp"
#include "rule/methods.hpp"
#include "train/adam_lane.hpp"
#include "train/companion.hpp"
#include "train/lbfgs_lane.hpp"
#include "train/learnt_lane.hpp"
#include "train/x_chunks.hpp"
#include "weights/fast_tile.hpp"
#include "weights/kernels.hpp"

namespace truemax {
namespace {

// The log of a class's frequency relative to the most frequent one.
float first_intercept(const ClassList& classes, ClassId k) {
  const double most = classes.count(0);
  const double share = most > 0 && classes.count(k) > 0 ? classes.count(k) / most : 1e-12;
  return static_cast<float>(std::log(share));
}

// Sets the intercepts; returns the log of the sum of the exponentials of those of all ranks.
double start_intercept(const ClassList& classes, Weights& weights) {
  double sum = 0;
  for (ClassId k = 0; k < classes.size(); ++k) {
    const float intercept = first_intercept(classes, k);
    sum += std::exp(static_cast<double>(intercept));
    if (const auto own = own_number(weights, k)) weights.intercept()[*own] = intercept;
  }
  return std::log(sum);
}

}  // namespace

Weights cleared_weights(const DataView& data, const Recipe& recipe) {
  const auto share = share_of(*data.classes);
  Weights weights(share ? share->classes() : data.classes->size(),
                  recipe.weight_columns(data.space->features), recipe.intercept);
  weights.clear_pages(recipe.thread_count());
  return weights;
}

RunState make_state(const DataView& data, const Recipe& recipe, Weights* spare) {
  const MethodInfo& info = find_method(recipe.method);
  RunState state;
  const auto share = share_of(*data.classes);
  const std::size_t classes = share ? share->classes() : data.classes->size(),
                    features = recipe.weight_columns(data.space->features);
  if (spare != nullptr && spare->classes() == classes && spare->features() == features &&
      spare->has_intercept() == recipe.intercept) {
    state.weights = std::move(*spare);
    *spare = Weights();
    state.weights.clear();
  } else {
    if (spare != nullptr)
      *spare = Weights();  // of another shape: its memory is not needed beside the new one
    state.weights = Weights(classes, features, recipe.intercept);
  }
  state.weights.set_share(share);
  state.zero_weights = true;
  if (recipe.ridge > 0 && recipe.hidden == 0 && !info.by_weight) state.weights.allow_scaling();
  if (info.all_rows)
    state.lbfgs = LbfgsLane::start(data, recipe);
  else if (info.by_weight)
    state.moments = AdamLane::start(data, recipe);
  if (info.has_companion) Companion::start(state.companion, data, recipe.intercept);
  double log_total = std::log(static_cast<double>(data.classes->size()));  // log of the sum of exp(intercept)
  if (recipe.start_at_frequencies) {
    log_total = start_intercept(*data.classes, state.weights);
    for (ClassId k = 0; k < data.classes->size(); ++k)
      state.largest_weight =
          std::max(state.largest_weight, std::abs(static_cast<double>(first_intercept(*data.classes, k))));
  }
  if (recipe.hidden > 0) {
    state.learnt = LearntLane::start(data, recipe);
    if (recipe.intercept)
      std::copy_n(state.weights.intercept().begin(), classes, state.learnt.intercept.begin());
    for (const Embedding* table : {&state.learnt.tables.features, &state.learnt.tables.mixing})
      state.largest_weight = std::max<double>(state.largest_weight,
                                              largest_absolute(table->numbers.data(), table->numbers.size()));
    state.largest_weight = ranks().max_of(state.largest_weight);
  }
  state.rows.resize(data.inputs());
  if (data.shares_inputs()) {  // log-normalisers, which no label moves
    for (RowState& row : state.rows) row.u = log_total;
    return state;
  }
  each_x_of_chunks(data, recipe.thread_count(), [&](std::size_t /*chunk*/, ExampleId i, const RowView& x) {
    state.row(i).squared_norm = squared_norm(x, recipe.intercept);
    if (!info.exact_start) return;
    state.row(i).u = log_total;
    if (recipe.start_at_frequencies)
      state.row(i).u -= static_cast<double>(first_intercept(*data.classes, data.label(i)));
  });
  return state;
}

}  // namespace truemax
