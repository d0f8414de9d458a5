#include "train/choose_steps.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "rule/methods.hpp"
#include "train/alternatives.hpp"
#include "train/start_values.hpp"
#include "train/step_cost.hpp"

namespace truemax {
namespace {

constexpr std::uint64_t kNewtonSteps = 100;

// Where their search starts. A step is in units of a parameter's own scale, so it hardly depends on the data.
struct LearntStart {
  double step, ridge;
  std::uint64_t epochs;
  // Step and ridge are those of so many examples: more ask for a smaller step and the same ridge per example.
  // 0: the same for any number.
  double examples;
};

LearntStart learnt_start(const Problem& problem) {
  if (problem.triples) return {0.004, 0.05, 16, 0};  // the ridge: the weight of N3 in an example's loss
  switch (problem.encoder) {
    case EncoderKind::skipgram:
      return {0.003, 300, 2, 2e7};
    case EncoderKind::context:
    case EncoderKind::cbow:
      return {0.002, 150, 4, 2e6};
    default:
      return {0.004, 6 * problem.mean_weight, 10, 0};
  }
}

void choose_learnt(const Problem& problem, Draft& d) {
  constexpr std::uint64_t kMostRows = 1024, kFewestSteps = 128;  // of a step; of an epoch
  constexpr double kTextDropout = 0.2;
  Recipe& r = d.recipe;
  r.method = "scent";
  if (r.hidden == 0) r.hidden = std::max(first_hidden(problem), kFewestHidden);
  const std::uint64_t n = problem.examples;
  if (d.shape)
    r.rows_per_step = std::clamp<std::uint64_t>(n / kFewestSteps, std::min<std::uint64_t>(n, 16), kMostRows);
  d.shape = false;
  r.classes_per_step = std::min<std::uint64_t>(r.classes_per_step, problem.classes);
  if (r.sought.layers) r.layers = 0;
  if (r.sought.tied) r.tied = r.layers > 0;
  if (r.sought.dropout) r.dropout = kTextDropout;
  const LearntStart start = learnt_start(problem);
  const double times = start.examples > 0 ? static_cast<double>(n) / start.examples : 1;
  if (r.sought.step) r.step = clamped_step(start.step * std::pow(times, -0.25));
  if (d.ridge) r.ridge = start.ridge * times;
  if (r.sought.epochs && r.seconds == 0) r.epochs = start.epochs;
  if (!d.any()) r.target = Target::valid;
}

// A block belongs to the head if it has the labels of so large a share of the rows that most steps would
// include it anyway. The tail gets so many draws that they cost about as much as the rest of a step.
void choose_blocks(const Problem& problem, const Machine& machine, const std::optional<std::uint64_t>& said,
                   Recipe& r) {
  constexpr double kHeadShare = 0.08, kWorthDrawing = 0.7;
  const std::size_t classes = problem.classes, blocks = problem.blocks();
  // Rows of a group remember none. Draws of few blocks find rivals soon enough (bibtex, delicious). For new
  // rows, rivals help on some data and mislead the short trials of others.
  constexpr std::uint64_t kRivals = 4, kFewestBlocks = 64;  // eight rivals gained nothing more
  const bool groups = r.group > 0 || machine.in_groups;
  const bool wanted = r.target == Target::train && !groups && blocks >= kFewestBlocks;
  const std::uint64_t rivals = said.value_or(wanted ? kRivals : 0);
  std::vector<double> mass(blocks, 0.0);
  double total = 0;
  for (std::size_t k = 0; k < classes; ++k) {
    const double of_class = (*problem.label_mass)[k];
    mass[k / kBlockClasses] += of_class, total += of_class;
  }
  std::size_t head = 0;
  while (head < blocks && mass[head] >= kHeadShare * total) ++head;
  const StepCost cost = step_cost(problem);
  // A GPU takes many blocks in nearly the time of one: its steps are limited by what they read in all.
  // With their rivals, rows need few draws to fit the training rows.
  constexpr std::size_t kCardBlocks = 16;
  const std::size_t card_blocks = r.target == Target::train ? kCardBlocks / 2 : kCardBlocks;
  const bool card = r.on_gpu();
  if (card) head = std::clamp<std::size_t>(head, 1, card_blocks / 2 - 2);  // leaves room for the tail
  const double draws =
      card ? std::max(1.0, static_cast<double>(card_blocks - 1 - head) - static_cast<double>(rivals))
           : cost.tail_draws();
  const double drawn = cost.step(static_cast<double>(head) + 1 + draws);
  const double complete = cost.step(static_cast<double>(blocks));
  bool all = drawn > kWorthDrawing * complete;
  // Drawing pays while rows are new. If there is time to see all rows several times with all classes, only
  // the noise of drawing keeps a run from the optimum of its training rows.
  constexpr double kSeenOften = 6, kSecondsPerLine = 4e-9;
  if (r.target == Target::train && r.seconds > 0)
    all |= r.seconds > kSeenOften * static_cast<double>(problem.examples) * complete * kSecondsPerLine;
  if (card) all = blocks <= kCardBlocks;
  r.draw = "head-blocks";
  r.draws.head = all ? blocks * kBlockClasses : head * kBlockClasses;
  r.classes_per_step = static_cast<std::uint64_t>(draws) * kBlockClasses;
  r.draws.rivals = all ? 0 : rivals;
}

}  // namespace

// The draft of a linear model, for `hidden` learnt features.
Draft as_learnt(const Problem& problem, Draft d, std::uint64_t hidden) {
  Recipe& r = d.recipe;
  r.encoder = EncoderKind::bag;
  r.hidden = hidden;
  r.group = 0;
  d.encoder = false;
  r.draws.head = DrawOptions{}.head;
  use_learnt_steps({}, false, d);
  choose_learnt(problem, d);
  return d;
}

void choose_steps(const Problem& problem, const Machine& machine, Draft& d) {
  Recipe& r = d.recipe;
  if (r.learnt()) return choose_learnt(problem, d);
  if (d.encoder && first_hidden(problem) == 0)
    d.encoder = r.sought.hidden = false, r.encoder = EncoderKind::linear;
  r.method = "prox";
  const bool chooses = d.shape;
  d.shape = false;
  if (r.newton == 0 && d.takes("newton", d.newton ? why_not_newton(problem, r.seconds) : d.not_newton)) {
    r.newton = kNewtonSteps, r.epochs = 0;
    r.sought.step = r.sought.epochs = false;
    if (!d.searches() && !d.encoder) r.valid_share = 0;
  }
  const Facts facts{r, problem, machine};
  const bool by_weight = d.by_weight && r.newton == 0;
  if (r.newton > 0) d.not_by_weight = "Newton's method takes the place of steps";
  if (d.takes("lbfgs", by_weight ? why_not_lbfgs(facts) : d.not_by_weight)) {
    r.method = "lbfgs";
    return;
  }
  if (d.takes("adam", by_weight ? why_not_adam(facts) : d.not_by_weight)) {
    r.method = "adam";
    r.rows_per_step = adam_rows(problem);
    return;
  }
  if (!d.any()) r.target = Target::valid;  // the default of named methods
  if (chooses) choose_blocks(problem, machine, d.rivals, r);
}

}  // namespace truemax
