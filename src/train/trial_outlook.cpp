#include "train/trial_outlook.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "rule/methods.hpp"
#include "train/fit_seconds.hpp"
#include "train/solver_seconds.hpp"
#include "train/start_values.hpp"
#include "train/step_cost.hpp"
#include "train/step_shape.hpp"
#include "train/trial_limits.hpp"

namespace truemax {
namespace {

constexpr char kHeldOut[] = "held-out rows", kValidRows[] = "validation rows", kTrainRows[] = "training rows";

// Rows that trials may train on, and those that judge them.
struct Rows {
  double train, judges;
  const char* judges_are;
};
Rows rows_of(const Plan& plan) {
  const auto all = static_cast<double>(plan.problem.examples);
  const Recipe& r = plan.recipe;
  if (r.target == Target::train) return {all, all, kTrainRows};
  if (plan.problem.has_valid) return {all, static_cast<double>(plan.problem.valid_rows), kValidRows};
  return {all * (1 - r.valid_share), all * r.valid_share, kHeldOut};
}

bool too_few(const Plan& plan) {
  return plan.recipe.target == Target::valid && !plan.problem.has_valid && plan.problem.rows < kFewestRows;
}

// `ups` and `downs`: the most moves there may be.
SoughtValue walked(const char* name, double from, double factor, double ups, double downs, double most) {
  return {
      name, from, factor, 0, {from * std::pow(factor, -downs), std::min(most, from * std::pow(factor, ups))}};
}

// ---- Linear models that take steps

class LinearTrials {
 public:
  LinearTrials(const Plan& plan, const Recipe& recipe)
      : plan_(plan), r_(recipe), rows_(rows_of(plan)), cost_(step_cost(plan.problem)) {
    blocks_ = static_cast<double>(plan.problem.blocks());
    of_step_ = std::min(blocks_, std::ceil(static_cast<double>(r_.draws.head) / kBlockClasses) + 1 +
                                     static_cast<double>(r_.draws.rivals) +
                                     std::ceil(static_cast<double>(r_.classes_per_step) / kBlockClasses));
  }

  Outlook run() {
    const auto epochs = static_cast<double>(r_.epochs);
    t_.epochs = {epochs, epochs};
    t_.judges_are = rows_.judges_are;
    t_.of_rows = rows_.train;
    if (r_.target == Target::train)
      for_training();
    else
      for_validation();
    return std::move(t_);
  }

 private:
  // One trial of so many passes over so many rows.
  double trial(double rows, double passes) const {
    return fit_seconds(plan_, r_, rows, passes) +
           evaluation_seconds(plan_.facts(), judges(rows * passes), false);
  }
  double judges(double steps) const {
    const double share = 0.5 * steps * cost_.step(of_step_) / cost_.evaluation(blocks_);
    const double least = r_.seconds > 0 ? linear_trials::kFewestTimedJudges : linear_trials::kFewestJudges;
    return std::min(rows_.judges, std::clamp(share, least, linear_trials::kMostJudges));
  }
  void add(double fewest, double most, double seconds_each) {
    t_.count += {fewest, most};
    t_.seconds += {fewest * seconds_each, most * seconds_each};
  }

  void for_training() {
    if (!r_.sought.step) return;
    const MethodInfo& method = find_method(r_.method);
    if (method.all_rows) return;
    if (method.by_weight) {
      t_.why_none = "the step of adam follows from the rows";
      t_.values.push_back({"step", adam_step(plan_.problem, r_.intercept), 0, 0, {}});
      return;
    }
    const double unit = unit_of_step(plan_.problem, r_.intercept),
                 steps = linear_trials::train_steps(rows_.train);
    if (r_.seconds == 0 && cost_.weight_bytes / 64 > 0.5 * rows_.train * cost_.step(of_step_)) {
      t_.why_none = "clearing the weights for a trial takes too long";
      t_.values.push_back({"step", clamped_step(linear_trials::kUntriedTrainStep * unit), 0, 0, {}});
      return;
    }
    t_.rows = rows_.train;
    t_.judges = judges(steps);
    // The first move up is lost where moves down follow.
    t_.values.push_back(walked("step", linear_trials::kTrainStep * unit, linear_trials::kStepFactor,
                               linear_trials::kTrainMoves, linear_trials::kTrainMoves - 1, kLargestStep));
    add(r_.seconds > 0 ? 0 : 1 + linear_trials::kTrainMoves, 1 + linear_trials::kTrainMoves,
        trial(rows_.train, steps / rows_.train));
  }

  void for_validation() {
    using namespace linear_trials;
    if (too_few(plan_)) {
      t_.why_none = "there are fewer than 50 rows";
      if (r_.sought.epochs) t_.epochs = {double(kUntriedEpochs), double(kUntriedEpochs)};
      if (r_.sought.ridge) t_.values.push_back({"ridge", r_.ridge, 0, 0, {}});
      if (r_.sought.step) t_.values.push_back({"step", r_.step, 0, 0, {}});
      if (r_.sought.epochs) t_.values.push_back({"epochs", double(kUntriedEpochs), 0, 0, {}});
      return;
    }
    const double n = rows_.train, part = early_rows(n), passes = early_passes(n);
    const bool all = part >= n;
    const double line = cost_.step(of_step_), steps = part * passes;
    int most = kMostTrials;
    while (most > kFewestTrials && most * (steps * line + cost_.weight_bytes / 64) > 8 * n * line + 4e7)
      --most;
    const double each = trial(part, passes);
    t_.rows = part;
    t_.judges = judges(std::max(steps, 4 * double(first_epochs(n)) * n));
    const double fewest = r_.seconds > 0 ? 0 : 1;  // with --seconds, there may be no time for them
    const double again = r_.sought.epochs ? kRidgeMovesAgain : 0;
    if (r_.sought.ridge) {
      const int large = all ? large_ridge_moves(most) : 0;
      SoughtValue ridge = walked("ridge", r_.ridge, kRidgeFactor, 2 * large + kRidgeMoves + 2 * again + 1,
                                 2 * std::max(0, large - 1) + kRidgeMoves - 1 + 2 * again, 1e15);
      if (all) ridge.first_factor = kRidgeFactor * kRidgeFactor;
      t_.values.push_back(ridge);
      add(fewest * (all ? 5 : 3), 1 + large + kRidgeMoves, each);
    }
    if (r_.sought.step) {
      const int moves = most > kFewestTrials ? step_moves(most) : 0, more = moves > 0 ? kMoreSteps : 0;
      t_.values.push_back(walked("step", r_.step, kValidStepFactor, moves + more,
                                 std::max(0, moves - 1) + more + (r_.sought.epochs ? 1 : 0), kLargestStep));
      const int start = r_.sought.ridge || moves == 0 ? 0 : 1;
      if (moves > 0) add(fewest * (2 + start), moves + more + start, each);
    }
    if (r_.sought.epochs) epochs(n, all && r_.sought.any() && r_.seconds == 0);
  }

  // Longer and longer runs, until one is not better.
  void epochs(double n, bool known) {
    using namespace linear_trials;
    const auto first = static_cast<double>(first_epochs(n));
    double e = first;
    known = known && first == 4 && judges(4 * n) == judges(16 * n) && (r_.sought.ridge || r_.sought.step);
    const double fewest = r_.seconds > 0 ? 0 : 1;
    add(fewest * (known ? 0 : 1), known ? 0 : 1, trial(n, e));
    for (double next = 2 * e; next <= static_cast<double>(most_epochs(n)) && next * n <= kMostVisits;
         next *= 2) {
      add(next == 2 * first ? fewest : 0, 1, trial(n, next));
      e = next;
    }
    t_.values.push_back({"epochs", first, 2, 0, {first, e}});
    t_.epochs = {first, e};
    const double moves = kRidgeMovesAgain + 1;
    if (r_.sought.ridge && n <= kManyRows)
      add(fewest * 2, 2 * moves, trial(n, first)), late(moves, e - first, n);
    const bool longer = n <= kManyRows ? r_.sought.ridge || r_.sought.step : true;
    if (longer) add(fewest, 0, trial(n, first)), late(2, e, n);
  }
  // So many more trials, at most, of up to so many epochs more.
  void late(double most, double epochs, double n) {
    t_.count.high += most, t_.seconds.high += most * trial(n, epochs);
  }

  const Plan& plan_;
  const Recipe& r_;
  Rows rows_;
  StepCost cost_;
  double blocks_ = 0, of_step_ = 0;
  Outlook t_;
};

// ---- Learnt features

class LearntTrials {
 public:
  LearntTrials(const Plan& plan, const Recipe& recipe, const Outlook* linear)
      : plan_(plan), r_(recipe), rows_(rows_of(plan)), linear_(linear) {}

  Outlook run() {
    using namespace learnt_trials;
    const double first = first_epochs(), h = static_cast<double>(r_.hidden);
    t_.epochs = {first, first}, t_.hidden = {h, h};
    t_.judges_are = rows_.judges_are, t_.of_rows = rows_.train;
    const double fits = (plan_.problem.triples ? kTripleTimes : 1) * trial_seconds() / counted(1, first, h);
    t_.rows = std::min(rows_.train, std::max(fits, double(kFewestTrialRows)));
    share_ = t_.rows / static_cast<double>(plan_.problem.examples);
    t_.why_none = too_few(plan_) && r_.target == Target::valid ? "there are fewer than 50 rows"
                  : r_.seconds > 0                             ? "--seconds is too short for them"
                  : plan_.problem.triples && share_ < kMuchFewer
                      ? "on a part of the triples they would find other values"
                      : "";
    t_.judges = std::min({rows_.judges, double(kMostJudges), r_.target == Target::train ? t_.rows : 1e300});
    if (linear_ != nullptr && t_.why_none.empty()) {
      // Linear, on the same rows; and the start, after which learnt features may be given up.
      const double times = linear_->epochs.high > 0 && share_ < kMuchFewer ? std::pow(share_, -0.25) : 1;
      const Recipe& with = plan_.recipe;
      add({1, 1}, fit_seconds(plan_, with, t_.rows, times * linear_->epochs.low));
      t_.seconds.high +=
          fit_seconds(plan_, with, t_.rows, times * (linear_->epochs.high - linear_->epochs.low));
    }
    add({1, 1}, trial(first, h));
    values();
    if (!t_.why_none.empty()) t_.count = t_.seconds = {};
    return std::move(t_);
  }

 private:
  // Outlook count in epochs.
  double first_epochs() const {
    return static_cast<double>(r_.steps > 0 ? r_.steps / steps_per_epoch(plan_.problem.examples, r_) + 1
                                            : r_.epochs);
  }
  double trial_seconds() const {
    return r_.on_gpu() ? learnt_trials::kDeviceTrialSeconds : learnt_trials::kTrialSeconds;
  }
  // As the search counts them, to decide what it has time for.
  double counted(double rows, double epochs, double h) const {
    using namespace learnt_trials;
    const Problem& p = plan_.problem;
    const double layer = static_cast<double>(r_.layers * p.width) * h;
    const double shared = p.groups_inputs ? static_cast<double>(p.rows) / static_cast<double>(p.examples) : 1;
    const double classes = static_cast<double>(r_.classes_per_step) * shared + (shared < 1 ? kLabel : 0);
    return 6 * rows * epochs * h * (classes + layer) / (r_.on_gpu() ? kDeviceFlops : kFlops);
  }
  double trial(double epochs, double h) const {
    Recipe with = r_;
    with.hidden = static_cast<std::uint64_t>(h);
    return fit_seconds(plan_, with, t_.rows, epochs) + evaluation_seconds(plan_.facts(), t_.judges, false);
  }
  void add(Span count, double each) { t_.count += count, t_.seconds += each * count; }

  void values() {
    using namespace learnt_trials;
    const Sought& s = r_.sought;
    const double first = first_epochs(), h = static_cast<double>(r_.hidden);
    const double each = trial(first, h), fewest = linear_ != nullptr ? 0 : 1;  // linear may be far better
    double longest = first;
    while (s.epochs && first > 0 && 2 * longest <= double(kMostEpochs) &&
           2 * counted(t_.rows, longest, h) <= kLongestEpochs * trial_seconds())
      longest *= 2;
    const double doublings = longest > first ? std::log2(longest / first) : 0;
    if (s.layers || s.tied) {
      if (s.layers) t_.values.push_back({"layers", double(r_.layers), 0, 0, {0, 1}});
      if (s.tied) t_.values.push_back({"tied", double(r_.tied), 0, 0, {0, 1}});
      add({0, 1}, each);
    }
    if (s.ridge) {
      t_.values.push_back(
          walked("ridge", r_.ridge, kRidgeMove, kMostRidgeMoves + doublings, kMostRidgeMoves - 1, 1e15));
      add({2 * fewest, kMostRidgeMoves}, each);
    }
    if (s.step) {
      t_.values.push_back(
          walked("step", r_.step, kStepMove, kMostStepMoves, kMostStepMoves - 1, kLargestStep));
      add({2 * fewest, kMostStepMoves}, each);
    }
    if (s.dropout) {
      t_.values.push_back({"dropout", r_.dropout, 2, 0, {r_.dropout / 2, 2 * r_.dropout}});
      add({fewest, 2}, each);
    }
    if (s.epochs && first > 0) {
      for (double e = 2 * first; e <= longest; e *= 2) {
        const double both = s.ridge ? 2 : 1;
        add({e == 2 * first ? fewest : 0, both}, trial(e, h));
      }
      const double least = first < 4 ? first : first / 2;
      if (least < first) add({0, 1}, trial(least, h));
      t_.values.push_back({"epochs", first, 2, 0, {least, longest}});
      t_.epochs = {on_all_rows(least), on_all_rows(longest)};
    }
    if (s.hidden && h > 0) {
      const double most =
          std::min(static_cast<double>(r_.most_hidden), static_cast<double>(plan_.problem.full_rank()) - 1);
      double largest = h;
      while (2 * largest <= most &&
             2 * counted(t_.rows, first, largest) <= kLongestHidden * trial_seconds()) {
        largest *= 2;
        add({0, 1}, trial(s.epochs ? longest : first, largest));
      }
      t_.values.push_back({"hidden", h, 2, 0, {h, largest}});
      t_.hidden = {h, largest};
    }
  }
  // What is best on a part is best on all rows with fewer epochs.
  double on_all_rows(double epochs) const {
    if (share_ >= learnt_trials::kMuchFewer || plan_.problem.is_text()) return epochs;
    return std::max(2.0, std::round(epochs * std::pow(share_, 0.25)));
  }

  const Plan& plan_;
  const Recipe& r_;
  Rows rows_;
  const Outlook* linear_;
  double share_ = 1;
  Outlook t_;
};

// ---- Newton's method

Outlook newton_trials_of(const Plan& plan) {
  using namespace newton_trials;
  const Recipe& r = plan.recipe;
  const Problem& p = plan.problem;
  Outlook t;
  t.of_rows = static_cast<double>(p.examples);
  const NewtonFolds folds = p.has_valid ? NewtonFolds{1, 1} : newton_folds(p);
  const auto used = static_cast<double>(folds.used), of = static_cast<double>(folds.of);
  t.rows = p.has_valid ? t.of_rows : t.of_rows * (1 - 1 / of);
  t.judges = p.has_valid ? static_cast<double>(p.valid_rows) : t.of_rows * used / of;
  t.judges_are = p.has_valid ? kValidRows : "rows, each left out once";
  if (!r.sought.ridge) return t;
  if (!p.has_valid && p.rows < kFewestForFolds) {
    t.why_none = "there are fewer than 10 rows";
    return t;
  }
  // In units of the rows' spread about their mean, which has not been measured; that of |x|^2 is more.
  const double unit = p.mean_square.value_or(1) * p.mean_weight, decade = 10;
  t.values.push_back({"ridge",
                      unit * std::pow(10, kFirstDecade),
                      std::sqrt(decade),
                      decade,
                      {unit * std::pow(10, kLowestDecade), unit * std::pow(10, kHighestDecade)}});
  // From the first decade to two that are worse, and half decades about the best; once more by spread.
  constexpr double kFewest = 3, kMost = kFirstDecade - kLowestDecade + 1 + 4;
  t.count = {kFewest, r.newton_alone() ? 2 * kMost : kMost};
  Recipe one = r;
  one.sought = {};
  // A trial goes on from the one before: a few steps are usual.
  constexpr double kShareOfFit = 0.3;
  const double each = kShareOfFit * fit_seconds(plan, one, t.rows, 0) *
                      std::ceil(used / static_cast<double>(plan.machine.threads));
  t.seconds = each * t.count;
  return t;
}

}  // namespace

std::vector<Outlook> outlook_of(const Plan& plan) {
  const Recipe& r = plan.recipe;
  std::vector<Outlook> all;
  if (!r.sought.any()) return all;
  if (r.learnt()) return {LearntTrials(plan, r, nullptr).run()};
  if (r.newton > 0) return {newton_trials_of(plan)};
  all.push_back(LinearTrials(plan, r).run());
  if (r.sought.encoder && !too_few(plan)) {
    all.front().about = "linear";
    all.push_back(LearntTrials(plan, *r.rival, &all.front()).run());
    all.back().about = "learnt features";
  }
  return all;
}

}  // namespace truemax
