// A training run of the interfaces.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "api/inside.hpp"
#include "core/error.hpp"
#include "train/bind.hpp"
#include "train/encoder.hpp"
#include "train/plan_json.hpp"
#include "train/plan_text.hpp"
#include "train/require.hpp"
#include "train/run.hpp"
#include "train/warm_start.hpp"

namespace truemax::api {

Training::Training(std::shared_ptr<const Data::Inside> data, const std::shared_ptr<const Data::Inside>& valid,
                   std::shared_ptr<const Model::Inside> start, const OptionList& options)
    : data_(std::move(data)), start_(std::move(start)) {
  Asked asked;
  std::uint64_t memory_limit = 0;
  OptionTable table;
  asked.describe(table);
  describe_memory_limit(table, &memory_limit);
  set_options(table, options);
  if (valid != nullptr &&
      (data_->data.classes != valid->data.classes || data_->data.space != valid->data.space))
    throw UserError(
        "the validation rows have other classes or features than the training rows; read them with "
        "Data::read_beside");
  const FeatureSpace& space = *data_->data.space;
  if (asked.encoder && reads_words(*asked.encoder) && *asked.encoder != space.encoder)
    throw UserError("--encoder: plain text is read for its encoder; give the option to Data::read");
  Start from;
  if (start_ != nullptr) {
    if (start_->model.space->of_triples() || space.of_triples() ||
        reads_words(start_->model.space->encoder) || reads_words(space.encoder))
      throw UserError("a run of plain text or triples cannot start from a model here; leave the model out");
    require_same_features(start_->model, data_->data);
    from.model = shape_of(start_->model);
  }
  const Reading reading = resolve_reading(
      asked,
      {.encoder = space.encoder == EncoderKind::linear ? EncoderKind::automatic : space.encoder,
       .has_valid = valid != nullptr},
      from);
  const Recipe& draft = reading.draft;
  std::unique_ptr<device::Engine> engine;
  if (draft.device != device::kAuto) engine = device::open(device::Choice::parse(draft.device));
  if (draft.evaluation.classes > 0)
    throw UserError("--eval-classes: error and precision would be unknown here; leave it out");
  if (valid != nullptr && draft.valid_share > 0)
    throw UserError("--valid-share: there are validation rows already; leave one of the two out");
  sets_ = {data_->data};
  if (valid != nullptr) sets_.valid = valid->data;
  const bool normalized = data_->preprocess.normalize != Normalize::none;
  const Problem problem = facts_of(sets_, normalized, reading.wanted, draft.thread_count());
  Machine machine = machine_of(draft.threads, memory_limit, problem);
  if (engine) set_card(machine, *engine);
  Resolved resolved = resolve(asked, problem, machine, from);
  if (resolved.needs_card) {
    look_for_card(machine);
    resolved = resolve(asked, problem, machine, from);
  }
  notes_ = std::move(resolved.notes), reasons_ = std::move(resolved.reasons);
  set_validation_aside(sets_.data, sets_.valid, resolved.recipe);
  if (sets_.valid && resolved.recipe.learnt()) require_bags_in_float(*sets_.valid, "the validation rows");
  const Problem rest = of_other_rows(problem, sets_);
  require_shape(resolved.recipe, rest, resolved.recipe.sought.encoder);
  plan_.emplace(bind(resolved.recipe, rest, machine));
  plan_->memory.require();
}

std::string Training::plan_text() const {
  return truemax::plan_text(*plan_, reasons_);
}

nlohmann::ordered_json Training::about_plan() const {
  nlohmann::ordered_json about{{"plan", to_json(*plan_)},
                               {"not_taken", nlohmann::ordered_json::object()},
                               {"notes", notes_},
                               {"text", plan_text()}};
  for (const PassedOver& one : not_taken(*plan_, reasons_.passed_over))
    about["not_taken"][one.solver] = one.why;
  return about;
}

std::shared_ptr<const Model::Inside> Training::run(std::span<TrainObserver* const> observers,
                                                   const std::atomic<bool>& stop) {
  TrainExtras extras;
  if (plan_->memory.best_on_disk) extras.best_folder = std::filesystem::temp_directory_path().string();
  if (start_ != nullptr) extras.start = &start_->model;
  Stopwatch watch;
  RunState state = search_and_fit(sets_, *plan_, watch, observers, stop, extras, result_);
  auto inside = std::make_shared<Model::Inside>();
  inside->model = make_model(std::move(state), sets_.data, data_->preprocess, result_.plan->recipe,
                             data_->row_weights, data_->class_weights);
  inside->notes = notes_;
  inside->model.weights.fold_all();  // as in the file, so that a saved model predicts the same bits
  // Values in arrays of the caller may have changed since they were checked.
  if (data_->in_place && !std::isfinite(inside->model.weights.largest()))
    throw UserError(
        "the rows: their values changed while a model was trained on them; leave them alone until it "
        "is done");
  return inside;
}

}  // namespace truemax::api
