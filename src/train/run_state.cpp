#include "train/run_state.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>
#include <type_traits>

#include "core/damaged_state.hpp"
#include "core/huge_pages.hpp"
#include "ranks/together.hpp"
#include "weights/class_arrays.hpp"

namespace truemax {
namespace {

// One list of fields for reading and writing. Structs with padding are written field by field: their padding
// would be bytes that no run has set.
template <class State, class Archive>
void each_field_of_estimate(State& e, Archive& archive) {
  archive(e.error_bar);
  archive(e.rows);
  archive(e.of_rows);
  archive(e.classes);
  archive(e.of_classes);
}

template <class State, class Archive>
void each_field_of_ranking(State& r, Archive& archive) {
  archive(r.mrr);
  for (auto& hits : r.hits) archive(hits);
  archive(r.queries);
  archive(r.candidates);
  archive(r.unseen_candidates);
  archive(r.filtered);
}

template <class State, class Archive>
void each_field_of_metrics(State& m, Archive& archive) {
  archive(m.log_loss);
  archive(m.error);
  archive(m.calibration_error);
  for (auto& precision : m.precision) archive(precision);
  archive(m.has_top);
  archive(m.rows);
  archive(m.examples);
  archive(m.estimate);
  archive(m.statistics);
  archive(m.ranking);
}

template <class State, class Archive>
void each_field_of_record(State& r, Archive& archive) {
  archive(r.epoch);
  archive(r.steps);
  archive(r.train_seconds);
  archive(r.train);
  archive(r.valid);
  archive(r.test);
  archive(r.best);
}

// of_classes, of_features: what a rank has only of its own classes, or may have only of its own features.
template <class State, class Archive>
void each_field(State& s, Archive& archive) {
  archive(s.weights);
  archive(s.learnt.tables);
  archive.of_classes(s.learnt.classes);
  archive.of_classes(s.learnt.intercept);
  archive.of_features(s.learnt.features_square, s.learnt.tables);
  archive(s.learnt.mixing_square);
  archive.of_classes(s.learnt.classes_square);
  archive.of_classes(s.learnt.intercept_square);
  archive(s.learnt.updates);
  archive(s.rows);
  archive(s.epoch);
  archive(s.step);
  archive(s.newton_done);
  archive(s.largest_weight);
  archive(s.companion.difference);
  archive(s.companion.log_decay);
  archive(s.companion.touched);
  archive(s.companion.journal);
  archive(s.companion.journal_limit);
  archive(s.draw_memory);
  archive.of_classes(s.norms.of_class);
  archive.total_of(s.norms);
  archive(s.norms.common);
  archive(s.moments.mean);
  archive(s.moments.square);
  archive(s.moments.updates);
  archive(s.lbfgs.known);
  archive(s.lbfgs.ended);
  archive(s.lbfgs.gradient);
  archive(s.lbfgs.direction);
  archive(s.lbfgs.moves);
  archive(s.lbfgs.changes);
  archive(s.lbfgs.pairs.move_change);
  archive(s.lbfgs.pairs.change_change);
  archive(s.lbfgs.pairs.rooms);
  archive(s.lbfgs.pairs.oldest);
  archive(s.lbfgs.pairs.used);
  archive(s.lbfgs.search.loss);
  archive(s.lbfgs.search.slope);
  archive(s.lbfgs.search.length);
  archive(s.lbfgs.search.least);
  archive(s.lbfgs.search.tries);
  archive(s.lbfgs.squared_gradient);
  archive(s.plan.seconds);
  archive(s.plan.segments);
  archive(s.last);
  archive(s.patience.waited);
  archive(s.patience.best);
  archive(s.patience.weights);
  archive(s.patience.tables);
}

// Written as its bytes: it has no padding.
template <class T>
inline constexpr bool kPlain = std::is_arithmetic_v<T> || std::is_same_v<T, DataStatistics>;
static_assert(std::has_unique_object_representations_v<DataStatistics>);
static_assert(sizeof(RowState) == 2 * sizeof(double) && sizeof(Segment) == 2 * sizeof(double));

class Writer {
 public:
  Writer(StateSink& to, const BlockShare* share) : to_(to), share_(share) {}
  template <class T>
  void operator()(const T& value) {
    static_assert(kPlain<T>);
    to_.put(value);
  }
  template <class T>
  void operator()(const std::optional<T>& value) {
    (*this)(value.has_value());
    if (value) (*this)(*value);
  }
  void operator()(const EvaluationRecord& record) { each_field_of_record(record, *this); }
  void operator()(const Metrics& metrics) { each_field_of_metrics(metrics, *this); }
  void operator()(const Estimate& estimate) { each_field_of_estimate(estimate, *this); }
  void operator()(const RankingMetrics& ranking) { each_field_of_ranking(ranking, *this); }
  template <class T, class Allocator>
  void operator()(const std::vector<T, Allocator>& values) {
    to_.put_array(std::span<const T>(values));
  }
  template <class T, class Allocator>
  void of_classes(const std::vector<T, Allocator>& values) {
    put_of_classes(to_, share_, std::span<const T>(values));
  }
  void of_classes(const Embedding& table) { put_table(table, share_); }
  void total_of(const NormState& norms) {
    to_.put(share_ == nullptr ? norms.total : ranks().sum_of(norms.total));
  }
  template <class T, class Allocator>
  void of_features(const std::vector<T, Allocator>& values, const EncoderTables& tables) {
    put_of_classes(to_, tables.share.get(), std::span<const T>(values));
  }
  void operator()(const EncoderTables& tables) {
    put_table(tables.features, tables.share.get());
    (*this)(tables.mixing);
    (*this)(tables.layers);
  }
  void operator()(const Embedding& table) {
    to_.put(std::uint64_t{table.rows});
    to_.put(std::uint64_t{table.columns});
    (*this)(table.numbers);
  }
  template <class T>
  void operator()(const std::vector<std::vector<T>>& lists) {
    to_.put(std::uint64_t{lists.size()});
    for (const std::vector<T>& list : lists) (*this)(list);
  }
  void operator()(const Weights& weights) { weights.write(to_); }
  void operator()(const std::vector<Weights>& vectors) {
    to_.put(std::uint64_t{vectors.size()});
    for (const Weights& one : vectors) one.write(to_);
  }
  void operator()(const std::shared_ptr<KeptWeights>& kept) {
    const bool there = kept != nullptr && !kept->empty();
    (*this)(there);
    if (there) kept->write(to_);
  }

 private:
  void put_table(const Embedding& table, const BlockShare* share) {
    to_.put(table.columns == 0 ? std::uint64_t{0} : all_of(share, table.rows, false));
    to_.put(std::uint64_t{table.columns});
    put_of_classes(to_, share, std::span<const float>(table.numbers));
  }
  StateSink& to_;
  const BlockShare* share_;
};

class Reader {
 public:
  Reader(StateSource& from, std::shared_ptr<const BlockShare> share)
      : from_(from), share_(std::move(share)) {}
  template <class T>
  void operator()(T& value) {
    static_assert(kPlain<T>);
    from_.get(value);
  }
  template <class T>
  void operator()(std::optional<T>& value) {
    bool there = false;
    (*this)(there);
    value.reset();
    if (there) (*this)(value.emplace());
  }
  void operator()(EvaluationRecord& record) { each_field_of_record(record, *this); }
  void operator()(Metrics& metrics) { each_field_of_metrics(metrics, *this); }
  void operator()(Estimate& estimate) { each_field_of_estimate(estimate, *this); }
  void operator()(RankingMetrics& ranking) { each_field_of_ranking(ranking, *this); }
  template <class T, class Allocator>
  void operator()(std::vector<T, Allocator>& values) {
    from_.get_array(values);
  }
  template <class T, class Allocator>
  void of_classes(std::vector<T, Allocator>& values) {
    get_of_classes(from_, share_.get(), values);
  }
  void of_classes(Embedding& table) { get_table(table, share_.get()); }
  void total_of(NormState& norms) {  // of own classes, which are known by now
    from_.get(norms.total);
    if (share_ != nullptr) norms.total = std::accumulate(norms.of_class.begin(), norms.of_class.end(), 0.0);
  }
  template <class T, class Allocator>
  void of_features(std::vector<T, Allocator>& values, const EncoderTables& tables) {
    get_of_classes(from_, tables.share.get(), values);
  }
  void operator()(EncoderTables& tables) {
    get_table(tables.features, tables.share.get());
    (*this)(tables.mixing);
    (*this)(tables.layers);
  }
  void operator()(Embedding& table) {
    std::uint64_t rows = 0, columns = 0;
    from_.get(rows);
    from_.get(columns);
    (*this)(table.numbers);
    table.rows = rows, table.columns = columns;
  }
  template <class T>
  void operator()(std::vector<std::vector<T>>& lists) {
    lists.resize(from_.length_of<std::uint64_t>());
    for (std::vector<T>& list : lists) (*this)(list);
  }
  void operator()(Weights& weights) { weights.read(from_); }
  void operator()(std::vector<Weights>& vectors) {
    vectors.resize(from_.length_of<std::uint64_t>());
    for (Weights& one : vectors) one.read(from_);
  }
  void operator()(std::shared_ptr<KeptWeights>& kept) {
    bool there = false;
    (*this)(there);
    if (!there) return kept.reset();
    if (kept == nullptr) kept = std::make_shared<KeptWeights>("");
    kept->read(from_, share_);
  }

 private:
  void get_table(Embedding& table, const BlockShare* share) {
    std::uint64_t rows = 0, columns = 0;
    from_.get(rows);
    from_.get(columns);
    get_of_classes(from_, share, table.numbers);
    if (rows > 0 && share != nullptr) {
      if (rows != share->all_classes()) throw damaged_state();
      rows = share->classes();
    }
    table.rows = rows, table.columns = columns;
  }
  StateSource& from_;
  std::shared_ptr<const BlockShare> share_;
};

}  // namespace

void clear_fresh_pages(RunState& state, const DataView& data, const Recipe& recipe, std::size_t threads) {
  if (!has_fresh_pages(state, data, recipe)) return;
  state.weights.clear_pages(threads);
  state.pages_cleared = true;
}

bool has_fresh_pages(const RunState& state, const DataView& data, const Recipe& recipe) {
  constexpr std::uint64_t kRowsOfPage = 4;
  if (!state.zero_weights || state.pages_cleared || state.epoch > 0 || state.step > 0) return false;
  std::uint64_t rows = recipe.epochs == 0 ? 0 : data.size();
  if (recipe.steps > 0 && recipe.steps < rows) rows = std::min(rows, recipe.steps * recipe.rows_per_step);
  return state.weights.bytes() / detail::kHugePage * kRowsOfPage <= rows;
}

void write(const RunState& state, StateSink& to) {
  Writer writer(to, state.weights.share());
  each_field(state, writer);
}

void read(RunState& state, StateSource& from) {
  state.zero_weights = state.pages_cleared = false;
  Reader reader(from, state.weights.shared_share());
  state.patience.tables.share = state.learnt.tables.share;
  each_field(state, reader);
  together(ranks(), [&] { require_consistent(state); });
  for (std::vector<ExampleId>& rows : state.companion.journal) rows.reserve(state.companion.journal_limit);
}

}  // namespace truemax
