#include "train/draft.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "rule/methods.hpp"
#include "train/require.hpp"

namespace truemax {

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

namespace {

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

}  // namespace

Asked with_shape_of(const Start& start, const Asked& asked) {
  if (!start.model) return asked;
  try {
    return with_shape_of(*start.model, asked);
  } catch (const UserError& error) {
    if (start.name.empty()) throw;
    throw UserError(fmt::format("--init {}: {}", start.name, error.what()));
  }
}

// What was asked, and what follows from that alone.
Draft draft_of(const Asked& asked, const Sniffed& sniffed, const Start& start) {
  constexpr std::uint64_t kTextFeatures = 256, kTripleFeatures = 200;
  Draft d;
  d.automatic = asked.automatic();
  d.rivals = asked.draws.rivals;
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

std::vector<std::string> open_options(const Draft& d) {
  std::vector<std::string> names;
  const auto add = [&](bool open, const char* name) {
    if (open) names.emplace_back(name);
  };
  const Sought& sought = d.recipe.sought;
  const bool learnt = d.recipe.learnt();
  add(d.automatic, "method");
  add(d.shape && learnt, "rows-per-step");
  for (const char* name : {"draw", "head", "classes-per-step"}) add(d.shape && !learnt, name);
  add(d.shape && !learnt && !d.rivals, "rivals");
  add(d.encoder, "encoder");
  add(d.encoder || sought.hidden, "hidden");
  add(sought.step, "step");
  add(d.ridge, "ridge");
  add(sought.epochs, "epochs");
  add(sought.layers, "layers");
  add(sought.tied, "tied");
  add(sought.dropout, "dropout");
  add(d.row_state, "row-state");
  return names;
}

void require_possible(const Asked& asked, const Draft& d, const Sniffed& sniffed) {
  require_possible(
      d.recipe,
      {.asked = &asked, .shape_is_open = d.shape, .searches = d.searches(), .in_groups = sniffed.in_groups});
}

}  // namespace truemax
