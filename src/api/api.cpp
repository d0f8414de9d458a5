// Implements the public interface (include/truemax/truemax.hpp).
#include <atomic>
#include <nlohmann/json.hpp>

#include "api/index.hpp"
#include "api/inside.hpp"
#include "core/error.hpp"
#include "core/files.hpp"
#include "core/parallel.hpp"
#include "evaluate/evaluate.hpp"
#include "model/predict.hpp"
#include "train/plan_json.hpp"

namespace truemax::api {

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

OptionList list_of(const Options& options) {
  return {options.begin(), options.end()};
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

// The classes of row r, with their names.
std::vector<Prediction> named(const truemax::Model& m, const Predictions& p, std::size_t r) {
  std::vector<Prediction> row;
  row.reserve(p.top);
  for (std::size_t i = 0; i < p.top; ++i)
    row.push_back({m.classes->name(p.classes[r * p.top + i]), p.probability[r * p.top + i]});
  return row;
}

std::shared_ptr<const Model::Inside> trained(std::shared_ptr<const Data::Inside> data,
                                             const std::shared_ptr<const Data::Inside>& valid,
                                             const Options& options, const Model::Callback& callback) {
  Training training(std::move(data), valid, nullptr, list_of(options));
  std::atomic<bool> stop{false};
  CallbackObserver observer(callback, stop);
  TrainObserver* const observers[] = {&observer};
  auto model = training.run(observers, stop);
  if (const std::string& said = training.result().outcome.divergence; !said.empty())
    throw DivergenceError(said);
  return model;
}

Plan planned(std::shared_ptr<const Data::Inside> data, const std::shared_ptr<const Data::Inside>& valid,
             const Options& options) {
  const Training training(std::move(data), valid, nullptr, list_of(options));
  return {training.plan_text(), to_json(training.plan()).dump(), training.notes()};
}

ArrayRows arrays_of(const Rows& rows) {
  ArrayRows a;
  a.rows = rows.rows, a.columns = rows.columns;
  a.names = rows.names;
  a.name_weights = rows.name_weights;
  a.owner = rows.owner;
  if (!rows.offsets.empty() || !rows.indices.empty()) {
    if (rows.offsets.size() != rows.rows + 1 || rows.indices.size() != rows.values.size())
      throw UserError("the rows: CSR needs rows + 1 offsets, and as many indices as values; check the spans");
    a.offsets = rows.offsets.data(), a.offset_type = NumberType::int64;
    a.indices = rows.indices.data(), a.index_type = NumberType::int32;
    a.numbers = rows.values.size();
  } else {
    if (rows.values.size() != rows.rows * rows.columns)
      throw UserError("the rows: dense rows need rows x columns values; check the span");
    a.row_stride = static_cast<std::int64_t>(rows.columns * sizeof(float));
    a.column_stride = sizeof(float);
  }
  a.values = rows.values.data(), a.value_type = NumberType::float32;
  const bool several = !rows.label_begin.empty();
  if (several && (rows.label_begin.size() != rows.rows + 1 || rows.label_begin.back() != rows.labels.size()))
    throw UserError("the rows: label_begin needs rows + 1 offsets that end at the labels; check the spans");
  if (!several && !rows.labels.empty() && rows.labels.size() != rows.rows)
    throw UserError("the rows: there must be one label for each; check the span");
  if (!rows.labels.empty()) a.label = rows.labels.data();
  if (several) a.label_begin = rows.label_begin.data();
  if (!rows.weights.empty() && rows.weights.size() != rows.rows)
    throw UserError("the rows: there must be one weight for each; check the span");
  if (!rows.weights.empty()) a.weights = rows.weights.data();
  if (!rows.name_weights.empty() && rows.name_weights.size() != rows.names.size())
    throw UserError("the rows: there must be one weight for each name; check the vector");
  return a;
}

}  // namespace

Data::Data(std::shared_ptr<const Inside> inside) : inside_(std::move(inside)) {}

Data Data::read(const std::string& path, const Options& options) {
  return translated([&] { return Data(read_training_data(path, list_of(options))); });
}
Data Data::read_for(const Model& model, const std::string& path, const Options& options) {
  return translated([&] {
    return Data(read_for_model(model.inside().model, Purpose::evaluation, path, list_of(options)));
  });
}
Data Data::read_beside(const Data& train, const std::string& path, const Options& options) {
  return translated([&] { return Data(api::read_beside(train.inside(), path, list_of(options))); });
}
Data Data::from_rows(const Rows& rows, const Options& options) {
  return translated([&] { return Data(training_data_of(arrays_of(rows), list_of(options))); });
}
Data Data::from_rows_for(const Model& model, const Rows& rows, const Options& options) {
  return translated([&] {
    const Purpose purpose = rows.labels.empty() ? Purpose::prediction : Purpose::evaluation;
    return Data(rows_for_model(model.inside().model, purpose, arrays_of(rows), list_of(options)));
  });
}
Data Data::from_rows_beside(const Data& train, const Rows& rows, const Options& options) {
  return translated([&] { return Data(rows_beside(train.inside(), arrays_of(rows), list_of(options))); });
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

Model Model::train(const Data& data, const Options& options, const Callback& callback) {
  return translated([&] { return Model(trained(data.inside_, nullptr, options, callback)); });
}

Model Model::train(const Data& data, const Data& valid, const Options& options, const Callback& callback) {
  return translated([&] { return Model(trained(data.inside_, valid.inside_, options, callback)); });
}

Plan Model::plan(const Data& data, const Options& options) {
  return translated([&] { return planned(data.inside_, nullptr, options); });
}

Plan Model::plan(const Data& data, const Data& valid, const Options& options) {
  return translated([&] { return planned(data.inside_, valid.inside_, options); });
}

Model Model::load(const std::string& path, const Options& options) {
  return translated([&] {
    UseOptions use;
    OptionTable table;
    describe_memory_limit(table, &use.memory_limit);
    set_options(table, list_of(options));
    auto inside = std::make_shared<Inside>();
    inside->model = load_model(path, use.memory_there(), use.thread_count());
    return Model(std::move(inside));
  });
}

void Model::save(const std::string& path) const {
  translated([&] {
    require_writable(path, 0, "");
    save_model(inside_->model, path);
  });
}

std::vector<std::string> Model::notes() const {
  return inside_->notes;
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
    require_data_of(m, data.inside());
    return public_metrics(
        truemax::evaluate(m.weights, m.rows_of(data.inside().data), resolve_threads(threads)).value());
  });
}

std::vector<std::vector<Prediction>> Model::predict(const std::string& path, std::size_t top,
                                                    const Options& options,
                                                    std::vector<std::string>* notes) const {
  return translated([&] {
    UseOptions use;
    OptionTable table;
    use.describe(table);
    set_options(table, list_of(options));
    const truemax::Model& m = inside_->model;
    std::vector<std::vector<Prediction>> all;
    auto said = predict_stream(m, path, use, top, [&](const Predictions& p, std::size_t rows) {
      for (std::size_t r = 0; r < rows; ++r) all.push_back(named(m, p, r));
    });
    if (notes != nullptr) *notes = std::move(said);
    return all;
  });
}

std::vector<std::vector<Prediction>> Model::predict(const Data& data, std::size_t top,
                                                    std::size_t threads) const {
  return translated([&] {
    const truemax::Model& m = inside_->model;
    std::vector<std::vector<Prediction>> all;
    predict_data(*inside_, data.inside(), top, resolve_threads(threads),
                 [&](const Predictions& p, std::size_t rows) {
                   for (std::size_t r = 0; r < rows; ++r) all.push_back(named(m, p, r));
                 });
    return all;
  });
}

struct Index::Inside {
  std::shared_ptr<const IndexInside> index;
};

Index::Index(std::shared_ptr<const Inside> inside) : inside_(std::move(inside)) {}

Index Index::build(const Model& model, const Options& options) {
  return translated([&] {
    return Index(std::make_shared<Inside>(Inside{build_index_of(model.inside_, nullptr, list_of(options))}));
  });
}
Index Index::build(const Model& model, const Data& rows, const Options& options) {
  return translated([&] {
    return Index(
        std::make_shared<Inside>(Inside{build_index_of(model.inside_, &rows.inside(), list_of(options))}));
  });
}
Index Index::load(const Model& model, const std::string& path) {
  return translated(
      [&] { return Index(std::make_shared<Inside>(Inside{load_index_of(model.inside_, path)})); });
}
void Index::save(const std::string& path) const {
  translated([&] { save_index_of(*inside_->index, path); });
}

std::vector<std::vector<Prediction>> Index::predict(const Data& data, std::size_t top, const Options& options,
                                                    double* recall) const {
  return translated([&] {
    const truemax::Model& m = inside_->index->model->model;
    std::vector<std::vector<Prediction>> all;
    const auto about = predict_by_index(*inside_->index, data.inside(), top, list_of(options),
                                        [&](const Predictions& p, std::size_t rows) {
                                          for (std::size_t r = 0; r < rows; ++r)
                                            all.push_back(named(m, p, r));
                                        });
    if (recall != nullptr) *recall = about["recall"].get<double>();
    return all;
  });
}

}  // namespace truemax::api
