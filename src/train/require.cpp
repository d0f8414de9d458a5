#include "train/require.hpp"

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/files.hpp"
#include "core/text.hpp"
#include "rule/methods.hpp"
#include "train/card_cost.hpp"
#include "train/device_lane.hpp"
#include "train/group_lane.hpp"

namespace truemax {
namespace {

void check_count(const char* option, std::uint64_t value, std::size_t most, std::string_view method,
                 const char* singular, const char* plural) {
  if (value <= most) return;
  throw UserError(fmt::format("--{} {}: the method {} takes {} {} a step; give --{} {} or another --method",
                              option, value, method, most == 1 ? "one" : fmt::format("from 1 to {}", most),
                              most == 1 ? singular : plural, option, most));
}

// What needs any row at any time.
void require_streamable(const Recipe& recipe) {
  if (find_method(recipe.method).has_companion)
    throw UserError(fmt::format(
        "--stream: {} keeps the rows of each class at hand; give another method, or leave --stream out",
        recipe.method));
  if (find_method(recipe.method).all_rows)
    throw UserError(fmt::format(
        "--stream: {} needs all rows in memory; give another method, or leave --stream out", recipe.method));
  if (recipe.newton > 0)
    throw UserError("--stream: Newton's method needs all rows in memory; leave --newton or --stream out");
}

// Throws UserError unless learnt features fit on the card.
void require_room(const Facts& facts, const Machine::Card& card) {
  const auto bytes_of = [&](std::uint64_t hidden) {
    Recipe recipe = facts.recipe;
    recipe.hidden = hidden;
    return learnt_card_bytes({recipe, facts.problem, facts.machine, facts.draw});
  };
  const std::uint64_t hidden = facts.recipe.hidden, needed = bytes_of(hidden);
  if (needed <= card.free) return;
  std::uint64_t fits = 0, too_many = hidden;
  while (too_many - fits > 1) {
    const std::uint64_t middle = fits + (too_many - fits) / 2;
    (bytes_of(middle) <= card.free ? fits : too_many) = middle;
  }
  fits -= fits % 2;  // of triples
  throw UserError(fmt::format(
      "--device {}: not enough memory on {}: {} learnt features need {} and {} are free; {}use --device cpu",
      facts.recipe.device, card.name, hidden, size_text(needed), size_text(card.free),
      fits > 0 ? fmt::format("--hidden {} fits, or ", fits) : ""));
}

}  // namespace

void require_possible(const Recipe& r, const Stage& stage) {
  const bool automatic = stage.asked != nullptr && stage.asked->automatic();
  const bool ridge_auto = stage.asked != nullptr && stage.asked->ridge_auto;
  require_possible(r.evaluation);
  if (r.encoder == EncoderKind::linear && r.hidden > 0)
    throw UserError(fmt::format(
        "--encoder linear --hidden {}: a linear model has no learnt features; leave one of the two out",
        r.hidden));
  if (r.encoder == EncoderKind::bag && r.hidden == 0 && !automatic)
    throw UserError(fmt::format(
        "--encoder bag: only --method auto chooses how many features to learn; add --hidden, or leave "
        "--method {} out",
        r.method));
  if (r.hidden > 0 && !automatic && r.method != "scent")
    throw UserError(fmt::format(
        "--hidden {}: learnt features are trained by scent, not {}; leave --method out, or --hidden",
        r.hidden, r.method));
  if (r.hidden == 0 && (r.layers > 0 || r.tied || r.dropout > 0 || r.row_state))
    throw UserError(
        fmt::format("--{}: this is an option of learnt features; add --hidden 256, or leave it out",
                    r.layers > 0    ? "layers"
                    : r.tied        ? "tied"
                    : r.dropout > 0 ? "dropout"
                                    : "row-state"));
  if (r.group > 0 && r.learnt())
    throw UserError(fmt::format(
        "--group {}: rows of learnt features share a step anyway; give --rows-per-step, or leave it out",
        r.group));
  const MethodInfo& info = find_method(r.method);
  if (ridge_auto && !automatic)
    throw UserError(fmt::format(
        "--ridge auto: only --method auto chooses the ridge; give {} a number, or leave --method out",
        r.method));
  if (ridge_auto && r.target == Target::train)
    throw UserError(
        "--ridge auto: --target train has no validation rows to choose it by; give a number, or leave it "
        "out");
  if (r.target == Target::train && r.valid_share > 0)
    throw UserError("--valid-share: --target train sets no rows aside; leave one of the two out");
  if (r.target == Target::train && stage.asked != nullptr && !automatic)
    throw UserError(fmt::format(
        "--target train: the method {} always aims at its objective; leave --target or --method out",
        r.method));
  if (r.start_at_frequencies && !r.intercept)
    throw UserError(
        "--start-at-frequencies: there is no intercept to start; add --intercept, or leave it out");
  if (r.newton > 0 && r.learnt())
    throw UserError(fmt::format(
        "--newton {}: Newton's method is for linear models; leave it out, or give --encoder linear",
        r.newton));
  if (r.ridge_by_spread && (r.newton == 0 || r.epochs > 0))
    throw UserError(
        "--ridge-by-spread: only Newton's method counts the ridge so; add --newton 100 --epochs 0, or leave "
        "it "
        "out");
  check_count("rows-per-step", r.rows_per_step, info.most_rows, info.name, "row", "rows");
  check_count("classes-per-step", r.classes_per_step, info.most_classes, info.name, "class", "classes");
  if (!find_draw(r.draw).takes_rows && r.rows_per_step > 1 && !info.whole_set)
    throw UserError(
        fmt::format("--rows-per-step {}: the draw {} is for --rows-per-step 1; give that or another --draw",
                    r.rows_per_step, r.draw));
  if (r.lock_free && r.hidden == 0) {
    if (info.name != "prox" && info.name != "implicit")
      throw UserError(fmt::format(
          "--lock-free: of linear models, prox and implicit can run lock-free, not {}; give --method prox "
          "with --draw blocks or --draw head-blocks, add --hidden, or leave it out",
          info.name));
    if (info.name == "implicit" && r.ridge != 0)
      throw UserError(
          "--lock-free: implicit with a ridge cannot run lock-free; give --ridge 0 or --method prox, or "
          "leave it out");
    if (r.rows_per_step > 1)
      throw UserError(
          "--lock-free: steps of one row can run lock-free; give --rows-per-step 1, or leave it out");
    if (!stage.shape_is_open && !find_draw(r.draw).whole_blocks)
      throw UserError(
          fmt::format("--lock-free: steps over whole blocks can run lock-free, not those of --draw {}; give "
                      "--draw blocks or --draw head-blocks, or leave it out",
                      r.draw));
  }
  if (r.lock_free && stage.in_groups)
    throw UserError("--lock-free: the ranks of truemax-mpi take every step together; leave it out");
  if (r.patience > 0 && r.eval_every == 0 && !stage.searches)
    throw UserError(fmt::format(
        "--patience {}: with --eval-every 0 there is no evaluation to wait for; give --eval-every 1",
        r.patience));
}

// Far more draws than classes would cost more than taking all classes. The rows of a step are distinct, so
// there cannot be more than in the data.
void require_shape(const Recipe& recipe, const Problem& problem, bool may_learn) {
  if (problem.triples)
    require_triples_shape(recipe);
  else if (recipe.encoder == EncoderKind::complex && !problem.is_text())
    throw UserError(
        "--encoder complex: this is the encoder of triples; add --format triples, or leave it out");
  if (problem.stream) require_streamable(recipe);
  if (recipe.shard_embedding && !recipe.learnt() && !may_learn)
    throw UserError(
        "--shard-embedding: a linear model has no vectors of features; add --hidden 256, or leave it out");
  const bool text = problem.is_text();
  if (text && !reads_words(recipe.encoder) && recipe.encoder != EncoderKind::automatic)
    throw UserError("--encoder: plain text is encoded by context, cbow or skipgram; leave it out");
  if (text && recipe.hidden == 0)
    throw UserError(
        "--format text: words in order need learnt features; leave --method out, or add --hidden 256");
  if (!text && (recipe.layers > 0 || recipe.tied))
    throw UserError(fmt::format("--{}: this is an option of plain text (--format text); leave it out",
                                recipe.layers > 0 ? "layers" : "tied"));
  if (text && problem.encoder != EncoderKind::context && recipe.layers > 0)
    throw UserError(
        "--layers 1: a layer mixes the words before a word, in order; leave it out, or give --encoder "
        "context");
  constexpr std::uint64_t kMostTimes = 100;
  const std::uint64_t most = kMostTimes * problem.classes;
  if (recipe.classes_per_step > most)
    throw UserError(fmt::format("--classes-per-step {}: the data have {} classes; give at most {}",
                                recipe.classes_per_step, problem.classes, most));
  if (recipe.rows_per_step > problem.examples)
    throw UserError(fmt::format("--rows-per-step {}: the data have {} rows; give at most that many",
                                recipe.rows_per_step, problem.examples));
}

void require_triples_shape(const Recipe& recipe) {
  if (recipe.encoder != EncoderKind::complex && recipe.encoder != EncoderKind::automatic)
    throw UserError("--encoder: triples are encoded by complex; leave it out");
  if (recipe.hidden == 0)
    throw UserError(
        "--format triples: entities and relations have learnt vectors; use 'truemax train' without --method, "
        "or add --hidden 200");
  if (recipe.hidden % 2 != 0)
    throw UserError(fmt::format(
        "--hidden {}: half of the numbers are real parts, half imaginary ones; give an even number",
        recipe.hidden));
  if (recipe.intercept)
    throw UserError("--intercept: entities of triples have a vector and no intercept; leave it out");
}

void require_end(const Recipe& recipe, bool has_valid) {
  if (recipe.epochs >= kUnlimitedEpochs && recipe.seconds == 0 && recipe.steps == 0 && recipe.patience == 0)
    throw UserError(
        "--epochs unlimited: nothing would end the run; give a number, or add --seconds, --steps or "
        "--patience");
  if (recipe.patience > 0 && !has_valid)
    throw UserError(fmt::format(
        "--patience {}: there are no validation rows to watch; add --valid FILE, or --valid-share "
        "0.1 to set some of the training rows aside",
        recipe.patience));
}

void require_groups(const Facts& facts) {
  const auto& [recipe, problem, machine, draw] = facts;
  if ((recipe.group == 0 && !machine.in_groups) || recipe.learnt()) return;
  const std::string why = GroupLane::why_not(facts);
  if (why.empty()) return;
  throw UserError(fmt::format(
      "{}: {}{}",
      machine.in_groups ? counted(machine.ranks, "rank") : fmt::format("--group {}", recipe.group), why,
      machine.in_groups ? ", or use truemax on one machine" : ", or leave --group out"));
}

void require_device(const Facts& facts) {
  const auto& [recipe, problem, machine, draw] = facts;
  if (!recipe.on_gpu()) return;
  if (recipe.learnt()) {
    if (recipe.hidden > 0 && machine.card) require_room(facts, *machine.card);
    return;
  }
  const std::string why = DeviceLane::why_not(facts);
  if (!why.empty()) throw UserError(fmt::format("--device {}: {}", recipe.device, why));
}

}  // namespace truemax
