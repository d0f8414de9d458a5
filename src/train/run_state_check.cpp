// A state may come from a file that a stranger wrote. A checksum proves only that its bytes are the writer's.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>

#include "core/damaged_state.hpp"
#include "train/run_state.hpp"
#include "weights/adam.hpp"

namespace truemax {
namespace {

void require(bool holds) {
  if (!holds) throw damaged_state();
}

template <class Numbers>
void require_finite(const Numbers& numbers) {
  for (const auto v : numbers) require(std::isfinite(v));
}

template <class Numbers>
void require_at_least_zero(const Numbers& numbers) {
  for (const auto v : numbers) require(std::isfinite(v) && v >= 0);
}

// Scales are factors from above 0 to 1, relative to a common one.
void require_weights(const Weights& weights) {
  require(std::isfinite(weights.largest()));
  const Weights::Scales scales = weights.scales();
  require(scales.common > 0 && std::isfinite(scales.common));
  for (const double scale : scales.of_class) require(scale >= 0 && std::isfinite(scale));
}

void require_table(const Embedding& table) {
  std::size_t numbers = 0;
  require(!__builtin_mul_overflow(table.rows, table.columns, &numbers) && numbers == table.numbers.size());
  // One of several ranks may have no row.
  require(!table.numbers.empty() || table.rows == 0);
  require_finite(table.numbers);
}

// The factors of places, a layer, or nothing.
void require_tables(const EncoderTables& tables, std::size_t columns) {
  require_table(tables.features);
  require_table(tables.mixing);
  require(tables.layers <= 1 && (tables.layers == 0 || !tables.mixing.empty()));
  require(tables.empty() || tables.features.columns == columns);
  require(tables.mixing.empty() || (!tables.empty() && tables.mixing.columns == columns));
}

// Running means of squares: one for each number of a table, or one for each row.
void require_squares(std::span<const float> squares, const Embedding& table) {
  require(squares.size() == table.numbers.size() || squares.size() == table.rows);
  require_at_least_zero(squares);
}

void require_learnt(const LearntState& learnt, const Weights& weights) {
  require_tables(learnt.tables, weights.features());
  require_table(learnt.classes);
  require(learnt.classes.empty() ||
          (learnt.classes.rows == weights.classes() && learnt.classes.columns == weights.features()));
  // Tied: W is the first K rows of E.
  require(learnt.empty() || !learnt.tied() || learnt.tables.features.rows >= weights.classes());
  require(!learnt.empty() || learnt.classes.empty());
  require_squares(learnt.features_square, learnt.tables.features);
  require_squares(learnt.classes_square, learnt.classes);
  require(learnt.mixing_square.size() == learnt.tables.mixing.numbers.size());
  require_at_least_zero(learnt.mixing_square);
  require(learnt.intercept.empty() ||
          (learnt.intercept.size() == weights.classes() && !learnt.empty() && weights.has_intercept()));
  require(learnt.intercept_square.size() == learnt.intercept.size());
  require_finite(learnt.intercept);
  require_at_least_zero(learnt.intercept_square);
}

void require_companion(const CompanionState& companion, const RunState& state) {
  const Weights& difference = companion.difference;
  require_weights(difference);
  const std::size_t classes = difference.classes();
  require(classes == 0 ||
          (classes == state.weights.classes() && difference.features() == state.weights.features() &&
           difference.has_intercept() == state.weights.has_intercept()));
  require(companion.touched.size() == classes && companion.journal.size() == classes);
  require(std::isfinite(companion.log_decay) && companion.log_decay <= 0);
  require_finite(companion.touched);
  // Not more rows than features, since each has one at least: read() reserves this much for every class.
  require(companion.journal_limit <= difference.features() + 1);
  for (const std::vector<ExampleId>& rows : companion.journal) {
    require(rows.size() <= companion.journal_limit);
    for (const ExampleId i : rows) require(number_of(i) < state.rows.size());
  }
}

// Of all weights, or of none. Over ranks there are none.
void require_moments(const MomentState& moments, const Weights& weights) {
  require_weights(moments.mean);
  require_weights(moments.square);
  require(at_least_zero(moments.square));
  const auto fits = [&](const Weights& one) {
    return one.classes() == weights.classes() && one.features() == weights.features() &&
           one.has_intercept() == weights.has_intercept() && !one.scaled();
  };
  const bool none = moments.empty() && moments.square.classes() == 0;
  require(none ||
          (fits(moments.mean) && fits(moments.square) && weights.share() == nullptr && !weights.scaled()));
}

// Of all weights, or of none; a pair in use has its inner products, by which the recursion divides.
void require_lbfgs(const LbfgsState& lbfgs, const Weights& weights) {
  const CurvaturePairs& pairs = lbfgs.pairs;
  require(lbfgs.moves.size() == lbfgs.changes.size() && lbfgs.moves.size() == pairs.rooms);
  require(lbfgs.empty() == (pairs.rooms == 0) && lbfgs.empty() == (lbfgs.direction.classes() == 0));
  require(pairs.move_change.size() == pairs.rooms * pairs.rooms);
  require(pairs.change_change.size() == pairs.move_change.size());
  require(pairs.used <= pairs.rooms && pairs.oldest < std::max<std::uint64_t>(1, pairs.rooms));
  require_finite(pairs.move_change);
  require_finite(pairs.change_change);
  for (std::size_t i = 0; i < pairs.used; ++i) {
    const std::size_t diagonal = pairs.slot(i) * (pairs.rooms + 1);
    require(pairs.move_change[diagonal] > 0 && pairs.change_change[diagonal] > 0);
  }
  const LineSearch& search = lbfgs.search;
  require_finite(std::array{search.loss, search.slope, search.length, search.least, lbfgs.squared_gradient});
  const auto fits = [&](const Weights& one) {
    require_weights(one);
    return one.classes() == weights.classes() && one.features() == weights.features() &&
           one.has_intercept() == weights.has_intercept() && !one.scaled();
  };
  if (lbfgs.empty()) return;
  require(weights.share() == nullptr && !weights.scaled());
  for (const Weights* const one : {&lbfgs.gradient, &lbfgs.direction}) require(fits(*one));
  for (const auto* const all : {&lbfgs.moves, &lbfgs.changes})
    for (const Weights& one : *all) require(fits(one));
}

void require_metrics(const std::optional<Metrics>& metrics) {
  if (!metrics) return;
  require_finite(std::array{metrics->log_loss, metrics->error, metrics->calibration_error});
  require_finite(metrics->precision);
  if (metrics->estimate) require(std::isfinite(metrics->estimate->error_bar));
  if (metrics->ranking) {
    require(std::isfinite(metrics->ranking->mrr));
    require_finite(metrics->ranking->hits);
  }
}

void require_record(const std::optional<EvaluationRecord>& record) {
  if (!record) return;
  require(std::isfinite(record->train_seconds) && record->train_seconds >= 0);
  for (const auto* metrics : {&record->train, &record->valid, &record->test}) require_metrics(*metrics);
}

void require_plan(const PlanState& plan) {
  require(std::isfinite(plan.seconds) && plan.seconds >= 0);
  const Segment* before = nullptr;
  for (const Segment& segment : plan.segments) {
    require(segment.step > 0 && std::isfinite(segment.step));
    require(before == nullptr ? segment.first_step == 0 : segment.first_step > before->first_step);
    before = &segment;
  }
}

void require_patience(const PatienceState& patience, const Weights& weights) {
  require_record(patience.best);
  require_tables(patience.tables, weights.features());
  require(patience.weights == nullptr || patience.weights->fits(weights));
}

}  // namespace

void require_consistent(const RunState& state) {
  const std::size_t classes = state.weights.classes();
  require_weights(state.weights);
  require_learnt(state.learnt, state.weights);
  for (const RowState& row : state.rows) require(std::isfinite(row.u) && std::isfinite(row.squared_norm));
  require(std::isfinite(state.largest_weight) && state.largest_weight >= 0);
  require_companion(state.companion, state);
  const BlockShare* const share = state.weights.share();
  const std::size_t all = share == nullptr ? classes : share->all_classes();
  for (const ClassId k : state.draw_memory) require(k < all || k == kUnseenClass);
  require(state.norms.of_class.empty() || state.norms.of_class.size() == classes);
  require_at_least_zero(state.norms.of_class);
  require_at_least_zero(std::array{state.norms.total, state.norms.common});
  require_moments(state.moments, state.weights);
  require_lbfgs(state.lbfgs, state.weights);
  require_plan(state.plan);
  require_record(state.last);
  require_patience(state.patience, state.weights);
}

}  // namespace truemax
