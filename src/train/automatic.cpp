#include "train/automatic.hpp"
#include "train/device_choice.hpp"
#include "train/step_shape.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ranks/ranks.hpp"
#include "train/problem.hpp"
#include "train/softmax_gradient.hpp"
#include "weights/kernels.hpp"

namespace truemax {
namespace {

constexpr double kLeastStep = 1e-300;
// In units of 1/mean |x|^2: the middle of the range that works well on all our data sets.
constexpr double kValidStep = 3;
// In units of mean |x|^2.
constexpr double kFirstRidge = 0.1;
constexpr std::uint64_t kNewtonSteps = 100;

// The step of a row is multiplied by its weight.
double mean_weight(const DataView& data) {
  if (!data.has_weights()) return 1;
  double sum = 0;
  for (const ExampleId i : data.examples()) sum += data.weight(i);
  return std::max(sum / static_cast<double>(data.size()), 1e-300);
}

}  // namespace

double mean_squared_norm(const DataView& data) {
  double sum = 0;
  data.each_x([&](ExampleId, const RowView& x) { sum += squared_norm(x, false); });
  return std::max(sum / static_cast<double>(data.size()), kLeastNorm);
}

double clamped_step(double step) {
  return std::clamp(step, kLeastStep, kLargestStep);
}

double unit_of_step(const DataView& data, bool intercept) {
  const double norm = mean_squared_norm(data);
  return 1 / ((intercept ? std::max(norm, kShortRows) : norm) * mean_weight(data));
}

double first_step(const DataView& data, bool intercept) {
  return clamped_step(kValidStep * unit_of_step(data, intercept));
}

double first_ridge(const DataView& data) {
  return clamped_ridge(kFirstRidge * mean_squared_norm(data) * mean_weight(data));
}

StepCost step_cost(const DataView& data) {
  constexpr double kNear = 32e6, kFar = 1e9;  // bytes
  const auto bytes = static_cast<double>(Weights::bytes_needed(data.classes->size(), data.space->features));
  StepCost cost;
  cost.nonzeros = data.nonzeros_per_row();
  cost.seconds_per_line = bytes <= kNear ? 4e-9 : bytes <= kFar ? 1e-8 : 2e-8;
  cost.weight_bytes = bytes;
  return cost;
}

namespace {

// Learnt features: where the search starts. A step is in units of a parameter's own scale, so it hardly
// depends on the data.
struct LearntStart {
  double step, ridge;
  std::uint64_t epochs;
  // Step and ridge are those of so many examples: more ask for a smaller step and the same ridge per example.
  // 0: the same for any number.
  double examples;
};

LearntStart start_of(const DataView& data) {
  if (data.space->of_triples())
    return {0.004, 0.05, 16, 0};  // the ridge: the weight of N3 in an example's loss
  switch (data.space->encoder) {
    case EncoderKind::skipgram:
      return {0.003, 300, 2, 2e7};
    case EncoderKind::context:
    case EncoderKind::cbow:
      return {0.002, 150, 4, 2e6};
    default:
      return {0.004, 6 * mean_weight(data), 10, 0};
  }
}

void choose_learnt(const DataView& data, TrainOptions& options) {
  constexpr std::uint64_t kMostRows = 1024, kFewestSteps = 128;  // of a step; of an epoch
  constexpr double kTextDropout = 0.2;
  options.method = "scent";
  if (options.hidden == 0) options.hidden = std::max(first_hidden(data), kFewestHidden);
  const std::uint64_t n = data.size();
  if (options.open.shape)
    options.rows_per_step =
        std::clamp<std::uint64_t>(n / kFewestSteps, std::min<std::uint64_t>(n, 16), kMostRows);
  options.open.shape = false;
  options.classes_per_step = std::min<std::uint64_t>(options.classes_per_step, data.classes->size());
  if (options.open.layers) options.layers = 0;
  if (options.open.tied) options.tied = options.layers > 0;
  if (options.open.dropout) options.dropout = kTextDropout;
  const LearntStart start = start_of(data);
  const double times = start.examples > 0 ? static_cast<double>(n) / start.examples : 1;
  if (options.open.step) options.step = clamped_step(start.step * std::pow(times, -0.25));
  if (options.ridge == kAutomaticRidge) options.ridge = start.ridge * times;
  if (options.open.epochs && options.seconds == 0) options.epochs = start.epochs;
  if (!options.open.any()) options.target = Target::valid;
}

}  // namespace

// With the ridge chosen for it, more features than needed do no harm; they only cost time. More than half of
// the full rank gained nothing (delicious, 128 beside 256).
std::uint64_t first_hidden(const DataView& data) {
  constexpr std::uint64_t kUsual = 256;
  const std::uint64_t rank = full_rank(data);
  for (std::uint64_t hidden = kUsual; hidden >= kFewestHidden; hidden /= 2)
    if (2 * hidden <= rank || (hidden < rank && hidden / 2 < kFewestHidden)) return hidden;
  return 0;
}

void end_search(const TrainSets& sets, TrainOptions& options) {
  const bool watches = options.patience > 0 && sets.valid && !options.open.epochs;
  options.open = {};
  options.target = Target::valid;  // the default of named methods
  options.valid_share = 0;
  if (!watches) options.patience = 0;
  if (watches && options.eval_every == 0) options.eval_every = 1;
}

TrainOptions as_learnt(const DataView& data, TrainOptions options, std::uint64_t hidden) {
  options.method = kAutomatic;
  options.encoder = EncoderKind::bag;
  options.hidden = hidden;
  options.group = 0;
  options.open.encoder = false;
  options.draws.head = DrawOptions{}.head;
  options.complete_learnt([](const char* /*option*/) { return false; });
  choose_shape(data, options);
  return options;
}

namespace {

// Of an ordinary processor: a line of W that a row's scores and gradient take, or that all weights take once
// a step.
constexpr double kSecondsPerAdamLine = 4e-9;

// So many drawn blocks of the tail cost about as much as the rest of a step.
double tail_draws(const StepCost& cost) {
  return std::clamp(std::round(24 / std::max(1.0, cost.nonzeros)), 1.0, 12.0);
}

}  // namespace

// A row's |x|^2 is the number of its non-zeros in units in which values have size 1. So a row's score changes
// by at most about kAdamStep |x| in a step: large enough for short runs, and steps fall to a hundredth.
double adam_step(const DataView& data, bool intercept) {
  constexpr double kAdamStep = 0.6;
  return clamped_step(kAdamStep / std::sqrt(std::max(1.0, data.nonzeros_per_row()) + (intercept ? 1 : 0)));
}

// Each step costs one pass over W. Fewer than 32 an epoch learn too little from it.
std::uint64_t adam_rows(const DataView& data) {
  constexpr std::size_t kRowsAtMost = 256, kRowsAtLeast = 16, kStepsOfEpoch = 32;
  return std::min(std::clamp(data.size() / kStepsOfEpoch, kRowsAtLeast, kRowsAtMost), data.size());
}

namespace {

// Methods that keep vectors of the shape of W may be chosen, W is so small that they stay in the cache, and
// their sums stay in float32.
bool vectors_are_near(const DataView& data, const TrainOptions& options) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{4} << 20;
  return options.open.by_weight && !on_gpu(options) && data.streamed() == nullptr &&
         Weights::bytes_needed(data.classes->size(), data.space->features) <= kMostBytes &&
         features_fit_beside(FeatureUnits(data, options.thread_count()), options.intercept);
}

}  // namespace

// With few rows for every feature, classes can nearly or fully be told apart, and the log-loss of L-BFGS
// falls to its least in some dozens of steps. With more, single steps of many rows each lead further than one
// of all (delicious: 16 rows for every feature lose, 6 gain).
bool lbfgs_is_faster(const DataView& data, const TrainOptions& options) {
  constexpr double kMostExamples = 8192, kRowsOfFeature = 6, kFewestSteps = 80;
  if (!vectors_are_near(data, options)) return false;
  const auto rows = static_cast<double>(data.size()), features = static_cast<double>(data.space->features);
  if (rows > std::min(kMostExamples, kRowsOfFeature * features)) return false;
  // A step reads or writes vectors of the shape of W about so many times; a row costs as much as so many
  // lines.
  constexpr double kVectors = 100, kLinesOfRow = 56, kSecondsPerLine = 2.5e-9;
  const double blocks = std::ceil(static_cast<double>(data.classes->size()) / kLanes);
  const double lines = blocks * (rows * data.nonzeros_per_row() + kVectors * features) + kLinesOfRow * rows;
  return options.seconds > 0 ? options.seconds >= kFewestSteps * lines * kSecondsPerLine
                             : static_cast<double>(options.epochs) >= kFewestSteps;
}

bool adam_is_faster(const DataView& data, const TrainOptions& options) {
  constexpr double kFewestEpochs = 8;  // fewer leave it further from the optimum than prox
  if (!vectors_are_near(data, options)) return false;
  const double blocks = std::ceil(static_cast<double>(data.classes->size()) / kLanes);
  const auto rows = static_cast<double>(data.size());
  const double of_step = static_cast<double>(data.space->features) / static_cast<double>(adam_rows(data));
  const double lines = blocks * (data.nonzeros_per_row() + of_step);  // of a row
  // Where classes are easily told apart, steps over drawn ones lead as far, so all of them must not cost much
  // more: delicious has 4.6 times the lines and gains, generated rows with 5.7 and more lose.
  constexpr double kMostTimesDrawn = 5;
  const StepCost cost = step_cost(data);
  if (lines > kMostTimesDrawn * cost.step(2 + tail_draws(cost))) return false;
  const double epoch = rows * lines * kSecondsPerAdamLine;
  return options.seconds > 0 ? options.seconds >= kFewestEpochs * epoch
                             : static_cast<double>(options.epochs) >= kFewestEpochs;
}

// A block belongs to the head if it has the labels of so large a share of the rows that most steps would
// include it anyway. The tail gets so many draws that they cost about as much as the rest of a step.
void choose_shape(const DataView& data, TrainOptions& options) {
  if (options.learnt()) {
    choose_learnt(data, options);
    return;
  }
  if (options.open.encoder && first_hidden(data) == 0)
    options.open.encoder = options.open.hidden = false, options.encoder = EncoderKind::linear;
  options.method = "prox";
  const bool chooses = options.open.shape;
  options.open.shape = false;
  const OpenChoices& open = options.open;
  if (open.newton && open.step && newton_is_cheap(data, options.seconds)) {
    options.newton = kNewtonSteps, options.epochs = 0;
    options.open.step = options.open.epochs = false;
    if (!options.open.searches()) options.valid_share = 0;
  }
  options.open.newton = false;
  if (options.newton > 0) options.open.by_weight = false;
  if (chooses && lbfgs_is_faster(data, options)) {
    options.method = "lbfgs";
    options.open.by_weight = false;
    return;
  }
  if (chooses && adam_is_faster(data, options)) {
    options.method = "adam";
    options.rows_per_step = adam_rows(data);
    options.open.by_weight = false;
    return;
  }
  options.open.by_weight = false;
  if (!options.open.any()) options.target = Target::valid;  // the default of named methods
  if (!chooses) return;
  constexpr double kHeadShare = 0.08, kWorthDrawing = 0.7;
  const std::size_t classes = data.classes->size(), blocks = (classes + kLanes - 1) / kLanes;
  // Rows of a group remember none. Draws of few blocks find rivals soon enough (bibtex, delicious). For new
  // rows, rivals help on some data and mislead the short trials of others.
  constexpr std::uint64_t kRivals = 4, kFewestBlocks = 64;  // eight rivals gained nothing more
  const bool groups = options.group > 0 || ranks().in_groups();
  const bool wanted = options.target == Target::train && !groups && blocks >= kFewestBlocks;
  const std::uint64_t rivals = wanted ? kRivals : 0;
  const std::vector<double> of_class = label_mass(data);
  std::vector<double> mass(blocks, 0.0);
  double total = 0;
  for (std::size_t k = 0; k < classes; ++k) mass[k / kLanes] += of_class[k], total += of_class[k];
  std::size_t head = 0;
  while (head < blocks && mass[head] >= kHeadShare * total) ++head;
  const StepCost cost = step_cost(data);
  // A GPU takes many blocks in nearly the time of one: its steps are limited by what they read in all.
  // With their rivals, rows need few draws to fit the training rows.
  constexpr std::size_t kCardBlocks = 16;
  const std::size_t card_blocks = options.target == Target::train ? kCardBlocks / 2 : kCardBlocks;
  const bool card = on_gpu(options);
  if (card) head = std::clamp<std::size_t>(head, 1, card_blocks / 2 - 2);  // leaves room for the tail
  const double draws = card ? static_cast<double>(card_blocks - 1 - head - rivals) : tail_draws(cost);
  const double drawn = cost.step(static_cast<double>(head) + 1 + draws);
  const double complete = cost.step(static_cast<double>(blocks));
  bool all = drawn > kWorthDrawing * complete;
  // Drawing pays while rows are new. If there is time to see all rows several times with all classes, only
  // the noise of drawing keeps a run from the optimum of its training rows.
  constexpr double kSeenOften = 6, kSecondsPerLine = 4e-9;
  if (options.target == Target::train && options.seconds > 0)
    all |= options.seconds > kSeenOften * static_cast<double>(data.size()) * complete * kSecondsPerLine;
  if (card) all = blocks <= kCardBlocks;
  options.draw = "head-blocks";
  options.draws.head = all ? blocks * kLanes : head * kLanes;
  options.classes_per_step = static_cast<std::uint64_t>(draws) * kLanes;
  options.draws.rivals = all ? 0 : rivals;
}

}  // namespace truemax
