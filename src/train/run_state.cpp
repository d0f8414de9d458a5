#include "train/run_state.hpp"

#include <algorithm>
#include <numeric>
#include <span>
#include <type_traits>
#include <utility>

#include "core/archive.hpp"
#include "core/damaged_state.hpp"
#include "core/huge_pages.hpp"
#include "ranks/together.hpp"
#include "weights/class_arrays.hpp"

namespace truemax {

// Without padding.
static_assert(std::has_unique_object_representations_v<DataStatistics>);
static_assert(sizeof(RowState) == 2 * sizeof(double) && sizeof(Segment) == 2 * sizeof(double));
template <>
inline constexpr bool kPlain<DataStatistics> = true;
template <>
inline constexpr bool kPlain<RowState> = true;
template <>
inline constexpr bool kPlain<Segment> = true;

namespace {

// What a rank has only of its own classes, or may have only of its own features. share: null: it has all.
template <class Values>
struct OfClasses {
  Values& values;
  const BlockShare* share;
};
template <class Values>
OfClasses(Values&, const BlockShare*) -> OfClasses<Values>;

}  // namespace

// The archive finds these by its own namespace: a nameless one would hide them.

template <class Numbers, class Archive>
static void each_field(const OfClasses<Numbers>& own, Archive& archive) {
  if constexpr (Archive::kReads)
    get_of_classes(archive.stream(), own.share, own.values);
  else
    put_of_classes(archive.stream(), own.share, std::span(std::as_const(own.values)));
}

template <MaybeConst<Embedding> Table, class Archive>
static void each_field(const OfClasses<Table>& own, Archive& archive) {
  Table& table = own.values;
  std::uint64_t rows = table.columns == 0 ? 0 : all_of(own.share, table.rows, false);
  archive(rows, table.columns, OfClasses{table.numbers, own.share});
  if constexpr (Archive::kReads) {
    if (rows > 0 && own.share != nullptr) {
      if (rows != own.share->all_classes()) throw damaged_state();
      rows = own.share->classes();
    }
    table.rows = rows;
  }
}

static void each_field(MaybeConst<EncoderTables> auto& t, auto& archive) {
  archive(OfClasses{t.features, t.share.get()}, OfClasses{t.mixing, nullptr}, t.layers);
}

static void each_field(MaybeConst<CompanionState> auto& c, auto& archive) {
  archive(c.difference, c.log_decay, c.touched, c.journal, c.journal_limit);
}

static void each_field(MaybeConst<MomentState> auto& m, auto& archive) {
  archive(m.mean, m.square, m.updates);
}

static void each_field(MaybeConst<CurvaturePairs> auto& p, auto& archive) {
  archive(p.move_change, p.change_change, p.rooms, p.oldest, p.used);
}

static void each_field(MaybeConst<LineSearch> auto& s, auto& archive) {
  archive(s.loss, s.slope, s.length, s.least, s.tries);
}

static void each_field(MaybeConst<LbfgsState> auto& l, auto& archive) {
  archive(l.known, l.ended, l.gradient, l.direction, l.moves, l.changes, l.pairs, l.search,
          l.squared_gradient);
}

static void each_field(MaybeConst<Estimate> auto& e, auto& archive) {
  archive(e.error_bar, e.rows, e.of_rows, e.classes, e.of_classes);
}

static void each_field(MaybeConst<RankingMetrics> auto& r, auto& archive) {
  archive(r.mrr, r.hits, r.queries, r.candidates, r.unseen_candidates, r.filtered);
}

static void each_field(MaybeConst<Metrics> auto& m, auto& archive) {
  archive(m.log_loss, m.error, m.calibration_error, m.precision, m.has_top, m.rows, m.examples, m.estimate,
          m.statistics, m.ranking);
}

static void each_field(MaybeConst<EvaluationRecord> auto& r, auto& archive) {
  archive(r.epoch, r.steps, r.train_seconds, r.train, r.valid, r.test, r.best);
}

static void each_field(MaybeConst<PlanState> auto& p, auto& archive) {
  archive(p.seconds, p.segments);
}

template <class Archive>
static void each_field(MaybeConst<RunState> auto& s, Archive& archive) {
  const std::shared_ptr<const BlockShare> shared = s.weights.shared_share();
  const BlockShare* const share = shared.get();
  auto& learnt = s.learnt;
  archive(s.weights, learnt.tables, OfClasses{learnt.classes, share}, OfClasses{learnt.intercept, share},
          OfClasses{learnt.features_square, learnt.tables.share.get()}, learnt.mixing_square,
          OfClasses{learnt.classes_square, share}, OfClasses{learnt.intercept_square, share}, learnt.updates);
  archive(s.rows, s.epoch, s.step, s.newton_done, s.largest_weight, s.companion, s.draw_memory);
  double total = s.norms.total;  // a rank has that of its own classes
  if constexpr (!Archive::kReads)
    if (share != nullptr) total = ranks().sum_of(total);
  archive(OfClasses{s.norms.of_class, share}, total, s.norms.common);
  if constexpr (Archive::kReads)
    s.norms.total =
        share == nullptr ? total : std::accumulate(s.norms.of_class.begin(), s.norms.of_class.end(), 0.0);
  archive(s.moments, s.lbfgs, s.plan, s.last, s.patience.waited, s.patience.best);
  auto& kept = s.patience.weights;
  bool there = kept != nullptr && !kept->empty();
  archive(there);
  if constexpr (Archive::kReads) {
    if (!there) kept.reset();
    if (there && kept == nullptr) kept = std::make_shared<KeptWeights>("");
    if (there) kept->read(archive.stream(), shared);
  } else if (there) {
    kept->write(archive.stream());
  }
  archive(s.patience.tables);
}

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
  ArchiveWriter{to}(state);
}

void read(RunState& state, StateSource& from) {
  state.zero_weights = state.pages_cleared = false;
  state.patience.tables.share = state.learnt.tables.share;
  ArchiveReader{from}(state);
  together(ranks(), [&] { require_consistent(state); });
  for (std::vector<ExampleId>& rows : state.companion.journal) rows.reserve(state.companion.journal_limit);
}

}  // namespace truemax
