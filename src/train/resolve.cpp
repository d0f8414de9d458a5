#include "train/resolve.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "train/choose_place.hpp"
#include "train/choose_steps.hpp"
#include "train/draft.hpp"
#include "train/group_lane.hpp"
#include "train/notes.hpp"
#include "train/require.hpp"
#include "train/start_values.hpp"
#include "train/step_inputs.hpp"

namespace truemax {
namespace {

// Before the search would find out.
void require_judges(const Recipe& r, const Problem& problem) {
  const bool needs = r.sought.any() && r.target == Target::valid && r.newton == 0 && !problem.has_valid &&
                     !(r.learnt() && r.seconds > 0) && problem.rows >= kFewestRows;
  if (needs && r.valid_share == 0)
    throw UserError(fmt::format(
        "--valid-share 0: of {} rows this leaves none to validate on; give another share, or --valid FILE",
        problem.rows));
}

// Facts that groups and a GPU ask for.
Wanted wanted_of(const Recipe& r, const Sniffed& sniffed) {
  const bool groups = r.group > 0 || sniffed.in_groups;
  return {.squares = groups || r.device != device::kCpu, .cosines = groups && !r.learnt()};
}

Sniffed sniffed_of(const Problem& problem, const Machine& machine) {
  return {.encoder = problem.encoder == EncoderKind::linear ? EncoderKind::automatic : problem.encoder,
          .triples = problem.triples,
          .has_valid = problem.has_valid,
          .in_groups = machine.in_groups};
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
  if (there.newton > 0 && !now.sought.epochs && now.newton > 0 && now.epochs != there.epochs)
    notes.emplace_back("--epochs has no effect on a run that Newton's method ends: it goes on as it began");
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

Reading resolve_reading(const Asked& said, const Sniffed& sniffed, const Start& start) {
  if (start.recipe && start.repeats) {
    require_possible(*start.recipe);
    require_end(*start.recipe, sniffed.has_valid || start.recipe->valid_share > 0);
    Reading reading;
    reading.draft = *start.recipe;
    reading.wanted = wanted_of(*start.recipe, sniffed);
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
  Wanted wanted = wanted_of(r, sniffed);
  wanted.norms = d.automatic, wanted.units = d.by_weight;
  return {.draft = r, .open = open_options(d), .automatic = d.automatic, .wanted = wanted};
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
    if (start.recipe) {  // only where the fit goes on is decided again
      d.recipe = continued(*start.recipe, start.epochs_done, d.recipe, notes);
      d.shape = d.ridge = d.newton = d.by_weight = d.encoder = false;
    }
    const bool card_counts = runs_on_card(d.recipe) && d.recipe.learnt();
    if (!choose_device(problem, machine, d) || (card_counts && !machine.knows_card)) {
      result.needs_card = true;
      return result;
    }
    if (!start.recipe && d.automatic) choose_steps(problem, machine, d);
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
  if (!start.recipe && r.newton > 0 && r.sought.step) {  // its trials find the ridge alone
    r.sought.step = r.sought.epochs = false;
    if (!r.sought.any() && !said.valid_share) r.valid_share = 0;
  }
  if (!start.recipe) require_judges(r, problem);
  note(note_on_classes(r, problem));
  if (d.automatic && !r.learnt() && d.rivals.value_or(0) > 0 && (r.draws.rivals == 0 || r.newton_alone()))
    note("--rivals has no effect here: every step takes all classes");
  note(note_on_short_rows(d, problem));
  const std::unique_ptr<Draw> draw = draw_for(r, problem);
  const Facts facts{r, problem, machine, draw.get()};
  require_device(facts);
  require_groups(facts);
  note(warn_of_groups(facts));
  if (r.on_gpu() && said.device.value_or(device::kAuto) == device::kAuto && machine.card)
    note(fmt::format("training on {}, which is faster here; --device cpu trains on the CPU",
                     machine.card->name));
  for (std::string& text : unused) note(std::move(text));
  result.recipe = std::move(r);
  result.reasons = std::move(d.reasons);
  return result;
}

}  // namespace truemax
