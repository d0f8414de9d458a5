// The trials of --method auto for a linear model of few rows: the ridge, by cross-validation.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/parallel.hpp"
#include "data/hold_out.hpp"
#include "train/newton.hpp"
#include "train/search.hpp"
#include "train/start_values.hpp"
#include "train/step_cost.hpp"
#include "train/trial_limits.hpp"
#include "train/trials.hpp"

namespace truemax {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();
constexpr std::uint64_t kTrialSteps = 100;  // a few are usual
constexpr double kTrialPrecision = 1e-3;
// Spreads that differ by less count as equal.
constexpr double kEqualSpreads = 1.5;
constexpr double kFarWorse = 1.05;  // no use to go on

class NewtonSearch {
 public:
  NewtonSearch(const Recipe& recipe, const SearchTools& tools)
      : sets_(tools.sets),
        problem_(tools.problem),
        recipe_(recipe),
        watch_(tools.watch),
        trials_(tools, kNone) {}

  Found run() {
    if (!recipe_.sought.ridge) {  // with --target train, for one
      result_.finished = true;
      return found();
    }
    const NewtonProblem all(sets_.data, recipe_);
    recipe_.ridge = clamped_ridge(std::pow(10.0, newton_trials::kUntriedDecade) * all.unit_of_ridge(false));
    split();
    if (judges_ > 0) {
      along(false, all.unit_of_ridge(false));
      // Steps before it do not count the ridge so.
      if (recipe_.newton_alone() && all.range_of_spreads() > kEqualSpreads && !over())
        along(true, all.unit_of_ridge(true));
    }
    result_.finished = !stopped();
    return found();
  }

 private:
  struct Fold {
    DataView rest, judge;
    std::optional<NewtonProblem> problem;
    NewtonProblem::Point at;
    std::vector<double> losses;  // of the judges, by the last trial
  };
  struct Judged {
    double mean = kNone;
    std::vector<double> losses;  // by judge
  };

  Found found() {
    result_.trials = trials_.count();
    return {recipe_.found(sets_.valid.has_value()), result_};
  }
  bool stopped() const { return trials_.stopped(); }
  // The rest of the time is for the fit. Reached only on a slow machine.
  bool late() const {
    constexpr double kShareOfSearch = 0.6;
    return recipe_.seconds > 0 && watch_.seconds_running() > kShareOfSearch * recipe_.seconds;
  }
  bool over() const { return stopped() || late(); }

  // Every row judges once; of many rows, or rows that cost much, only some folds are used.
  void split() {
    if (sets_.valid) {
      folds_.resize(1);
      folds_[0].rest = sets_.data, folds_[0].judge = *sets_.valid;
    } else if (sets_.data.row_count() >= newton_trials::kFewestForFolds) {
      folds_of(newton_folds(problem_));
    }
    for (Fold& fold : folds_) {
      fold.judge = with_labels_of(fold.judge, fold.rest);
      fold.problem.emplace(fold.rest, recipe_);
      for (const ExampleId i : fold.judge.examples()) judges_ += fold.judge.weight(i);
    }
  }
  void folds_of(NewtonFolds count) {
    const std::size_t rows = sets_.data.row_count();
    // Shuffled by the seed and sorted by label, so that every fold has its share of every class.
    std::vector<std::size_t> order(rows);
    for (std::size_t r = 0; r < rows; ++r) order[r] = r;
    const CounterRandom random(recipe_.seed, Stream::hold_out, 0);
    const bool one_label = sets_.data.size() == rows;
    using Key = std::pair<ClassId, std::uint64_t>;
    std::vector<Key> key(rows);
    for (std::size_t r = 0; r < rows; ++r)
      key[r] = {one_label ? sets_.data.labels()[r] : ClassId{0}, random.at(r).first};
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return key[a] != key[b] ? key[a] < key[b] : a < b; });
    std::vector<std::size_t> fold_of(rows);
    for (std::size_t place = 0; place < rows; ++place) fold_of[order[place]] = place % count.of;
    folds_.resize(count.used);
    for (std::size_t f = 0; f < count.used; ++f) {
      folds_[f].rest = sets_.data.rows_where([&](std::size_t row) -> bool { return fold_of[row] != f; });
      folds_[f].judge = sets_.data.rows_where([&](std::size_t row) -> bool { return fold_of[row] == f; });
    }
  }

  // The mean log-loss of all judges.
  Judged trial(double ridge, bool by_spread) {
    if (over()) return {};
    SearchTrial tried;
    tried.about = "ridge", tried.ridge = ridge;
    tried.rows = folds_[0].rest.size();
    for (const Fold& fold : folds_) tried.judged_on += fold.judge.size();
    const double mean =
        trials_.run(tried, [&](SearchTrial& trial) { return solve(ridge, by_spread, trial); });
    if (over()) return {};
    go_on_from(tried.memory);
    if (mean < best_) {
      best_ = mean;
      recipe_.ridge = ridge, recipe_.ridge_by_spread = by_spread;
      result_.ridge = true, result_.log_loss = best_;
    }
    return {mean, std::move(tried.memory.losses)};
  }

  std::optional<double> solve(double ridge, bool by_spread, SearchTrial& trial) {
    parallel_for(folds_.size(), recipe_.thread_count(), [&](std::size_t f) {
      Fold& fold = folds_[f];
      fold.problem->solve({ridge, by_spread, kTrialSteps, kTrialPrecision}, fold.at, trials_.stop(),
                          [this] { return late(); });
      fold.losses = fold.problem->losses(fold.judge, fold.at);
    });
    if (over()) return std::nullopt;
    SearchTrial::Memory& memory = trial.memory;
    double sum = 0;
    for (const Fold& fold : folds_) {
      memory.losses.insert(memory.losses.end(), fold.losses.begin(), fold.losses.end());
      memory.points.insert(memory.points.end(), fold.at.begin(), fold.at.end());
      for (const double loss : fold.losses) sum += loss;
    }
    return sum / judges_;
  }
  // A trial of an earlier process leaves its points.
  void go_on_from(const SearchTrial::Memory& memory) {
    const double* from = memory.points.data();
    if (memory.points.empty()) return;  // of a trial that others followed
    for (Fold& fold : folds_) {
      std::copy_n(from, fold.at.size(), fold.at.begin());
      from += fold.at.size();
    }
  }

  // From much ridge to little, each trial from the optimum of the one before.
  void along(bool by_spread, double unit) {
    for (Fold& fold : folds_) fold.at = fold.problem->start();
    std::map<int, Judged> by;  // half decade
    const auto at = [&](double half) { return clamped_ridge(std::pow(10.0, half / 2) * unit); };
    const auto loss = [&](int half) {
      if (by.count(half) == 0) by[half] = trial(at(half), by_spread);
      return by[half].mean;
    };
    int best = 2 * newton_trials::kFirstDecade;
    double least = loss(best);
    const auto walk = [&](int step, int end) {
      for (int half = best + step, waited = 0; half != end + step && waited < 2 && !over(); half += step) {
        if (loss(half) < least)
          least = loss(half), best = half, waited = 0;
        else
          waited += loss(half) > kFarWorse * least ? 2 : 1;
      }
    };
    walk(-2, 2 * newton_trials::kLowestDecade);
    if (best == 2 * newton_trials::kFirstDecade) walk(2, 2 * newton_trials::kHighestDecade);
    const int middle = best;
    for (const int half : {middle - 1, middle + 1})
      if (loss(half) < least) least = loss(half), best = half;
    for (const int half : {best - 1, best + 1}) loss(half);
    if (over() || best_ < least) return;
    recipe_.ridge = at(best + to_lowest(by[best - 1], by[best], by[best + 1]));
  }

  // From the middle of three trials to the lowest point of the parabola through them, and on towards more
  // ridge by a part of the standard error of that point: a little too much ridge costs less than too little.
  double to_lowest(const Judged& less, const Judged& middle, const Judged& more) const {
    constexpr double kErrors = 0.3, kMost = 1;
    const double slope = (more.mean - less.mean) / 2, bend = more.mean + less.mean - 2 * middle.mean;
    if (!(bend > 0) || !(bend < kNone)) return 0;
    double squares = 0;
    const auto n = static_cast<double>(middle.losses.size());
    for (std::size_t i = 0; i < middle.losses.size(); ++i) {
      const double own = (more.losses[i] - less.losses[i]) / 2 * n / judges_ - slope;
      squares += own * own;
    }
    const double error = std::sqrt(squares) / n;
    return std::clamp((kErrors * error - slope) / bend, -kMost / 2, kMost);
  }

  const TrainSets& sets_;
  const Problem& problem_;
  Recipe recipe_;
  const Stopwatch& watch_;
  Trials trials_;
  std::vector<Fold> folds_;
  SearchResult result_;
  double best_ = kNone, judges_ = 0;  // the weight of all judges
};

}  // namespace

Found search_newton(const Recipe& recipe, const SearchTools& tools) {
  return NewtonSearch(recipe, tools).run();
}

}  // namespace truemax
