// The trials of linear models that take steps.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>

#include "data/hold_out.hpp"
#include "rule/methods.hpp"
#include "train/climb.hpp"
#include "train/search.hpp"
#include "train/start_values.hpp"
#include "train/step_cost.hpp"
#include "train/trial_limits.hpp"
#include "train/trials.hpp"

namespace truemax {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Shares of --seconds: for one early trial and for all trials, by counted work; and by the clock, the latest
// end of the search on a machine that is far slower than the counts assume.
constexpr double kSlice = 0.025, kMostSearching = 0.3, kLatestSearching = 0.7;
// A larger step looks better in a short trial than in the long run, so it must win by this share (with
// --target train, and with validation rows).
constexpr double kGainUp = 0.05, kGainUpValid = 0.02;
constexpr double kGain = 1e-4;         // a tie is not a gain
constexpr double kGainEpochs = 0.005;  // for longer runs; less is noise of the validation rows
constexpr double kGainLonger = 0.01;   // for longer runs in which another option changes too
constexpr double kGainRidge = 0.002;   // for runs of the same length

class LinearSearch {
 public:
  LinearSearch(const Recipe& recipe, const SearchTools& tools)
      : sets_(tools.sets),
        problem_(tools.problem),
        trials_(tools, recipe.seconds > 0 ? kLatestSearching * recipe.seconds : kInfinity),
        climb_(recipe, [this] { return trials_.stopped(); }),
        cost_(step_cost(problem_)),
        blocks_(static_cast<double>(problem_.blocks())) {}

  Found run() {
    if (climb_.best.target == Target::train)
      for_training();
    else
      for_validation();
    result_.finished = !over();
    result_.trials = trials_.count();
    return {climb_.best.found(sets_.valid.has_value()), result_};
  }

 private:
  bool over() const { return trials_.stopped(); }
  bool timed() const { return climb_.best.seconds > 0; }
  double blocks_of_step() const {
    const Recipe& r = climb_.best;
    return std::min(blocks_, std::ceil(static_cast<double>(r.draws.head) / kBlockClasses) + 1 +
                                 static_cast<double>(r.draws.rivals) +
                                 std::ceil(static_cast<double>(r.classes_per_step) / kBlockClasses));
  }

  // How many judges a trial of so many steps gets: evaluation must be cheap compared with the trial.
  double judged_rows(double steps) const {
    const double share = 0.5 * steps * cost_.step(blocks_of_step()) / cost_.evaluation(blocks_);
    return std::clamp(share, timed() ? linear_trials::kFewestTimedJudges : linear_trials::kFewestJudges,
                      linear_trials::kMostJudges);
  }
  std::size_t judged_rows_of(const DataView& from, double steps) const {
    return std::min(from.row_count(), static_cast<std::size_t>(judged_rows(steps)));
  }
  // Without labels that no training row has: they say nothing about step and ridge, and metrics ignore them.
  DataView judges(const DataView& from, double steps, const DataView& seen) const {
    return with_labels_of(sample_part(from, judged_rows_of(from, steps), climb_.best.seed), seen);
  }

  // Counted work in seconds.
  double seconds_of(double steps) const {
    return cost_.seconds(steps, blocks_of_step(), judged_rows(steps), blocks_);
  }
  bool affords(double steps, double times = 1) const {
    return !timed() || spent_ + times * seconds_of(steps) <= kMostSearching * climb_.best.seconds;
  }
  // Steps of an early trial: as many as wanted, but with --seconds no more than fit in its slice.
  std::uint64_t trial_steps(double wanted) const {
    if (!timed()) return static_cast<std::uint64_t>(wanted);
    const double line = cost_.seconds_per_line * cost_.step(blocks_of_step());
    const double fit = kSlice * climb_.best.seconds / line;
    return static_cast<std::uint64_t>(std::clamp(fit, std::min(500.0, wanted), wanted));
  }

  // Trials of so many steps (0: of the recipe's epochs); infinity if there was no time for one.
  Climb::Loss loss_on(const TrialRows& rows, std::uint64_t steps) {
    return [this, rows, steps](const char* about, const Recipe& recipe) {
      const auto planned = static_cast<double>(Trials::planned_steps(rows, recipe, steps));
      if (over() || trials_.gave_up() || !affords(planned)) return kInfinity;
      spent_ += seconds_of(planned);
      return trials_.train(about, rows, recipe, steps);
    };
  }
  // What was looked for has been tried.
  void note(bool& what) {
    if (!climb_.tried()) return;
    what = true;
    result_.log_loss = climb_.least;
  }

  static void move_ridge(Recipe& r, double by) { r.ridge = clamped_ridge(r.ridge * by); }
  static void move_step(Recipe& r, double by) { r.step = clamped_step(r.step * by); }

  void for_training() {
    Recipe& best = climb_.best;
    if (!best.sought.step) return;
    if (find_method(best.method).all_rows) return;  // it has no step
    if (find_method(best.method).by_weight) {
      best.step = adam_step(problem_, best.intercept);
      return;
    }
    const double unit = unit_of_step(problem_, best.intercept);
    const auto rows = static_cast<double>(sets_.data.size());
    const std::uint64_t steps = trial_steps(linear_trials::train_steps(rows));
    constexpr double kClearing = 8e9, kMostClearing = 0.01;
    const double wanted = static_cast<double>(steps);
    const bool dear =
        timed() ? cost_.weight_bytes / kClearing > kMostClearing * best.seconds || !affords(wanted, 3)
                : cost_.weight_bytes / 64 > 0.5 * rows * cost_.step(blocks_of_step());
    best.step = clamped_step((dear ? linear_trials::kUntriedTrainStep : linear_trials::kTrainStep) * unit);
    if (dear) return;
    const DataView judge = judges(sets_.data, wanted, sets_.data);
    climb_.along({"step", move_step, linear_trials::kStepFactor, linear_trials::kTrainMoves, kGainUp, kGain},
                 loss_on({sets_.data, judge}, steps));
    note(result_.step);
  }

  void for_validation() {
    const Recipe& best = climb_.best;
    if (!best.sought.any()) return;
    std::optional<RowSplit> own;
    if (!sets_.valid) {
      if (sets_.data.row_count() < kFewestRows) {  // too few for a search
        if (best.sought.epochs) climb_.best.epochs = linear_trials::kUntriedEpochs;
        return;
      }
      own = set_aside(sets_.data, best.valid_share, best.seed);
    }
    const DataView& data = own ? own->rest : sets_.data;
    const DataView& valid = own ? own->valid : *sets_.valid;
    const bool knows = ridge_and_step(data, valid);
    if (best.sought.epochs && !over()) epochs(data, valid, knows);
  }

  // By trials on all rows if they are few, else on a part of them. True: the best trial is also the first one
  // that epochs() needs.
  bool ridge_and_step(const DataView& data, const DataView& valid) {
    const Sought sought = climb_.best.sought;
    const std::uint64_t seed = climb_.best.seed;
    const auto n = static_cast<double>(data.size());
    const double part = linear_trials::early_rows(n), passes = linear_trials::early_passes(n);
    DataView some;
    if (part < n)
      some = sample_part(data, static_cast<std::size_t>(part / n * static_cast<double>(data.row_count())),
                         seed + 1);
    const DataView& small = part < n ? some : data;
    const std::uint64_t steps = trial_steps(passes * static_cast<double>(small.size()));
    const double wanted = static_cast<double>(steps), line = cost_.step(blocks_of_step());
    int most = linear_trials::kMostTrials;  // fewer if each is expensive
    while (most > linear_trials::kFewestTrials &&
           most * (wanted * line + cost_.weight_bytes / 64) > 8 * n * line + 4e7)
      --most;
    if (!affords(wanted, 3)) most = 0;
    const DataView judge = judges(valid, wanted, small);
    const Climb::Loss loss = loss_on({small, judge}, steps);
    if (sought.ridge && most > 0) {
      // Large changes are tried only on all rows: on a part, with fewer passes, too little ridge looks best.
      if (part >= n)
        climb_.along({"ridge", move_ridge, linear_trials::kRidgeFactor * linear_trials::kRidgeFactor,
                      linear_trials::large_ridge_moves(most), kGain, kGain},
                     loss);
      climb_.along(
          {"ridge", move_ridge, linear_trials::kRidgeFactor, linear_trials::kRidgeMoves, kGain, kGain}, loss);
      note(result_.ridge);
    }
    if (sought.step && most > linear_trials::kFewestTrials && !over()) {
      climb_.along({"step", move_step, linear_trials::kValidStepFactor, linear_trials::step_moves(most),
                    kGainUpValid, kGain, linear_trials::kMoreSteps},
                   loss);
      note(result_.step);
    }
    return climb_.tried() && part >= n && steps == 4 * data.size();
  }

  // Longer and longer runs from scratch, until one is not better. Early trials were short or on a part of the
  // rows, so the ridge is tried again once longer runs on all rows have proved better. `knows`: the loss of a
  // trial of 4 epochs.
  void epochs(const DataView& data, const DataView& valid, bool knows) {
    const auto n = static_cast<double>(data.size());
    std::uint64_t e = linear_trials::first_epochs(n);
    const DataView judge = judges(valid, 4 * static_cast<double>(e) * n, data);
    const TrialRows rows{data, judge};
    const Climb::Loss loss = loss_on(rows, 0);
    // It counts only if the same rows judged it.
    const bool starts = knows && e == 4 && judged_rows_of(valid, 4 * n) == judged_rows_of(valid, 16 * n);
    if (!starts) climb_.least = kInfinity;
    std::uint64_t waited = 0, gains = starts ? 1 : 0;
    bool longer = true;  // whether more epochs might still be better
    climb_.best.epochs = e;
    for (e = starts ? 2 * e : e;
         e <= linear_trials::most_epochs(n) &&
         (!climb_.tried() || static_cast<double>(e) * n <= linear_trials::kMostVisits);
         e *= 2) {
      // With --seconds, leave time for a trial of the ridge too.
      if (!affords(static_cast<double>(e) * n, gains > 0 ? 2 : 1)) break;
      Recipe with = climb_.best;
      with.epochs = e, with.steps = 0;
      const bool better = climb_.adopt("epochs", with, kGainEpochs, loss);
      if (over() || trials_.gave_up()) break;
      if (better) {
        waited = 0;
        note(result_.epochs);
        if (++gains == 2) ridge_again(rows, loss);
      } else if (++waited >= std::max<std::uint64_t>(1, climb_.best.patience)) {
        longer = false;
        break;
      }
    }
    if (over()) return;
    // Runs of so many epochs are far from those that chose the ridge.
    if (climb_.tried() && (gains < 2 || climb_.best.epochs > linear_trials::kMostEpochs))
      ridge_again(rows, loss);
    if (climb_.tried()) refine(rows, loss);
    // No time to find the best number: train for all of --seconds.
    if (timed() && longer) climb_.best.epochs = kUnlimitedEpochs;
  }

  // Adopts these numbers if a trial on all rows is better by the share `gain`.
  bool better(const Climb::Loss& loss, double gain, double ridge, double step, std::uint64_t length) {
    Recipe with = climb_.best;
    with.ridge = clamped_ridge(ridge), with.step = clamped_step(step), with.epochs = length;
    if (!climb_.adopt("both", with, gain, loss)) return false;
    result_.log_loss = climb_.least;
    return true;
  }

  // More ridge, else less, in runs of the same length.
  void ridge_again(const TrialRows& rows, const Climb::Loss& loss) {
    if (!climb_.best.sought.ridge || static_cast<double>(rows.data.size()) > linear_trials::kManyRows) return;
    bool up = false;
    const auto move = [&](double by) {
      const Recipe& r = climb_.best;
      return better(loss, kGainRidge, r.ridge * by, r.step, r.epochs);
    };
    for (int i = 0; i < linear_trials::kRidgeMovesAgain && move(linear_trials::kRidgeFactor); ++i) up = true;
    for (int i = 0; !up && i < linear_trials::kRidgeMovesAgain && move(1 / linear_trials::kRidgeFactor);
         ++i) {
    }
  }

  // Short runs favour little ridge and large steps: tries more ridge, and a smaller step, in longer runs.
  void refine(const TrialRows& rows, const Climb::Loss& loss) {
    const Recipe& r = climb_.best;
    const auto n = static_cast<double>(rows.data.size());
    const auto times = [&](std::uint64_t factor) {  // the epochs of a longer run, within limits
      const auto fits = [&](std::uint64_t f) {
        const double visits = static_cast<double>(f * r.epochs) * n;
        return f * r.epochs <= linear_trials::most_epochs(n) &&
               visits <= (f > 2 ? linear_trials::kFewVisits : linear_trials::kMostVisits);
      };
      while (factor > 1 && !fits(factor)) factor /= 2;
      return factor * r.epochs;
    };
    const Sought sought = r.sought;
    if (n > linear_trials::kManyRows) {
      // Judges drawn from the same rows favour little ridge. If the losses are about equal, take more ridge.
      if (sought.ridge || sought.step)
        better(loss, -kGainEpochs,
               sought.ridge ? r.ridge * linear_trials::kRidgeFactor * linear_trials::kRidgeFactor : r.ridge,
               sought.step ? r.step / 2 : r.step, times(2));
      return;
    }
    const auto gain = [&](std::uint64_t length) { return length > r.epochs ? kGainLonger : kGainRidge; };
    if (sought.ridge) better(loss, gain(times(4)), r.ridge * linear_trials::kRidgeFactor, r.step, times(4));
    if (sought.step && times(2) > r.epochs)
      better(loss, kGainLonger, r.ridge, r.step / linear_trials::kValidStepFactor, times(2));
  }

  const TrainSets& sets_;
  const Problem& problem_;
  Trials trials_;
  Climb climb_;
  StepCost cost_;
  double blocks_;  // that hold all classes
  SearchResult result_;
  double spent_ = 0;  // seconds, by counted work
};

}  // namespace

Found search_linear(const Recipe& recipe, const SearchTools& tools) {
  return LinearSearch(recipe, tools).run();
}

}  // namespace truemax
