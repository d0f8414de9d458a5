#include "train/automatic.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>

#include "core/error.hpp"
#include "data/hold_out.hpp"
#include "train/epoch.hpp"
#include "train/problem.hpp"
#include "weights/kernels.hpp"

namespace truemax {
namespace {

constexpr double kLeastStep = 1e-300;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// In units of 1/mean |x|^2. Of the steps that come out well on all data sets we have, the middle.
constexpr double kTrainStep = 10, kValidStep = 3, kStepFactor = 6, kValidStepFactor = 3;
// Where trials would cost too much of the time.
constexpr double kUntriedTrainStep = 30;
// In units of mean |x|^2.
constexpr double kFirstRidge = 0.1, kRidgeFactor = 3.1622776601683795;
constexpr std::uint64_t kMostEpochs = 64;
constexpr double kMostVisits = 8e6;    // rows that the longest trial of epochs may visit
constexpr double kMostRefining = 5e5;  // and those of the last, which are worth less
// A trial may take about so much of --seconds, at so many seconds a line; and all of them together no more
// than this.
constexpr double kSlice = 0.025, kSecondsPerLine = 4e-9, kMostSearching = 0.4, kLongestTrial = 0.15;
// A larger step looks better in a short trial than it is in the long run: it must win by this share.
constexpr double kGainUp = 0.05, kGain = 1e-4;
constexpr double kGainEpochs = 0.005;  // longer runs must pay: less is noise of the rows that judge
constexpr double kClearing = 8e9;      // bytes of fresh memory a second

double mean_squared_norm(const Dataset& data) {
  double sum = 0;
  for (std::size_t i = 0; i < data.size(); ++i) sum += squared_norm(data.x(i), false);
  return std::max(sum / static_cast<double>(data.size()), 1e-300);
}

// A row weight multiplies the step of its row.
double mean_weight(const Dataset& data) {
  if (!data.has_weights()) return 1;
  double sum = 0;
  for (std::size_t i = 0; i < data.size(); ++i) sum += data.example_weight(i);
  return std::max(sum / static_cast<double>(data.size()), 1e-300);
}

// A step moves the intercept too, which is a feature of size 1: where the others are tiny, their size must
// not decide.
double unit_of_step(const Dataset& data, bool intercept) {
  const double norm = mean_squared_norm(data);
  return 1 / ((intercept ? std::max(norm, 0.1) : norm) * mean_weight(data));
}

double clamped(double step) {
  return std::clamp(step, kLeastStep, kLargestStep);
}

class Search {
 public:
  Search(const TrainSets& sets, TrainOptions& options, const Stopwatch& watch,
         std::span<TrainObserver* const> observers, const std::atomic<bool>& stop, Weights& spare)
      : sets_(sets),
        options_(options),
        watch_(watch),
        observers_(observers),
        stop_(stop),
        spare_(spare),
        cost_(step_cost(sets.data)),
        step_unit_(unit_of_step(sets.data, options.intercept)) {}

  bool run() {
    if (options_.target == Target::train)
      for_training();
    else
      for_validation();
    options_.open = {};
    options_.target = Target::valid;  // that of a named method
    options_.valid_share = 0;         // all rows are for the fit
    options_.patience = 0;            // and it has its number of epochs
    return !stop_.load(std::memory_order_relaxed);
  }

 private:
  bool over() const { return stop_.load(std::memory_order_relaxed); }
  bool timed() const { return options_.seconds > 0; }
  double blocks() const { return std::ceil(static_cast<double>(sets_.data.classes->size()) / kLanes); }
  double weight_bytes() const {
    return static_cast<double>(Weights::bytes_needed(sets_.data.classes->size(), sets_.data.space->features));
  }
  double blocks_of_step() const {
    return std::min(blocks(), std::ceil(static_cast<double>(options_.draws.head) / kLanes) + 1 +
                                  std::ceil(static_cast<double>(options_.classes_per_step) / kLanes));
  }

  // Rows to judge trials of so many steps by: evaluating them must cost little beside the trial.
  double judged_rows(double steps) const {
    const double share = 0.3 * steps * cost_.step(blocks_of_step()) / cost_.evaluation(blocks());
    return std::clamp(share, timed() ? 250.0 : 1000.0, 20000.0);
  }
  Dataset judges(const Dataset& from, double steps) const {
    return sample_part(from, static_cast<std::size_t>(judged_rows(steps)), options_.seed);
  }
  // Whether a trial would take much more of --seconds than it may.
  bool too_dear(double steps) const {
    if (!timed()) return false;
    const double lines =
        steps * cost_.step(blocks_of_step()) + judged_rows(steps) * cost_.evaluation(blocks());
    return kSecondsPerLine * lines + weight_bytes() / kClearing > 3 * kSlice * options_.seconds;
  }

  // Steps of a trial: as many as wanted, but under --seconds no more than fit into its slice.
  std::uint64_t trial_steps(double wanted) const {
    if (!timed()) return static_cast<std::uint64_t>(wanted);
    const double fit = kSlice * options_.seconds / (kSecondsPerLine * cost_.step(blocks_of_step()));
    return static_cast<std::uint64_t>(std::clamp(fit, std::min(500.0, wanted), wanted));
  }
  bool out_of_time() const { return timed() && watch_.seconds_running() > kMostSearching * options_.seconds; }

  // Trains from the beginning, for so many steps (0: for o.epochs), and returns the log-loss on `judge`.
  double trial(const char* about, const Dataset& data, const Dataset& judge, TrainOptions o,
               std::uint64_t steps) {
    if (out_of_time() || cut_) return kInfinity;
    o.open = {};
    o.target = Target::valid;
    o.eval_every = 0, o.patience = 0, o.valid_share = 0, o.seconds = 0, o.steps = steps;
    if (steps > 0) o.epochs = kUnlimitedEpochs;
    Stopwatch own;
    own.resume();
    const std::uint64_t epoch_steps = steps_per_epoch(data.size(), o);
    TrainState state = make_state(data, o, &spare_);
    StepPlan plan(o, epoch_steps);
    if (timed()) plan.cut_at(kLongestTrial * options_.seconds, own);
    double loss = kInfinity;
    try {
      const auto runner = make_epoch_runner(data, o);
      while (state.epoch < o.epochs && !plan.used_up(state.epoch, state.step) && !over())
        runner->run(data, state, stop_, {}, &plan);
      // Fresh memory can be far slower than any count of costs says: then there is no search.
      cut_ = timed() && plan.cut();
      if (cut_) {
        spare_ = std::move(state.weights);
        return kInfinity;
      }
      if (const auto metrics = evaluate(state.weights, judge, o.thread_count(), &stop_))
        loss = metrics->log_loss;
    } catch (const DivergenceError&) {  // its loss is what a lost trial has
    }
    spare_ = std::move(state.weights);
    if (over()) return kInfinity;
    ++trials_;
    SearchTrial tried;
    tried.about = about, tried.number = trials_;
    tried.step = o.step, tried.ridge = o.ridge;
    tried.rows = data.size(), tried.steps = state.epoch * epoch_steps + state.step;
    tried.judged_on = judge.size(), tried.log_loss = loss;
    tried.seconds = own.seconds_running();
    for (TrainObserver* observer : observers_) observer->tried(tried);
    return loss;
  }

  // Walks from `start` by `factor` while it gets better, first up, else down. Returns the best place.
  double walk(double start, double factor, double gain_up, int most, double known,
              const std::function<double(double)>& loss, double* least) const {
    double best = start, best_loss = known < kInfinity ? known : loss(start);
    for (const double by : {factor, 1 / factor}) {
      bool moved = false;
      for (double at = best * by; most > 0 && !over(); at *= by) {
        --most;
        const double found = loss(at);
        const double gain = by > 1 ? gain_up : kGain;  // a tie is no reason to go on
        if (!(found < best_loss - gain * std::abs(best_loss))) break;
        best = at, best_loss = found, moved = true;
      }
      if (moved) break;
    }
    *least = best_loss;
    return best;
  }

  void for_training() {
    if (options_.open.ridge) options_.ridge = 0;
    if (!options_.open.step) return;
    const auto rows = static_cast<double>(sets_.data.size());
    const std::uint64_t steps = trial_steps(std::clamp(rows / 2, std::min(2 * rows, 5000.0), 1e5));
    const double clearing = weight_bytes() / kClearing;  // seconds
    const bool dear = timed() ? clearing > 0.01 * options_.seconds || too_dear(static_cast<double>(steps))
                              : weight_bytes() / 64 > 0.5 * rows * cost_.step(blocks_of_step());
    if (dear) {
      options_.step = clamped(kUntriedTrainStep * step_unit_);
      return;
    }
    const Dataset judge = judges(sets_.data, static_cast<double>(steps));
    double least = 0;
    const auto loss = [&](double step) {
      TrainOptions o = options_;
      o.step = clamped(step);
      return trial("step", sets_.data, judge, o, steps);
    };
    options_.step = clamped(walk(kTrainStep * step_unit_, kStepFactor, kGainUp, 2, kInfinity, loss, &least));
  }

  void for_validation() {
    TrainOptions& o = options_;
    const bool ridge = o.open.ridge, step = o.open.step, epochs = o.open.epochs;
    if (ridge) o.ridge = first_ridge(sets_.data);
    if (step) o.step = first_step(sets_.data, o.intercept);
    if (!ridge && !step && !epochs) return;

    std::optional<RowSplit> own;
    const std::size_t rows_there = sets_.data.rows.rows();
    if (sets_.valid == nullptr) {
      if (rows_there < kFewestRows) {  // too few to learn anything from
        if (epochs) o.epochs = 10;
        return;
      }
      own = set_aside(sets_.data, o.valid_share, o.seed);
    }
    const Dataset& data = own ? own->rest : sets_.data;
    const Dataset& valid = own ? own->valid : *sets_.valid;

    // Trials on all rows where they are few, else on a part of them.
    const auto n = static_cast<double>(data.size());
    const double part = std::min(n, std::max(25000.0, n > 5e5 ? n / 8 : n / 4));
    const double passes = part < n ? 2 : 4;
    Dataset some;
    if (part < n)
      some = sample_part(data, static_cast<std::size_t>(part / n * static_cast<double>(data.row_count())),
                         o.seed + 1);
    const Dataset& small = part < n ? some : data;
    const std::uint64_t steps = trial_steps(passes * static_cast<double>(small.size()));
    const double one_trial = static_cast<double>(steps) * cost_.step(blocks_of_step()) + weight_bytes() / 64;
    int most = 10;  // trials; fewer where each is dear
    while (most > 4 && most * one_trial > 8 * n * cost_.step(blocks_of_step()) + 4e7) --most;
    if (too_dear(static_cast<double>(steps)) ||
        (timed() && weight_bytes() / kClearing > 0.01 * options_.seconds))
      most = 0;
    const Dataset judge = judges(valid, static_cast<double>(steps));
    double least = kInfinity;
    const auto try_with = [&](const char* about, double step_size, double mu) {
      TrainOptions with = o;
      with.step = clamped(step_size), with.ridge = std::min(mu, 1e15);
      return trial(about, small, judge, with, steps);
    };
    if (ridge && most > 0) {
      const auto loss = [&](double at) { return try_with("ridge", o.step, at); };
      // A part of the rows says little of large changes: the fewer the passes, the less ridge looks good.
      double mu = o.ridge;
      if (part >= n)
        mu = walk(mu, kRidgeFactor * kRidgeFactor, kGain, std::max(2, most - 6), kInfinity, loss, &least);
      mu = walk(mu, kRidgeFactor, kGain, 2, least, loss, &least);
      o.ridge = std::min(mu, 1e15);
    }
    if (step && most > 4 && !over())
      o.step = clamped(walk(
          o.step, kValidStepFactor, kGain, most > 7 ? 3 : 2, least,
          [&](double size) { return try_with("step", size, o.ridge); }, &least));
    if (!epochs || over()) return;
    // Epochs: longer and longer runs from the beginning, until one is no better.
    std::uint64_t e = n > 1e6 ? 1 : n > 1e5 ? 2 : 4;
    const bool known = part >= n && least < kInfinity && steps == 4 * data.size();
    double best = known ? least : kInfinity;
    o.epochs = e;
    std::uint64_t waited = 0;
    for (e = known ? 2 * e : e;
         e <= kMostEpochs && (best == kInfinity || static_cast<double>(e) * n <= kMostVisits); e *= 2) {
      TrainOptions with = o;
      with.epochs = e, with.steps = 0;
      const double found = trial("epochs", data, judge, with, 0);
      if (over()) return;
      // No room to look for the best number: all that fit.
      if (out_of_time() || (cut_ && best == kInfinity)) {
        o.epochs = kUnlimitedEpochs;
        break;
      }
      if (found < best * (1 - kGainEpochs)) {
        best = found, o.epochs = e, waited = 0;
      } else if (++waited >= std::max<std::uint64_t>(1, o.patience)) {
        break;
      }
    }
    if (best < kInfinity && o.epochs < kUnlimitedEpochs) refine(data, judge, ridge, step, best);
  }

  // Stopping early and ridge do the same work. Short runs have found the first; longer ones with more ridge
  // or smaller steps may be better still.
  void refine(const Dataset& data, const Dataset& judge, bool ridge, bool step, double best) {
    TrainOptions& o = options_;
    const auto n = static_cast<double>(data.size());
    constexpr std::uint64_t kLongerWithRidge = 4, kLongerWithStep = 2;
    // Very many rows: ridge was walked on an eighth of them, where little looks best.
    const bool many = n > 1e6;
    const auto better = [&](const TrainOptions& with) {
      if (static_cast<double>(with.epochs) * n > (many ? kMostVisits : kMostRefining) ||
          with.epochs > kMostEpochs || over())
        return false;
      const double found = trial("both", data, judge, with, 0);
      // Of two that the judges cannot tell apart, many rows get the one with more ridge.
      const double gain = many ? -kGainEpochs : kGainEpochs;
      if (over() || !(found < best * (1 - gain))) return false;
      best = found;
      o = with;
      return true;
    };
    if (many) {
      TrainOptions with = o;
      if (ridge) with.ridge = std::min(o.ridge * kRidgeFactor * kRidgeFactor, 1e15);
      if (step) with.step = clamped(o.step / 2);
      with.epochs = o.epochs * kLongerWithStep;
      if (ridge || step) better(with);
      return;
    }
    if (ridge) {
      TrainOptions with = o;
      with.ridge = std::min(o.ridge * kRidgeFactor, 1e15), with.epochs = o.epochs * kLongerWithRidge;
      better(with);
    }
    if (step) {
      TrainOptions with = o;
      with.step = clamped(o.step / kValidStepFactor), with.epochs = o.epochs * kLongerWithStep;
      better(with);
    }
  }

  const TrainSets& sets_;
  TrainOptions& options_;
  const Stopwatch& watch_;
  std::span<TrainObserver* const> observers_;
  const std::atomic<bool>& stop_;
  Weights& spare_;
  StepCost cost_;
  double step_unit_;
  std::uint64_t trials_ = 0;
  bool cut_ = false;  // a trial took too long
};

}  // namespace

double first_step(const Dataset& data, bool intercept) {
  return clamped(kValidStep * unit_of_step(data, intercept));
}

double first_ridge(const Dataset& data) {
  return std::min(kFirstRidge * mean_squared_norm(data) * mean_weight(data), 1e15);
}

StepCost step_cost(const Dataset& data) {
  return {data.nonzeros_per_row()};
}

// A block belongs to the head where so large a share of the rows has its label there that drawing it would
// seldom miss it. The tail gets as many draws as cost about as much as the rest of a step.
void choose_shape(const Dataset& data, TrainOptions& options) {
  options.method = "prox";
  const bool chooses = options.open.shape;
  options.open.shape = false;
  if (!options.open.any()) options.target = Target::valid;  // that of a named method
  if (!chooses) return;
  constexpr double kHeadShare = 0.08, kWorthDrawing = 0.7;
  const std::size_t classes = data.classes->size(), blocks = (classes + kLanes - 1) / kLanes;
  const std::vector<double> of_class = label_mass(data);
  std::vector<double> mass(blocks, 0.0);
  double total = 0;
  for (std::size_t k = 0; k < classes; ++k) mass[k / kLanes] += of_class[k], total += of_class[k];
  std::size_t head = 0;
  while (head < blocks && mass[head] >= kHeadShare * total) ++head;
  const StepCost cost = step_cost(data);
  const double draws = std::clamp(std::round(24 / std::max(1.0, cost.nonzeros)), 1.0, 12.0);
  const double drawn = cost.step(static_cast<double>(head) + 1 + draws);
  const double complete = cost.step(static_cast<double>(blocks));
  bool all = drawn > kWorthDrawing * complete;
  // Drawing pays while rows are new. Where the time is enough to see all of them several times with all
  // classes, what keeps a run from the optimum of its training rows is the noise of drawing.
  constexpr double kSeenOften = 6;
  if (options.target == Target::train && options.seconds > 0)
    all |= options.seconds > kSeenOften * static_cast<double>(data.size()) * complete * kSecondsPerLine;
  options.draw = "head-blocks";
  options.draws.head = all ? blocks * kLanes : head * kLanes;
  options.classes_per_step = static_cast<std::uint64_t>(draws) * kLanes;
}

bool choose_by_trials(const TrainSets& sets, TrainOptions& options, const Stopwatch& watch,
                      std::span<TrainObserver* const> observers, const std::atomic<bool>& stop,
                      Weights* spare) {
  Weights own;
  return Search(sets, options, watch, observers, stop, spare != nullptr ? *spare : own).run();
}

}  // namespace truemax
