#include "train/resolve.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/text.hpp"
#include "rule/methods.hpp"
#include "train/alternatives.hpp"
#include "train/card_cost.hpp"
#include "train/device_lane.hpp"
#include "train/group_lane.hpp"
#include "train/memory_plan.hpp"
#include "train/require.hpp"
#include "train/step_cost.hpp"
#include "train/step_inputs.hpp"

namespace truemax {
namespace {

constexpr double kLeastStep = 1e-300;
// In units of 1/mean |x|^2: the middle of the range that works well on all our data sets.
constexpr double kValidStep = 3;
// In units of mean |x|^2.
constexpr double kFirstRidge = 0.1;
constexpr std::uint64_t kNewtonSteps = 100;
constexpr std::uint64_t kMostHidden = 1024, kSmallestHidden = 16;  // of trials; of what memory leaves

// A recipe that is being decided, with what is still open besides what trials shall find.
struct Draft {
  Recipe recipe;
  bool automatic = false;
  bool shape = false;                     // draw and classes of a step, or its rows
  bool ridge = false;                     // nothing was said of it
  bool newton = false;                    // Newton's method instead of steps, if it is cheap
  bool by_weight = false;                 // adam or lbfgs, where they are faster
  std::string not_newton, not_by_weight;  // why they are not open
  Resolved::Reasons reasons;
  bool encoder = false;  // linear or learnt features
  bool row_state = false;

  bool searches() const { return recipe.sought.any(); }
  bool any() const { return shape || encoder || searches(); }
  // `why_not`: why this solver is not taken; empty: it is.
  bool takes(const char* solver, std::string why_not) {
    if (why_not.empty()) return true;
    reasons.passed_over.push_back({solver, std::move(why_not)});
    return false;
  }
};

bool runs_on_card(const Recipe& recipe) {
  const std::optional<device::Choice> where = device::Choice::read(recipe.device);
  return where && where->kind == device::Kind::cuda;
}

void require_cpu(const Recipe& recipe) {
  if (runs_on_card(recipe))
    throw UserError("--device: the ranks of truemax-mpi train on their CPUs; leave it out");
}

// Many rows share many drawn classes, so that scores are matrix products.
void use_learnt_steps(const Asked& asked, bool text, Draft& d) {
  Recipe& r = d.recipe;
  d.shape = !asked.rows_per_step;
  if (!asked.draw) r.draw = "frequency";
  if (!asked.classes_per_step) r.classes_per_step = 1024;
  const bool shares_inputs = r.encoder == EncoderKind::skipgram || r.encoder == EncoderKind::complex;
  if (!asked.rule.rho) r.rule.rho = shares_inputs ? 4 : 0.1;
  if (!asked.rule.rho_falls) r.rule.rho_falls = false;
  d.row_state = !asked.row_state;
  if (text) r.sought.ridge = false;  // a part of a text asks for too little ridge, so it is not tuned
  if (!text || r.target == Target::train) return;
  r.sought.layers = !asked.layers && r.encoder == EncoderKind::context;
  // A word is not the best guess for its own neighbours, and one word alone leaves little to leave out.
  const bool several = r.encoder != EncoderKind::skipgram;
  r.sought.tied = several && !asked.tied, r.sought.dropout = several && !asked.dropout;
}

// Options that mean something else for learnt features (a step, a ridge) ask for the linear model.
void open_encoder(const Asked& asked, bool no_epochs, Draft& d) {
  Recipe& r = d.recipe;
  const bool of_linear = !d.shape || !r.sought.step || !r.sought.ridge || r.steps > 0 ||
                         asked.rows_per_step || asked.rule.rho || asked.rule.rho_falls || r.lock_free ||
                         r.group > 0;
  d.encoder = r.encoder == EncoderKind::automatic && r.hidden == 0 && !of_linear && !no_epochs;
  r.sought.hidden = r.hidden == 0 && r.seconds == 0 && r.target == Target::valid &&
                    (d.encoder || r.encoder == EncoderKind::bag);
}

// Why methods that use none of these options, or that are for runs without them, are not open.
std::string closed_by(Asked asked, std::initializer_list<const char*> options, const Draft& d, bool groups) {
  if (d.recipe.learnt()) return "features are learnt";
  if (runs_on_card(d.recipe)) return "the run is on a GPU";
  OptionTable table;
  asked.describe(table);
  for (const char* name : options)
    if (table.find(name)->said()) return fmt::format("it is not taken with --{}", name);
  return groups ? "rows are taken in groups" : "the options are those of steps";
}

// Without a method.
void open_choices(const Asked& asked, const Sniffed& sniffed, bool groups, Draft& d) {
  Recipe& r = d.recipe;
  const bool text = reads_words(sniffed.encoder), triples = sniffed.encoder == EncoderKind::complex;
  const bool aims_at_train = r.target == Target::train, on_card = runs_on_card(r);
  const bool no_epochs = r.epochs == 0 && asked.epochs;
  d.shape = !asked.draw && !asked.draws.head && !asked.classes_per_step;
  r.sought.step = !asked.step;
  r.sought.epochs = !asked.epochs && r.steps == 0 && !aims_at_train;
  d.ridge = asked.ridge_auto || (!asked.ridge && !aims_at_train);
  r.sought.ridge = d.ridge;
  if (!asked.schedule) r.schedule = Schedule::linear;
  if (!asked.visit) r.visit = Visit::shuffle;
  if (!asked.intercept) r.intercept = !aims_at_train && !triples;
  if (!asked.start_at_frequencies) r.start_at_frequencies = r.intercept;
  if (!asked.eval_every) r.eval_every = 0;
  open_encoder(asked, no_epochs, d);
  if (r.learnt()) {
    use_learnt_steps(asked, text, d);
  } else {
    if (!asked.draw && !d.shape) r.draw = "head-blocks";
    if (!d.shape && !asked.classes_per_step) r.classes_per_step = 16;
  }
  const bool of_steps = asked.newton || asked.schedule || asked.visit || asked.rows_per_step ||
                        asked.valid_share || asked.start_at_frequencies || asked.ridge_by_spread ||
                        asked.rule.rho || asked.rule.rho_falls || asked.eval_every;
  d.newton = d.shape && r.sought.step && !asked.epochs && r.steps == 0 && !r.learnt() && !r.lock_free &&
             r.patience == 0 && !on_card && !groups && !of_steps;
  const bool of_prox = asked.rows_per_step || asked.rule.rho || asked.rule.rho_falls;
  d.by_weight = d.shape && r.sought.step && aims_at_train && !r.learnt() && !r.lock_free && !groups &&
                r.steps == 0 && r.newton == 0 && !on_card && !of_prox;
  if (!d.newton)
    d.not_newton =
        closed_by(asked,
                  {"draw", "head", "classes-per-step", "step", "epochs", "steps", "lock-free", "patience",
                   "group", "newton", "schedule", "visit", "rows-per-step", "valid-share",
                   "start-at-frequencies", "ridge-by-spread", "rho", "rho-falls", "eval-every"},
                  d, groups);
  if (!d.by_weight)
    d.not_by_weight = !aims_at_train
                          ? "it is for --target train"
                          : closed_by(asked,
                                      {"draw", "head", "classes-per-step", "step", "lock-free", "steps",
                                       "newton", "group", "rows-per-step", "rho", "rho-falls"},
                                      d, groups);
  if (r.newton > 0 && !asked.epochs) r.epochs = 0, r.sought.step = r.sought.epochs = false;
  if (no_epochs) r.sought.step = r.sought.ridge = r.sought.hidden = d.ridge = false;
  if (!asked.valid_share) r.valid_share = d.searches() && !aims_at_train && !sniffed.has_valid ? 0.1 : 0;
}

// What was asked, and what follows from that alone.
Draft draft_of(const Asked& asked, const Sniffed& sniffed, const Start& start) {
  constexpr std::uint64_t kTextFeatures = 256, kTripleFeatures = 200;
  Draft d;
  d.automatic = asked.automatic();
  d.recipe = over_defaults(asked);
  Recipe& r = d.recipe;
  const bool text = reads_words(sniffed.encoder), triples = sniffed.encoder == EncoderKind::complex;
  if (r.encoder == EncoderKind::automatic) r.encoder = sniffed.encoder;
  const bool groups = r.group > 0 || start.group > 0 || sniffed.in_groups;
  if (!asked.device && d.automatic) r.device = device::kAuto;
  const bool of_blocks = runs_on_card(r) || (groups && !d.automatic && !find_method(r.method).whole_set);
  if (of_blocks && !d.automatic && r.hidden == 0 && !asked.draw) {
    r.draw = "blocks";  // the only one of a GPU, and that of groups
    if (!asked.classes_per_step) r.classes_per_step = kBlockClasses;
  }
  if ((text || triples) && d.automatic && !asked.hidden && r.encoder != EncoderKind::linear)
    r.hidden = text ? kTextFeatures : kTripleFeatures;
  if (d.automatic) {
    open_choices(asked, sniffed, groups, d);
    r.method = r.learnt() ? "scent" : "prox";
  }
  if (r.encoder == EncoderKind::automatic && !d.encoder)
    r.encoder = r.hidden > 0 ? EncoderKind::bag : EncoderKind::linear;
  if ((r.seconds > 0 || r.steps > 0) && !asked.epochs) r.epochs = kUnlimitedEpochs;
  // Evaluations do not count as training time, but the user waits for them: a second may hold thousands of
  // epochs.
  if (!asked.eval_every && r.seconds > 0) r.eval_every = 0;
  if (!asked.eval_every && r.patience > 0 && !d.searches()) r.eval_every = 1;
  if (r.group == 0) r.group = start.group;
  return d;
}

// A linear model continues as one, learnt features with their h, layers and ties: as if that had been said.
Asked with_shape_of(const Start::Shape& model, Asked asked) {
  const std::uint64_t hidden = model.learnt ? model.hidden : 0;
  const EncoderKind encoder = asked.encoder.value_or(EncoderKind::automatic);
  const bool named = reads_words(model.encoder) || model.of_triples;
  if ((asked.hidden && *asked.hidden != hidden) || (hidden == 0 && encoder == EncoderKind::bag) ||
      (hidden > 0 && encoder == EncoderKind::linear))
    throw UserError(
        hidden == 0
            ? std::string("--hidden: the model to start from is linear; leave --hidden and --encoder out")
            : fmt::format("--hidden: the model to start from has {} learnt features; give --hidden {}, or "
                          "leave it out",
                          hidden, hidden));
  if ((asked.layers && *asked.layers != model.layers) || (asked.tied && *asked.tied != model.tied))
    throw UserError(fmt::format("the model to start from has --layers {} {}; give these, or leave them out",
                                model.layers, model.tied ? "--tied" : "--no-tied"));
  if (named && encoder != EncoderKind::automatic && encoder != model.encoder)
    throw UserError("--encoder: the model to start from has another one; leave --encoder out");
  if (model.intercept && !asked.intercept.value_or(true))
    throw UserError("--no-intercept: the model to start from has intercepts; leave --no-intercept out");
  if (model.learnt) asked.hidden = hidden, asked.layers = model.layers, asked.tied = model.tied;
  if (model.intercept) asked.intercept = true;
  if (named)
    asked.encoder = model.encoder;
  else if (hidden == 0 && encoder == EncoderKind::automatic)
    asked.encoder = EncoderKind::linear;
  return asked;
}

Asked with_shape_of(const Start& start, const Asked& asked) {
  if (!start.model) return asked;
  try {
    return with_shape_of(*start.model, asked);
  } catch (const UserError& error) {
    if (start.name.empty()) throw;
    throw UserError(fmt::format("--init {}: {}", start.name, error.what()));
  }
}

void require_possible(const Asked& asked, const Draft& d, const Sniffed& sniffed) {
  require_possible(
      d.recipe,
      {.asked = &asked, .shape_is_open = d.shape, .searches = d.searches(), .in_groups = sniffed.in_groups});
}

// ---- Learnt features

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

// ---- Linear models

// A block belongs to the head if it has the labels of so large a share of the rows that most steps would
// include it anyway. The tail gets so many draws that they cost about as much as the rest of a step.
void choose_blocks(const Problem& problem, const Machine& machine, Recipe& r) {
  constexpr double kHeadShare = 0.08, kWorthDrawing = 0.7;
  const std::size_t classes = problem.classes, blocks = problem.blocks();
  // Rows of a group remember none. Draws of few blocks find rivals soon enough (bibtex, delicious). For new
  // rows, rivals help on some data and mislead the short trials of others.
  constexpr std::uint64_t kRivals = 4, kFewestBlocks = 64;  // eight rivals gained nothing more
  const bool groups = r.group > 0 || machine.in_groups;
  const bool wanted = r.target == Target::train && !groups && blocks >= kFewestBlocks;
  const std::uint64_t rivals = wanted ? kRivals : 0;
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
  const double draws = card ? static_cast<double>(card_blocks - 1 - head - rivals) : cost.tail_draws();
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
  if (chooses) choose_blocks(problem, machine, r);
}

// ---- Where, and in how much memory

// False: the card has to be known first.
bool choose_device(const Problem& problem, const Machine& machine, Draft& d) {
  Recipe& r = d.recipe;
  if (machine.in_groups) require_cpu(r), r.device = device::kCpu;
  if (r.device != device::kAuto) return true;
  r.device = device::kCpu;
  const auto stay = [&](std::string why) {
    d.reasons.device = std::move(why);
    return true;
  };
  if (problem.stream) return stay("the rows are streamed");
  if (d.newton && why_not_newton(problem, r.seconds).empty()) return stay("Newton's method takes less time");
  Recipe there = r;
  if (d.shape) there.draw = "blocks";
  const bool draws = !d.shape && !r.learnt() && !find_method(r.method).whole_set;
  const std::unique_ptr<Draw> draw = draws ? draw_for(r, problem) : nullptr;
  const Facts facts{there, problem, machine, draw.get()};
  if (!r.learnt())
    if (const std::string why = DeviceLane::why_not(facts); !why.empty())
      return stay(why.substr(0, why.find(':')));  // without the advice
  const CardCost cost = card_cost(facts, d.encoder, d.shape);
  if (!cost.is_faster())
    return stay(fmt::format("steps take about {:.2g} s here, and a GPU {:.2g} s to start", cost.cpu, cost.start));
  if (!machine.knows_card) return false;
  if (!machine.card) return stay("there is no GPU");
  const std::uint64_t needed =
      r.learnt() && r.hidden > 0 ? learnt_card_bytes(facts) : DeviceLane::bytes(facts);
  if (needed > machine.card->free)
    return stay(fmt::format("{} needs {} and has {} free", machine.card->name, size_text(needed),
                            size_text(machine.card->free)));
  r.device = "cuda";
  d.newton = false, d.not_newton = "the run is on a GPU";
  return stay("it is faster here");
}

MemoryPlan memory_of(const Recipe& recipe, const Problem& problem, const Machine& machine) {
  const std::unique_ptr<Draw> draw = draw_for(recipe, problem);
  return plan_memory({recipe, problem, machine, draw.get()});
}

// The largest h for trials that fits, by halves from the largest one below the number of classes and of
// features; 0: not even the smallest one fits.
std::uint64_t most_hidden(Recipe learnt, const Problem& problem, const Machine& machine) {
  std::uint64_t hidden = kMostHidden;
  while (hidden > learnt.hidden && hidden >= problem.full_rank()) hidden /= 2;
  for (; hidden >= kSmallestHidden; hidden /= 2) {
    learnt.hidden = learnt.most_hidden = hidden;
    if (memory_of(learnt, problem, machine).fits()) return hidden;
  }
  return 0;
}

// Learnt features where the weights of a linear model do not fit, and trials of no more of them than fit.
// Returns what to tell the user; empty: nothing.
std::string fit_to_memory(const Problem& problem, const Machine& machine, Draft& d) {
  Recipe& r = d.recipe;
  if (!d.encoder && !r.sought.hidden) return {};
  Draft learnt = d.encoder ? as_learnt(problem, d, first_hidden(problem)) : d;
  const std::uint64_t most = most_hidden(learnt.recipe, problem, machine);
  learnt.recipe.most_hidden = most;
  learnt.recipe.hidden = std::min(learnt.recipe.hidden, most);
  if (!d.encoder) {
    if (most > 0) d = std::move(learnt);
    return {};
  }
  // Trials take too long for --seconds.
  const bool compares = r.seconds == 0;
  Draft linear = d;
  linear.encoder = linear.recipe.sought.hidden = false, linear.recipe.encoder = EncoderKind::linear;
  const MemoryPlan plan = memory_of(linear.recipe, problem, machine);
  if (plan.fits() && most > 0) {
    d = std::move(linear);
    if (!compares) return {};
    Recipe& found = d.recipe;
    found.sought.encoder = true;
    found.most_hidden = most;
    found.rival = std::make_shared<const Recipe>(std::move(learnt.recipe));
    return {};
  }
  if (most == 0) {
    d = std::move(linear);
    return plan.fits() && compares ? "not enough memory to try learnt features: the model is linear" : "";
  }
  d = std::move(learnt);
  return fmt::format(
      "the weights of a linear model do not fit: {} classes x {} features need {}, {} available; learning "
      "features instead",
      plan.classes, plan.features, size_text(plan.weights), size_text(plan.there));
}

// One running mean of squared gradients for each vector, if memory is short otherwise.
bool save_memory(const Problem& problem, const Machine& machine, Draft& d) {
  if (d.recipe.hidden == 0 || !d.row_state) return false;
  d.recipe.row_state = !memory_of(d.recipe, problem, machine).fits();
  return d.recipe.row_state;
}

// ---- What to tell

std::string note_on_classes(const Recipe& r, const Problem& problem) {
  const std::uint64_t others = problem.classes - (r.rows_per_step == 1 ? 1 : 0);
  if (r.classes_per_step <= others || r.draw != "uniform" || find_method(r.method).whole_set) return {};
  return fmt::format("--classes-per-step {}: there are {} to draw from, and every step takes them all",
                     r.classes_per_step, others);
}

// Steps that suit short rows are too long for an intercept, and learnt features begin with numbers that suit
// rows of length 1. Newton's method and steps by weight have units of their own.
std::string note_on_short_rows(const Draft& d, const Problem& problem) {
  const Recipe& r = d.recipe;
  const bool has_values = !problem.is_text() && !problem.triples;
  if (!d.automatic || !has_values || problem.normalized) return {};
  if (!r.intercept && !r.learnt() && !r.sought.encoder) return {};
  if (r.newton_alone() || find_method(r.method).by_weight) return {};
  const double norm = *problem.mean_square;
  if (norm >= kShortRows || norm <= kLeastNorm) return {};  // l2 leaves empty rows as they are
  return fmt::format(
      "rows are short: the mean of |x|^2 is {:.2g}, and training suits rows of about 1; "
      "'--normalize l2' usually gives a lower log-loss",
      norm);
}

// What was said and has no effect.
std::vector<std::string> notes_of_unused(Asked asked, const Draft& d) {
  OptionTable table;
  asked.describe(table);
  const Recipe& r = d.recipe;
  const std::string& method = asked.automatic() ? r.method : *asked.method;
  const MethodInfo& info = find_method(method);
  const bool chosen = d.automatic && !r.learnt() && !asked.draw;
  const std::string_view draw = chosen ? "head-blocks" : std::string_view(r.draw);
  std::vector<std::string> notes;
  for (const Option& option : table.options()) {
    if (!option.said()) continue;
    const std::vector<std::string>&users = option.tags.methods, &draw_users = option.tags.draws;
    if (!users.empty() && find_alias(method) != nullptr)
      notes.push_back(fmt::format("--{} has no effect on {}, whose options are fixed; it is for {}",
                                  option.name, method, fmt::join(users, ", ")));
    else if (!users.empty() && std::find(users.begin(), users.end(), info.name) == users.end())
      notes.push_back(fmt::format("--{} has no effect on {}; it is for {}", option.name, info.name,
                                  fmt::join(users, ", ")));
    else if (info.whole_set && (option.name == "draw" || !draw_users.empty()))
      notes.push_back(
          fmt::format("--{} has no effect on {}, which takes all classes", option.name, info.name));
    else if (!draw_users.empty() && std::find(draw_users.begin(), draw_users.end(), draw) == draw_users.end())
      notes.push_back(fmt::format("--{} has no effect on the draw {}; it is for {}", option.name, draw,
                                  fmt::join(draw_users, ", ")));
    else if (option.name == "classes-per-step" && !info.whole_set && !find_draw(draw).takes_count)
      notes.push_back(
          fmt::format("--{} has no effect on the draw {}, which takes all classes", option.name, draw));
  }
  if (info.name == "lbfgs")
    for (const char* name : {"step", "schedule", "decay", "rows-per-step", "visit"})
      if (table.find(name)->said())
        notes.push_back(
            fmt::format("--{} has no effect on lbfgs, which finds its own step over all rows", name));
  if (asked.decay && r.schedule == Schedule::linear)
    notes.emplace_back("--decay has no effect on --schedule linear");
  return notes;
}

// Of a recipe, whoever said it.
std::vector<std::string> notes_on(const Recipe& r, bool automatic) {
  const MethodInfo& info = find_method(r.method);
  std::vector<std::string> notes;
  if (info.name == "adam" && !automatic && r.rows_per_step == 1)
    notes.emplace_back(
        "adam takes a step over all weights for every row; --rows-per-step 256 takes a fraction of the time");
  if (info.whole_set && r.classes_per_step > 1)
    notes.push_back(
        fmt::format("--classes-per-step has no effect on {}, which takes all classes", info.name));
  if (r.ridge_intercept && !r.intercept)
    notes.emplace_back("--ridge-intercept has no effect without --intercept");
  return notes;
}

Sniffed sniffed_of(const Problem& problem, const Machine& machine) {
  return {.encoder = problem.encoder == EncoderKind::linear ? EncoderKind::automatic : problem.encoder,
          .triples = problem.triples,
          .has_valid = problem.has_valid,
          .in_groups = machine.in_groups};
}

std::vector<std::string> open_options(const Draft& d) {
  std::vector<std::string> names;
  const auto add = [&](bool open, const char* name) {
    if (open) names.emplace_back(name);
  };
  const Sought& sought = d.recipe.sought;
  const bool learnt = d.recipe.learnt();
  add(d.automatic, "method");
  add(d.shape && learnt, "rows-per-step");
  for (const char* name : {"draw", "head", "rivals", "classes-per-step"}) add(d.shape && !learnt, name);
  add(d.encoder, "encoder");
  add(d.encoder || sought.hidden, "hidden");
  add(sought.step, "step");
  add(d.ridge, "ridge");
  add(sought.epochs, "epochs");
  add(sought.layers, "layers");
  add(sought.tied, "tied");
  add(sought.dropout, "dropout");
  add(d.row_state, "row-state");
  add(d.newton, "newton");
  return names;
}

// The recipe of a fit that is resumed, with what may differ now.
Recipe continued(Recipe there, std::uint64_t done, const Recipe& now, std::vector<std::string>& notes) {
  there.threads = now.threads;
  there.device = now.device;
  if (!now.sought.epochs && there.newton == 0 && now.epochs != there.epochs) {
    notes.push_back(fmt::format(
        "--epochs is {} in the checkpoint, which has {} done, and {} here{}", there.epochs, done, now.epochs,
        there.schedule == Schedule::linear ? ": the step falls over those here from now on" : ""));
    there.epochs = now.epochs;
  }
  return there;
}

}  // namespace

nlohmann::ordered_json Reading::to_json() const {
  nlohmann::ordered_json json = truemax::to_json(draft);
  for (const char* name : {"method", "encoder", "ridge"})
    if (is_open(name)) json[name] = kAutomatic;
  return json;
}

bool Reading::is_open(std::string_view option) const {
  return std::find(open.begin(), open.end(), option) != open.end();
}

Recipe over_defaults(const Asked& asked) {
  Asked said = asked;
  Recipe recipe;
  OptionTable from, to;
  said.describe(from);
  recipe.describe(to);
  for (const Option& option : from.options())
    if (option.said() && !(option.name == "method" && asked.automatic()) &&
        !(option.name == "ridge" && asked.ridge_auto))
      to.find(option.name)->from_json(option.to_json());
  return recipe;
}

Reading resolve_reading(const Asked& said, const Sniffed& sniffed, const Start& start) {
  if (start.recipe && start.repeats) {
    require_possible(*start.recipe);
    require_end(*start.recipe, sniffed.has_valid || start.recipe->valid_share > 0);
    Reading reading;
    reading.draft = *start.recipe;
    return reading;
  }
  const Asked asked = with_shape_of(start, said);
  const Draft d = draft_of(asked, sniffed, start);
  if (sniffed.in_groups) require_cpu(d.recipe);
  try {
    require_possible(asked, d, sniffed);
  } catch (const UserError& error) {
    if (start.name.empty() || said.hidden ||
        std::string_view(error.what()).find("--hidden") == std::string_view::npos)
      throw;
    throw UserError(fmt::format("{} (--hidden comes from --init {})", error.what(), start.name));
  }
  const Recipe& r = d.recipe;
  require_end(r, sniffed.has_valid || r.valid_share > 0);
  if (sniffed.triples) require_triples_shape(r);
  const bool groups = r.group > 0 || sniffed.in_groups;
  return {.draft = r,
          .open = open_options(d),
          .automatic = d.automatic,
          .wanted = {.norms = d.automatic,
                     .squares = groups || r.device != device::kCpu,
                     .units = d.by_weight,
                     .cosines = groups && !r.learnt()}};
}

Resolved resolve(const Asked& said, const Problem& problem, const Machine& machine, const Start& start) {
  Resolved result;
  std::vector<std::string>& notes = result.notes;
  const auto note = [&](std::string text) {
    if (!text.empty()) notes.push_back(std::move(text));
  };
  Draft d;
  std::vector<std::string> unused;
  if (start.recipe && start.repeats) {
    d.recipe = *start.recipe;
    unused = notes_on(d.recipe, false);
  } else {
    const Asked asked = with_shape_of(start, said);
    const Sniffed sniffed = sniffed_of(problem, machine);
    d = draft_of(asked, sniffed, start);
    require_possible(asked, d, sniffed);
    unused = notes_of_unused(said, d);
    for (std::string& text : notes_on(d.recipe, d.automatic)) unused.push_back(std::move(text));
    const bool card_counts = runs_on_card(d.recipe) && d.recipe.learnt();
    if (!choose_device(problem, machine, d) || (card_counts && !machine.knows_card)) {
      result.needs_card = true;
      return result;
    }
    if (start.recipe)
      d.recipe = continued(*start.recipe, start.epochs_done, d.recipe, notes), d.encoder = d.ridge = false;
    else if (d.automatic)
      choose_steps(problem, machine, d);
  }
  Recipe& r = d.recipe;
  r.threads = said.threads.value_or(r.threads);
  if (machine.in_groups && r.group == 0 && !r.learnt()) {
    if (start.repeats)
      throw UserError(fmt::format(
          "--replay {}: this run had no groups of rows, which the ranks of truemax-mpi take; repeat it with "
          "truemax",
          start.name));
    const std::unique_ptr<Draw> draw = draw_for(r, problem);
    r.group = GroupLane::rows_of_group({r, problem, machine, draw.get()});
  }
  require_shape(r, problem, d.encoder);
  if (!start.recipe) {
    if (d.ridge && !r.learnt()) r.ridge = first_ridge(problem);
    if (r.sought.step && !r.learnt() && r.target == Target::valid) r.step = first_step(problem, r.intercept);
    note(fit_to_memory(problem, machine, d));
    if (save_memory(problem, machine, d))
      note("memory is short: learnt vectors keep one running mean of squared gradients each (--row-state)");
  }
  if (r.encoder == EncoderKind::automatic) r.encoder = EncoderKind::linear;
  note(note_on_classes(r, problem));
  note(note_on_short_rows(d, problem));
  const std::unique_ptr<Draw> draw = draw_for(r, problem);
  const Facts facts{r, problem, machine, draw.get()};
  require_device(facts);
  require_groups(facts);
  note(warn_of_groups(facts));
  if (r.on_gpu() && !said.device && machine.card)
    note(fmt::format("training on {}, which is faster here; --device cpu trains on the CPU",
                     machine.card->name));
  for (std::string& text : unused) note(std::move(text));
  result.recipe = std::move(r);
  result.reasons = std::move(d.reasons);
  return result;
}

// ---- Numbers that trials start from

double clamped_step(double step) {
  return std::clamp(step, kLeastStep, kLargestStep);
}
double clamped_ridge(double ridge) {
  return std::min(ridge, 1e15);
}

double unit_of_step(const Problem& problem, bool intercept) {
  const double norm = *problem.mean_square;
  return 1 / ((intercept ? std::max(norm, kShortRows) : norm) * problem.mean_weight);
}
double first_step(const Problem& problem, bool intercept) {
  return clamped_step(kValidStep * unit_of_step(problem, intercept));
}
double first_ridge(const Problem& problem) {
  return clamped_ridge(kFirstRidge * *problem.mean_square * problem.mean_weight);
}

// A row's |x|^2 is the number of its non-zeros in units in which values have size 1. So a row's score changes
// by at most about kAdamStep |x| in a step: large enough for short runs, and steps fall to a hundredth.
double adam_step(const Problem& problem, bool intercept) {
  constexpr double kAdamStep = 0.6;
  return clamped_step(kAdamStep / std::sqrt(std::max(1.0, problem.nonzeros_per_row) + (intercept ? 1 : 0)));
}

// Each step costs one pass over W. Fewer than 32 an epoch learn too little from it.
std::uint64_t adam_rows(const Problem& problem) {
  constexpr std::uint64_t kRowsAtMost = 256, kRowsAtLeast = 16, kStepsOfEpoch = 32;
  return std::min(std::clamp(problem.examples / kStepsOfEpoch, kRowsAtLeast, kRowsAtMost), problem.examples);
}

// With the ridge chosen for it, more features than needed do no harm; they only cost time. More than half of
// the full rank gained nothing (delicious, 128 beside 256).
std::uint64_t first_hidden(const Problem& problem) {
  constexpr std::uint64_t kUsual = 256;
  const std::uint64_t rank = problem.full_rank();
  for (std::uint64_t hidden = kUsual; hidden >= kFewestHidden; hidden /= 2)
    if (2 * hidden <= rank || (hidden < rank && hidden / 2 < kFewestHidden)) return hidden;
  return 0;
}

}  // namespace truemax
