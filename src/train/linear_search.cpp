// The trials of linear models that take steps.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>

#include "data/hold_out.hpp"
#include "rule/methods.hpp"
#include "train/resolve.hpp"
#include "train/search.hpp"
#include "train/step_cost.hpp"
#include "train/trial_runner.hpp"

namespace truemax {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Steps of --target train, in units of 1/mean |x|^2.
constexpr double kTrainStep = 10, kStepFactor = 6, kValidStepFactor = 3;
// If trials would take too much of the time.
constexpr double kUntriedTrainStep = 30;
constexpr double kRidgeFactor = 3.1622776601683795;
constexpr std::uint64_t kMostEpochs = 64, kMostEpochsOfFewRows = 1024;
constexpr double kManyRows = 1e6;
constexpr double kMostVisits = 1e7;  // most row visits of a trial on all rows
constexpr double kFewVisits = 5e5;   // with at most so many, a trial may be four times as long as the best
constexpr double kFewestJudges = 4000, kFewestTimedJudges = 500, kMostJudges = 20000;
// Shares of --seconds: for one early trial and for all trials, by counted work; and by the clock, the latest
// end of the search on a machine that is far slower than the counts assume.
constexpr double kSlice = 0.025, kMostSearching = 0.3, kLatestSearching = 0.7;
// A larger step looks better in a short trial than in the long run, so it must win by this share (with
// --target train, and with validation rows).
constexpr double kGainUp = 0.05, kGainUpValid = 0.02;
constexpr double kGain = 1e-4;         // a tie is not a gain
constexpr double kGainMuch = 0.1;      // more of the same is likely to gain, too
constexpr double kGainEpochs = 0.005;  // for longer runs; less is noise of the validation rows
constexpr double kGainLonger = 0.01;   // for longer runs in which another option changes too
constexpr double kGainRidge = 0.002;   // for runs of the same length

class Search {
 public:
  Search(const Recipe& recipe, const SearchTools& tools)
      : sets_(tools.sets),
        problem_(tools.problem),
        recipe_(recipe),
        runner_(tools, recipe.seconds > 0 ? kLatestSearching * recipe.seconds : kInfinity),
        cost_(step_cost(problem_)),
        blocks_(static_cast<double>(problem_.blocks())) {}

  Found run() {
    if (recipe_.target == Target::train)
      for_training();
    else
      for_validation();
    result_.finished = !over();
    return {recipe_.found(sets_.valid.has_value()), result_};
  }

 private:
  bool over() const { return runner_.stopped(); }
  // Of a trial. With few rows, classes that can be told apart gain from hundreds.
  static std::uint64_t most_epochs(double rows) {
    return std::clamp(static_cast<std::uint64_t>(kFewVisits / rows), kMostEpochs, kMostEpochsOfFewRows);
  }
  bool late() const { return runner_.late(); }
  bool timed() const { return recipe_.seconds > 0; }
  double blocks_of_step() const {
    return std::min(blocks_, std::ceil(static_cast<double>(recipe_.draws.head) / kBlockClasses) + 1 +
                                 static_cast<double>(recipe_.draws.rivals) +
                                 std::ceil(static_cast<double>(recipe_.classes_per_step) / kBlockClasses));
  }

  // How many judges a trial of so many steps gets: evaluation must be cheap compared with the trial.
  double judged_rows(double steps) const {
    const double share = 0.5 * steps * cost_.step(blocks_of_step()) / cost_.evaluation(blocks_);
    return std::clamp(share, timed() ? kFewestTimedJudges : kFewestJudges, kMostJudges);
  }
  std::size_t judged_rows_of(const DataView& from, double steps) const {
    return std::min(from.row_count(), static_cast<std::size_t>(judged_rows(steps)));
  }
  // Without labels that no training row has: they say nothing about step and ridge, and metrics ignore them.
  DataView judges(const DataView& from, double steps, const DataView& seen) const {
    return with_labels_of(sample_part(from, judged_rows_of(from, steps), recipe_.seed), seen);
  }

  // Counted work in seconds.
  double seconds_of(double steps) const {
    return cost_.seconds(steps, blocks_of_step(), judged_rows(steps), blocks_);
  }
  bool affords(double steps, double times = 1) const {
    return !timed() || spent_ + times * seconds_of(steps) <= kMostSearching * recipe_.seconds;
  }
  // Steps of an early trial: as many as wanted, but with --seconds no more than fit in its slice.
  std::uint64_t trial_steps(double wanted) const {
    if (!timed()) return static_cast<std::uint64_t>(wanted);
    const double fit = kSlice * recipe_.seconds / (cost_.seconds_per_line * cost_.step(blocks_of_step()));
    return static_cast<std::uint64_t>(std::clamp(fit, std::min(500.0, wanted), wanted));
  }

  // A trial of so many steps (0: of o.epochs); infinity if there was no time for it.
  double trial(const char* about, const TrialRows& rows, const Recipe& o, std::uint64_t steps) {
    const auto planned = static_cast<double>(TrialRunner::planned_steps(rows, o, steps));
    if (over() || late() || !affords(planned)) return kInfinity;
    spent_ += seconds_of(planned);
    const double loss = runner_.run(about, rows, o, steps);
    result_.trials = runner_.count();
    return loss;
  }

  // Moves from `start` by `factor` while the loss falls, first up, else down. `more`: moves beyond `most` if
  // those before won by much. Returns the best value.
  double walk(double start, double factor, double gain_up, int most, double known,
              const std::function<double(double)>& loss, double* least, int more = 0) const {
    double best = start, best_loss = known < kInfinity ? known : loss(start);
    for (const double by : {factor, 1 / factor}) {
      bool moved = false;
      for (double at = best * by; most > 0 && !over(); at *= by) {
        --most;
        const double found = loss(at);
        const double gain = by > 1 ? gain_up : kGain;
        if (!(found < best_loss - gain * std::abs(best_loss))) break;
        if (more > 0 && found < best_loss - kGainMuch * std::abs(best_loss)) ++most, --more;
        best = at, best_loss = found, moved = true;
      }
      if (moved) break;
    }
    *least = best_loss;
    return best;
  }
  void found(bool& what, double loss) {
    if (!(loss < kInfinity)) return;
    what = true;
    result_.log_loss = loss;
  }

  void for_training() {
    if (!recipe_.sought.step) return;
    if (find_method(recipe_.method).all_rows) return;  // it has no step
    if (find_method(recipe_.method).by_weight) {
      recipe_.step = adam_step(problem_, recipe_.intercept);
      return;
    }
    const double unit = unit_of_step(problem_, recipe_.intercept);
    const auto rows = static_cast<double>(sets_.data.size());
    const std::uint64_t steps = trial_steps(std::clamp(rows / 2, std::min(2 * rows, 5000.0), 1e5));
    constexpr double kClearing = 8e9, kMostClearing = 0.01;
    const double wanted = static_cast<double>(steps);
    const bool dear =
        timed() ? cost_.weight_bytes / kClearing > kMostClearing * recipe_.seconds || !affords(wanted, 3)
                : cost_.weight_bytes / 64 > 0.5 * rows * cost_.step(blocks_of_step());
    if (dear) {
      recipe_.step = clamped_step(kUntriedTrainStep * unit);
      return;
    }
    const DataView judge = judges(sets_.data, wanted, sets_.data);
    double least = kInfinity;
    const auto loss = [&](double step) {
      Recipe o = recipe_;
      o.step = clamped_step(step);
      return trial("step", {sets_.data, judge}, o, steps);
    };
    recipe_.step = clamped_step(walk(kTrainStep * unit, kStepFactor, kGainUp, 2, kInfinity, loss, &least));
    found(result_.step, least);
  }

  void for_validation() {
    Recipe& o = recipe_;
    if (!o.sought.any()) return;
    std::optional<RowSplit> own;
    if (!sets_.valid) {
      if (sets_.data.row_count() < kFewestRows) {  // too few for a search
        if (o.sought.epochs) o.epochs = 10;
        return;
      }
      own = set_aside(sets_.data, o.valid_share, o.seed);
    }
    const DataView& data = own ? own->rest : sets_.data;
    const DataView& valid = own ? own->valid : *sets_.valid;
    const double known = ridge_and_step(data, valid);
    if (o.sought.epochs && !over()) epochs(data, valid, known);
  }

  // By trials on all rows if they are few, else on a part of them. Returns the best log-loss if its trial is
  // also the first one that epochs() needs, else infinity.
  double ridge_and_step(const DataView& data, const DataView& valid) {
    Recipe& o = recipe_;
    const auto n = static_cast<double>(data.size());
    const double part = std::min(n, std::max(25000.0, n > 5e5 ? n / 8 : n / 4));
    const double passes = part < n ? 2 : 4;
    DataView some;
    if (part < n)
      some = sample_part(data, static_cast<std::size_t>(part / n * static_cast<double>(data.row_count())),
                         o.seed + 1);
    const DataView& small = part < n ? some : data;
    const std::uint64_t steps = trial_steps(passes * static_cast<double>(small.size()));
    const double wanted = static_cast<double>(steps), line = cost_.step(blocks_of_step());
    int most = 10;  // trials; fewer if each is expensive
    while (most > 4 && most * (wanted * line + cost_.weight_bytes / 64) > 8 * n * line + 4e7) --most;
    if (!affords(wanted, 3)) most = 0;
    const DataView judge = judges(valid, wanted, small);
    double least = kInfinity;
    const auto try_with = [&](const char* about, double step_size, double mu) {
      Recipe with = o;
      with.step = clamped_step(step_size), with.ridge = clamped_ridge(mu);
      return trial(about, {small, judge}, with, steps);
    };
    if (o.sought.ridge && most > 0) {
      const auto loss = [&](double at) { return try_with("ridge", o.step, at); };
      // Large changes are tried only on all rows: on a part, with fewer passes, too little ridge looks best.
      double mu = o.ridge;
      if (part >= n)
        mu = walk(mu, kRidgeFactor * kRidgeFactor, kGain, std::max(2, most - 6), kInfinity, loss, &least);
      mu = walk(mu, kRidgeFactor, kGain, 2, least, loss, &least);
      o.ridge = clamped_ridge(mu);
      found(result_.ridge, least);
    }
    if (o.sought.step && most > 4 && !over()) {
      constexpr int kMoreSteps = 4;
      o.step = clamped_step(walk(
          o.step, kValidStepFactor, kGainUpValid, most > 7 ? 3 : 2, least,
          [&](double size) { return try_with("step", size, o.ridge); }, &least, kMoreSteps));
      found(result_.step, least);
    }
    if (part >= n && steps == 4 * data.size()) return least;
    return kInfinity;
  }

  // Longer and longer runs from scratch, until one is not better. Early trials were short or on a part of the
  // rows, so the ridge is tried again once longer runs on all rows have proved better.
  void epochs(const DataView& data, const DataView& valid, double known) {
    Recipe& o = recipe_;
    const auto n = static_cast<double>(data.size());
    std::uint64_t e = n > kManyRows ? 1 : n > 1e5 ? 2 : 4;
    const DataView judge = judges(valid, 4 * static_cast<double>(e) * n, data);
    const TrialRows rows{data, judge};
    // The loss of a trial of 4 epochs is known, but it counts only if the same rows judged it.
    const bool starts =
        known < kInfinity && e == 4 && judged_rows_of(valid, 4 * n) == judged_rows_of(valid, 16 * n);
    double best = kInfinity;
    if (starts) best = known;
    std::uint64_t waited = 0, gains = starts ? 1 : 0;
    bool longer = true;  // whether more epochs might still be better
    o.epochs = e;
    for (e = starts ? 2 * e : e;
         e <= most_epochs(n) && (best == kInfinity || static_cast<double>(e) * n <= kMostVisits); e *= 2) {
      // With --seconds, leave time for a trial of the ridge too.
      if (!affords(static_cast<double>(e) * n, gains > 0 ? 2 : 1)) break;
      Recipe with = o;
      with.epochs = e, with.steps = 0;
      const double loss = trial("epochs", rows, with, 0);
      if (over() || late()) break;
      if (loss < best * (1 - kGainEpochs)) {
        best = loss, o.epochs = e, waited = 0;
        found(result_.epochs, best);
        if (++gains == 2) ridge_again(rows, best);
      } else if (++waited >= std::max<std::uint64_t>(1, o.patience)) {
        longer = false;
        break;
      }
    }
    if (over()) return;
    // Runs of so many epochs are far from those that chose the ridge.
    if (best < kInfinity && (gains < 2 || o.epochs > kMostEpochs)) ridge_again(rows, best);
    if (best < kInfinity) refine(rows, best);
    // No time to find the best number: train for all of --seconds.
    if (timed() && longer) o.epochs = kUnlimitedEpochs;
  }

  // Adopts these options if a trial on all rows is better by the share `gain`.
  bool better(const TrialRows& rows, double& best, double gain, double ridge, double step,
              std::uint64_t length) {
    Recipe with = recipe_;
    with.ridge = clamped_ridge(ridge), with.step = clamped_step(step), with.epochs = length;
    const double loss = trial("both", rows, with, 0);
    if (over() || !(loss < best * (1 - gain))) return false;
    best = loss, recipe_ = with;
    result_.log_loss = best;
    return true;
  }

  // More ridge, else less, in runs of the same length.
  void ridge_again(const TrialRows& rows, double& best) {
    const Recipe& o = recipe_;
    if (!o.sought.ridge || static_cast<double>(rows.data.size()) > kManyRows) return;
    constexpr int kMoves = 4;
    bool up = false;
    const auto move = [&](double by) {
      return better(rows, best, kGainRidge, o.ridge * by, o.step, o.epochs);
    };
    for (int i = 0; i < kMoves && move(kRidgeFactor); ++i) up = true;
    for (int i = 0; !up && i < kMoves && move(1 / kRidgeFactor); ++i) {
    }
  }

  // Short runs favour little ridge and large steps: tries more ridge, and a smaller step, in longer runs.
  void refine(const TrialRows& rows, double best) {
    const Recipe& o = recipe_;
    const auto n = static_cast<double>(rows.data.size());
    const auto times = [&](std::uint64_t factor) {  // the epochs of a longer run, within limits
      const auto fits = [&](std::uint64_t f) {
        const double visits = static_cast<double>(f * o.epochs) * n;
        return f * o.epochs <= most_epochs(n) && visits <= (f > 2 ? kFewVisits : kMostVisits);
      };
      while (factor > 1 && !fits(factor)) factor /= 2;
      return factor * o.epochs;
    };
    if (n > kManyRows) {
      // Judges drawn from the same rows favour little ridge. If the losses are about equal, take more ridge.
      if (o.sought.ridge || o.sought.step)
        better(rows, best, -kGainEpochs, o.sought.ridge ? o.ridge * kRidgeFactor * kRidgeFactor : o.ridge,
               o.sought.step ? o.step / 2 : o.step, times(2));
      return;
    }
    const auto gain = [&](std::uint64_t length) { return length > o.epochs ? kGainLonger : kGainRidge; };
    if (o.sought.ridge) better(rows, best, gain(times(4)), o.ridge * kRidgeFactor, o.step, times(4));
    if (o.sought.step && times(2) > o.epochs)
      better(rows, best, kGainLonger, o.ridge, o.step / kValidStepFactor, times(2));
  }

  const TrainSets& sets_;
  const Problem& problem_;
  Recipe recipe_;
  TrialRunner runner_;
  StepCost cost_;
  double blocks_;  // that hold all classes
  SearchResult result_;
  double spent_ = 0;  // seconds, by counted work
};

}  // namespace

Found search_linear(const Recipe& recipe, const SearchTools& tools) {
  return Search(recipe, tools).run();
}

}  // namespace truemax
