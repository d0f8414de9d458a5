// Implements the public interface (include/truemax/truemax.hpp).
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <optional>

#include "core/error.hpp"
#include "core/parallel.hpp"
#include "data/load.hpp"
#include "data/weight_files.hpp"
#include "evaluate/evaluate.hpp"
#include "model/model.hpp"
#include "model/predict.hpp"
#include "model/use.hpp"
#include "train/automatic.hpp"
#include "train/run.hpp"
#include "train/trainer.hpp"
#include "truemax/truemax.hpp"

namespace truemax::api {

struct Data::Inside {
  DataView data;
  PreprocessOptions preprocess;
  std::string row_weights, class_weights;  // as given in the options
  std::vector<std::string> notes;
};

struct Model::Inside {
  truemax::Model model;

  // `valid`: null if there is no separate validation set.
  static Model train(const Data& data, const DataView* valid, const Options& options,
                     const Callback& callback);
};

namespace {

// Turns internal errors into the public type.
template <class Work>
auto translated(Work&& work) {
  try {
    return work();
  } catch (const UserError& error) {
    throw Error(error.what());
  } catch (const DivergenceError& error) {
    throw Error(error.what());
  }
}

void set_options(const OptionTable& table, const Options& options) {
  for (const auto& [name, value] : options) {
    const Option* option = table.find(name);
    if (const Option* now = table.find_other_name(name))
      throw UserError("the option '" + name + "' is called '" + now->name + "' here; use that name");
    if (option == nullptr)
      throw UserError("there is no option '" + name + "' here; docs/options.md lists them");
    option->parse(value);
  }
}

Metrics public_metrics(const truemax::Metrics& m) {
  return {m.log_loss,
          m.error,
          m.calibration_error,
          m.precision[0],
          m.precision[1],
          m.precision[2],
          m.rows,
          m.statistics.unseen,
          m.estimate ? m.estimate->error_bar : 0.0,
          m.examples};
}

// Calls the user's function after each evaluation.
class CallbackObserver final : public TrainObserver {
 public:
  CallbackObserver(const Model::Callback& callback, std::atomic<bool>& stop)
      : callback_(callback), stop_(stop) {}
  void evaluated(const EvaluationRecord& record) override {
    if (!callback_) return;
    Evaluation seen{record.epoch, record.steps, record.train_seconds, {}, {}, record.best};
    if (record.train) seen.train = public_metrics(*record.train);
    if (record.valid) seen.valid = public_metrics(*record.valid);
    if (!callback_(seen)) stop_ = true;
  }

 private:
  const Model::Callback& callback_;
  std::atomic<bool>& stop_;
};

// Reads rows for existing classes, features and preprocessing; `reading` makes the ReadOptions.
template <class Reading>
std::shared_ptr<Data::Inside> read_more(const std::string& path, const Options& options,
                                        const PreprocessOptions& preprocess,
                                        const std::shared_ptr<const ClassList>& classes,
                                        const std::shared_ptr<const FeatureSpace>& space,
                                        const Reading& reading) {
  UseOptions use;
  OptionTable table;
  auto inside = std::make_shared<Data::Inside>();
  use.describe(table);
  describe_row_weights(table, &use.read.row_weights);
  describe_class_weights(table, &inside->class_weights);
  set_options(table, options);
  require_standard_input_once({path}, {use.read.row_weights, class_weight_file(inside->class_weights)});
  inside->row_weights = use.read.row_weights;
  inside->preprocess = preprocess;
  const ReadOptions read = reading(use);
  RawRows rows = read_rows(path, read, use.max_rows, use.thread_count(), inside->notes);
  inside->data = make_test_set(std::move(rows), preprocess, classes, space, use.drops(),
                               make_class_weights(inside->class_weights, *classes, read.memory));
  return inside;
}

}  // namespace

Data::Data(std::shared_ptr<const Inside> inside) : inside_(std::move(inside)) {}

Data Data::read(const std::string& path, const Options& options) {
  return translated([&] {
    ReadOptions read;
    auto inside = std::make_shared<Inside>();
    std::uint64_t max_rows = 0, threads = 0, memory_limit = 0;
    OptionTable table;
    read.describe(table);
    describe_row_weights(table, &read.row_weights);
    describe_class_weights(table, &inside->class_weights);
    inside->preprocess.describe(table);
    EncoderKind encoder = EncoderKind::automatic;
    describe_encoder(table, &encoder);
    describe_max_rows(table, &max_rows);
    describe_threads(table, &threads);
    describe_memory_limit(table, &memory_limit);
    set_options(table, options);
    require_standard_input_once({path}, {read.row_weights, class_weight_file(inside->class_weights)});
    inside->row_weights = read.row_weights;
    inside->preprocess.check();
    if (reads_words(encoder)) inside->preprocess.encoder = encoder;
    read.memory = std::make_shared<MemoryBudget>(memory_limit);
    read.max_features = inside->preprocess.max_features;
    read.ngrams = inside->preprocess.ngrams();
    RawRows rows = read_rows(path, read, max_rows, resolve_threads(threads), inside->notes);
    inside->data = make_training_set(std::move(rows), inside->preprocess, 0, inside->class_weights);
    return Data(std::move(inside));
  });
}

Data Data::read_for(const Model& model, const std::string& path, const Options& options) {
  return translated([&] {
    const truemax::Model& m = model.inside().model;
    const auto read = [&m](const UseOptions& use) { return use.read_for(m); };
    return Data(read_more(path, options, m.preprocess, m.classes, m.space, read));
  });
}

Data Data::read_beside(const Data& train, const std::string& path, const Options& options) {
  return translated([&] {
    const Inside& t = train.inside();
    const auto read = [&t](const UseOptions& use) {
      ReadOptions reading = use.read;
      if (reading.format == Format::automatic) reading.format = t.data.format;
      reading.memory = std::make_shared<MemoryBudget>(use.memory_limit);
      reading.ngrams = t.preprocess.ngrams();
      return reading;
    };
    return Data(read_more(path, options, t.preprocess, t.data.classes, t.data.space, read));
  });
}

std::vector<std::string> Data::notes() const {
  return inside_->notes;
}
std::size_t Data::rows() const {
  return inside_->data.row_count();
}
std::size_t Data::examples() const {
  return inside_->data.size();
}
std::size_t Data::features() const {
  return inside_->data.space->features;
}
std::size_t Data::classes() const {
  return inside_->data.classes->size();
}
std::size_t Data::nonzeros() const {
  return inside_->data.nonzeros();
}

Model::Model(std::shared_ptr<const Inside> inside) : inside_(std::move(inside)) {}

Model Model::Inside::train(const Data& data, const DataView* given_valid, const Options& options,
                           const Callback& callback) {
  return translated([&] {
    TrainOptions train_options;
    std::uint64_t memory_limit = 0;
    OptionTable table;
    train_options.describe(table);
    describe_memory_limit(table, &memory_limit);
    set_options(table, options);
    const auto given = [&](const char* name) {
      return options.count(name) > 0 || (given_valid != nullptr && std::string_view(name) == "valid");
    };
    const FeatureSpace& space = *data.inside().data.space;
    if (reads_words(train_options.encoder) && train_options.encoder != space.encoder)
      throw UserError("--encoder: plain text is read for its encoder; give the option to Data::read");
    train_options.complete(given,
                           space.encoder == EncoderKind::linear ? EncoderKind::automatic : space.encoder);
    train_options.check();
    if (train_options.evaluation.classes > 0)
      throw UserError("--eval-classes: error and precision would be unknown here; leave it out");
    if (given_valid != nullptr && train_options.valid_share > 0)
      throw UserError("--valid-share: there are validation rows already; leave one of the two out");
    require_end(train_options, given_valid != nullptr || train_options.valid_share > 0);
    if (train_options.automatic()) choose_shape(data.inside().data, train_options);
    fit_to_memory({data.inside().data}, train_options, memory_limit);
    TrainSets sets{data.inside().data};
    if (given_valid != nullptr) sets.valid = *given_valid;
    set_validation_aside(sets.data, sets.valid, train_options);
    require_step_shape(train_options, sets.data);
    save_memory(sets, train_options, memory_limit);
    const MemoryPlan memory = plan_memory(sets, train_options, memory_limit);
    memory.require();
    Stopwatch watch;
    std::atomic<bool> stop{false};
    CallbackObserver observer(callback, stop);
    TrainObserver* const observers[] = {&observer};
    TrainExtras extras;
    if (memory.best_on_disk) extras.best_folder = std::filesystem::temp_directory_path().string();
    FitResult fitted;
    RunState state = search_and_fit(sets, train_options, watch, observers, stop, extras, fitted);
    const TrainOutcome& outcome = fitted.outcome;
    if (!outcome.divergence.empty()) throw DivergenceError(outcome.divergence);
    auto inside = std::make_shared<Inside>();
    inside->model = make_model(std::move(state), sets.data, data.inside().preprocess, train_options,
                               data.inside().row_weights, data.inside().class_weights);
    return Model(std::move(inside));
  });
}

Model Model::train(const Data& data, const Options& options, const Callback& callback) {
  return Inside::train(data, nullptr, options, callback);
}

Model Model::train(const Data& data, const Data& valid, const Options& options, const Callback& callback) {
  return translated([&] {
    const Data::Inside &of = data.inside(), &with = valid.inside();
    if (of.data.classes != with.data.classes || of.data.space != with.data.space)
      throw UserError(
          "the validation rows have other classes or features than the training rows; read them with "
          "Data::read_beside");
    return Inside::train(data, &with.data, options, callback);
  });
}

Model Model::load(const std::string& path, const Options& options) {
  return translated([&] {
    UseOptions use;
    OptionTable table;
    describe_memory_limit(table, &use.memory_limit);
    set_options(table, options);
    auto inside = std::make_shared<Inside>();
    inside->model = load_model(path, use.memory_there(), use.thread_count());
    return Model(std::move(inside));
  });
}

void Model::save(const std::string& path) const {
  translated([&] { save_model(inside_->model, path); });
}

std::size_t Model::classes() const {
  return inside_->model.classes->size();
}
std::size_t Model::features() const {
  return inside_->model.space->features;
}

std::vector<std::string> Model::class_names() const {
  std::vector<std::string> names;
  for (const ClassId k : inside_->model.classes->by_name()) names.push_back(inside_->model.classes->name(k));
  return names;
}

Metrics Model::evaluate(const Data& data, std::size_t threads) const {
  return translated([&] {
    const truemax::Model& m = inside_->model;
    const DataView& rows = data.inside().data;
    const bool same_classes = rows.classes == m.classes || rows.classes->names() == m.classes->names();
    const bool same_features = rows.space == m.space || (rows.space->features == m.space->features &&
                                                         rows.space->words == m.space->words &&
                                                         rows.space->relations == m.space->relations);
    if (!same_classes || !same_features || data.inside().preprocess != m.preprocess)
      throw UserError(
          "the data have other classes, features or preprocessing than the model; read them with "
          "Data::read_for");
    return public_metrics(truemax::evaluate(m.weights, m.rows_of(rows), resolve_threads(threads)).value());
  });
}

std::vector<std::vector<Prediction>> Model::predict(const std::string& path, std::size_t top,
                                                    const Options& options,
                                                    std::vector<std::string>* notes) const {
  return translated([&] {
    UseOptions use;
    OptionTable table;
    use.describe(table);
    set_options(table, options);
    const truemax::Model& m = inside_->model;
    std::vector<std::vector<Prediction>> all;
    auto said = predict_stream(m, path, use, top, [&](const Predictions& p, std::size_t rows) {
      for (std::size_t r = 0; r < rows; ++r) {
        std::vector<Prediction>& row = all.emplace_back();
        for (std::size_t i = 0; i < p.top; ++i)
          row.push_back({m.classes->name(p.classes[r * p.top + i]), p.probability[r * p.top + i]});
      }
    });
    if (notes != nullptr) *notes = std::move(said);
    return all;
  });
}

}  // namespace truemax::api
