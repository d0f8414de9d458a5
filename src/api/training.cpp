// A training run of the interfaces.
#include <algorithm>
#include <cmath>
#include <filesystem>

#include "api/inside.hpp"
#include "core/error.hpp"
#include "train/automatic.hpp"
#include "train/device_choice.hpp"
#include "train/encoder.hpp"
#include "train/group_lane.hpp"
#include "train/memory_plan.hpp"
#include "train/run.hpp"
#include "train/warm_start.hpp"

namespace truemax::api {

Training::Training(std::shared_ptr<const Data::Inside> data, std::shared_ptr<const Data::Inside> valid,
                   std::shared_ptr<const Model::Inside> start, const OptionList& options)
    : data_(std::move(data)), start_(std::move(start)) {
  std::uint64_t memory_limit = 0;
  OptionTable table;
  options_.describe(table);
  describe_memory_limit(table, &memory_limit);
  set_options(table, options);
  const auto given = [&](const char* name) {
    return (valid != nullptr && std::string_view(name) == "valid") ||
           std::any_of(options.begin(), options.end(), [&](const auto& o) { return o.first == name; });
  };
  if (valid != nullptr &&
      (data_->data.classes != valid->data.classes || data_->data.space != valid->data.space))
    throw UserError(
        "the validation rows have other classes or features than the training rows; read them with "
        "Data::read_beside");
  const FeatureSpace& space = *data_->data.space;
  if (reads_words(options_.encoder) && options_.encoder != space.encoder)
    throw UserError("--encoder: plain text is read for its encoder; give the option to Data::read");
  if (start_ != nullptr) {
    if (start_->model.space->of_triples() || space.of_triples() ||
        reads_words(start_->model.space->encoder) || reads_words(space.encoder))
      throw UserError("a run of plain text or triples cannot start from a model here; leave the model out");
    require_same_features(start_->model, data_->data);
    continue_shape(start_->model, given, options_);
  }
  options_.complete(given, space.encoder == EncoderKind::linear ? EncoderKind::automatic : space.encoder);
  options_.check();
  if (options_.device != device::kAuto)
    static_cast<void>(device::open(device::Choice::parse(options_.device)));
  if (options_.evaluation.classes > 0)
    throw UserError("--eval-classes: error and precision would be unknown here; leave it out");
  if (valid != nullptr && options_.valid_share > 0)
    throw UserError("--valid-share: there are validation rows already; leave one of the two out");
  require_end(options_, valid != nullptr || options_.valid_share > 0);
  decide_device(data_->data, options_);
  if (options_.automatic()) choose_shape(data_->data, options_);
  fit_to_memory({data_->data}, options_, memory_limit);
  require_device(data_->data, options_);
  require_groups(data_->data, options_);
  sets_ = {data_->data};
  if (valid != nullptr) sets_.valid = valid->data;
  set_validation_aside(sets_.data, sets_.valid, options_);
  if (sets_.valid && options_.learnt()) require_bags_in_float(*sets_.valid, "the validation rows");
  require_step_shape(options_, sets_.data);
  save_memory(sets_, options_, memory_limit);
  const MemoryPlan memory = plan_memory(sets_, options_, memory_limit);
  memory.require();
  best_on_disk_ = memory.best_on_disk;
}

std::shared_ptr<const Model::Inside> Training::run(std::span<TrainObserver* const> observers,
                                                   const std::atomic<bool>& stop) {
  TrainExtras extras;
  if (best_on_disk_) extras.best_folder = std::filesystem::temp_directory_path().string();
  if (start_ != nullptr) extras.start = &start_->model;
  Stopwatch watch;
  RunState state = search_and_fit(sets_, options_, watch, observers, stop, extras, result_);
  auto inside = std::make_shared<Model::Inside>();
  inside->model = make_model(std::move(state), sets_.data, data_->preprocess, options_, data_->row_weights,
                             data_->class_weights);
  inside->model.weights.fold_all();  // as in the file, so that a saved model predicts the same bits
  // Values in arrays of the caller may have changed since they were checked.
  if (data_->in_place && !std::isfinite(inside->model.weights.largest()))
    throw UserError(
        "the rows: their values changed while a model was trained on them; leave them alone until it "
        "is done");
  return inside;
}

}  // namespace truemax::api
