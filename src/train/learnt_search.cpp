// The trials of --hidden: ridge, step and epochs. A row costs far more than in a linear step, so there are
// few trials, on a part of the rows if there are many. What is best on a part is best on all rows if the
// ridge per row stays the same and the epochs fall a little.
#include <algorithm>
#include <cmath>
#include <functional>

#include "data/hold_out.hpp"
#include "train/automatic.hpp"
#include "train/step_shape.hpp"
#include "train/trial_runner.hpp"

namespace truemax {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kRidgeMove = 3.1622776601683795, kStepMove = 2;
constexpr int kMostRidgeMoves = 4, kMostStepMoves = 2;
// What a move must gain: less is noise of the judges. A longer run costs twice as much.
constexpr double kGainSame = 5e-4, kGainLonger = 0.005;
constexpr double kGainLearnt = 0.002, kHopeless = 1.1;  // against the linear model
constexpr std::size_t kMostJudges = 20000, kFewestTrialRows = 20000;
constexpr double kTrialSeconds = 10, kFlops = 8e10;  // counted, not measured: the same choices everywhere

class LearntSearch {
 public:
  LearntSearch(const TrainSets& sets, TrainOptions& options, const Stopwatch& watch,
               std::span<TrainObserver* const> observers, const std::atomic<bool>& stop, Weights& spare,
               const TrainOptions* rival)
      : sets_(sets), options_(options), runner_(watch, kNever, observers, stop, spare), rival_(rival) {}

  SearchResult run() {
    const bool few = !sets_.valid && sets_.data.row_count() < kFewestRows && !on_training_rows();
    if (options_.open.searches() && !few && options_.seconds == 0) search();
    result_.finished = !runner_.stopped();
    result_.trials = runner_.count();
    options_.open = {};
    options_.target = Target::valid;
    options_.valid_share = 0;
    options_.patience = 0;
    return result_;
  }

 private:
  // --target train: the rows of a trial are its judges too.
  bool on_training_rows() const { return options_.target == Target::train; }

  // What a trial of this length costs on so many rows, in seconds.
  double seconds(double rows, double epochs) const {
    return 6 * rows * epochs * static_cast<double>(options_.hidden) *
           static_cast<double>(options_.classes_per_step) / kFlops;
  }

  void search() {
    TrainOptions& o = options_;
    std::optional<RowSplit> own;
    if (!sets_.valid && !on_training_rows()) own = set_aside(sets_.data, o.valid_share, o.seed);
    const DataView& data = own ? own->rest : sets_.data;
    best_ = o;
    // Trials count in epochs, because they may have fewer rows.
    if (o.steps > 0) best_.epochs = o.steps / steps_per_epoch(sets_.data.size(), o) + 1;
    const auto n = static_cast<double>(data.size());
    const double fits = kTrialSeconds / seconds(1, static_cast<double>(best_.epochs));
    const double part = std::min(n, std::max(fits, static_cast<double>(kFewestTrialRows)));
    const DataView small =
        part < n
            ? sample_part(data, static_cast<std::size_t>(part / n * static_cast<double>(data.row_count())),
                          o.seed + 1)
            : data;
    const DataView& valid = own ? own->valid : on_training_rows() ? small : *sets_.valid;
    const DataView judge =
        with_labels_of(sample_part(valid, std::min(valid.row_count(), kMostJudges), o.seed), small);
    const TrialRows rows{small, judge};
    // Options of a run on all rows, as a trial on these rows has them.
    const double share = static_cast<double>(small.size()) / static_cast<double>(sets_.data.size());
    const double linear = rival_ != nullptr ? loss("linear", rows, *rival_, share) : kNever;
    least_ = loss("ridge", rows, best_, share);
    if (o.open.ridge)
      climb("ridge", rows, share, kMostRidgeMoves, kGainSame, kRidgeMove,
            [](TrainOptions& with, double by) { with.ridge = clamped_ridge(with.ridge * by); });
    if (least_ > kHopeless * linear) {
      yield(linear);
      return;
    }
    if (o.open.step)
      climb("step", rows, share, kMostStepMoves, kGainSame, kStepMove,
            [](TrainOptions& with, double by) { with.step = clamped_step(with.step * by); });
    if (o.open.epochs) epochs(rows, share);
    result_.ridge = o.open.ridge, result_.step = o.open.step, result_.epochs = o.open.epochs;
    result_.log_loss = least_;
    if (rival_ != nullptr && !(least_ < linear * (1 - kGainLearnt))) {
      yield(linear);
      return;
    }
    if (rival_ != nullptr) result_.compared = {linear, least_, o.hidden};
    o.ridge = best_.ridge, o.step = best_.step;
    if (o.open.epochs) o.epochs = best_.epochs;
    // More rows need fewer epochs: the fourth root is what two sets of very different size ask for.
    if (o.open.epochs && share < 0.8)
      o.epochs = std::max<std::uint64_t>(
          2, static_cast<std::uint64_t>(std::round(static_cast<double>(o.epochs) * std::pow(share, 0.25))));
  }

  // The linear model is better.
  void yield(double linear) {
    result_.compared = {linear, least_, options_.hidden};
    options_ = *rival_;
  }

  double loss(const char* about, const TrialRows& rows, TrainOptions with, double share) {
    with.ridge *= share;  // the same per row
    return runner_.run(about, rows, with, 0);
  }

  bool adopt(const char* about, const TrialRows& rows, double share, const TrainOptions& with, double gain) {
    const double found = loss(about, rows, with, share);
    if (runner_.stopped() || !(found < least_ * (1 - gain))) return false;
    least_ = found, best_ = with;
    return true;
  }

  // Moves up by the factor while the loss falls, else down.
  void climb(const char* about, const TrialRows& rows, double share, int most, double gain, double factor,
             const std::function<void(TrainOptions&, double)>& move) {
    for (const double by : {factor, 1 / factor}) {
      bool moved = false;
      for (; most > 0 && !runner_.stopped(); --most) {
        TrainOptions with = best_;
        move(with, by);
        if (!adopt(about, rows, share, with, gain)) {
          --most;
          break;
        }
        moved = true;
      }
      if (moved) return;
    }
  }

  // Longer runs, with more ridge where that is better; else shorter ones.
  void epochs(const TrialRows& rows, double share) {
    constexpr std::uint64_t kMostEpochs = 80;
    const std::uint64_t first = best_.epochs;
    while (2 * best_.epochs <= kMostEpochs && !runner_.stopped() &&
           seconds(static_cast<double>(rows.data.size()), 2.0 * static_cast<double>(best_.epochs)) <=
               4 * kTrialSeconds) {
      TrainOptions with = best_;
      with.epochs *= 2;
      bool better = adopt("epochs", rows, share, with, kGainLonger);
      if (options_.open.ridge) {
        with.ridge = clamped_ridge(with.ridge * kRidgeMove);
        better |= adopt("both", rows, share, with, better ? kGainSame : kGainLonger);
      }
      if (!better) break;
    }
    if (best_.epochs > first || first < 4) return;
    TrainOptions with = best_;
    with.epochs /= 2;
    adopt("epochs", rows, share, with, kGainSame);
  }

  const TrainSets& sets_;
  TrainOptions& options_;
  TrialRunner runner_;
  const TrainOptions* rival_;
  TrainOptions best_;  // for a run on all rows
  double least_ = kNever;
  SearchResult result_;
};

}  // namespace

SearchResult choose_learnt_by_trials(const TrainSets& sets, TrainOptions& options, const Stopwatch& watch,
                                     std::span<TrainObserver* const> observers, const std::atomic<bool>& stop,
                                     Weights& spare, const TrainOptions* rival) {
  return LearntSearch(sets, options, watch, observers, stop, spare, rival).run();
}

}  // namespace truemax
