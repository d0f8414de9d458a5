// Implements include/truemax/c.h, except for the layer (c_layer.cpp).
#include "truemax/c.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "api/c_call.hpp"
#include "api/c_handles.hpp"
#include "api/inside.hpp"
#include "core/error.hpp"
#include "core/files.hpp"
#include "core/message.hpp"
#include "core/parallel.hpp"
#include "evaluate/evaluate.hpp"
#include "evaluate/ranking.hpp"
#include "train/plan_json.hpp"
#include "train/run.hpp"
#include "train/run_log.hpp"
#include "train/start_values.hpp"
#include "truemax/version.hpp"

namespace {
using namespace truemax;  // NOLINT(google-build-using-namespace)
using api::call;
using api::require;
using api::require_room;
}  // namespace

struct tmx_run {
  std::unique_ptr<api::Training> training;
  std::shared_ptr<const api::Model::Inside> model;  // null until it has ended
  std::atomic<bool> stop{false};
  bool begun = false;
};

namespace truemax::api {

OptionList option_list(const tmx_option* options, std::size_t count) {
  if (count > 0) require(options);
  OptionList list;
  for (std::size_t i = 0; i < count; ++i) {
    require(options[i].name, options[i].value);
    list.emplace_back(options[i].name, options[i].value);
  }
  return list;
}

}  // namespace truemax::api

namespace {

NumberType type_of(tmx_type type) {
  switch (type) {
    case TMX_INT32:
      return NumberType::int32;
    case TMX_INT64:
      return NumberType::int64;
    case TMX_FLOAT32:
      return NumberType::float32;
    case TMX_FLOAT64:
      return NumberType::float64;
  }
  throw UserError("there is no such type of numbers; use one of tmx_type");
}

// Checks the struct; `owner` is already responsible for `release`.
ArrayRows arrays_of(const tmx_rows& r, std::shared_ptr<const void> owner) {
  ArrayRows a;
  a.rows = r.rows, a.columns = r.columns;
  a.offsets = r.offsets, a.indices = r.indices, a.values = r.values;
  a.offset_type = type_of(r.offset_type), a.index_type = type_of(r.index_type);
  a.value_type = type_of(r.value_type);
  a.numbers = r.numbers;
  a.row_stride = r.row_stride, a.column_stride = r.column_stride;
  a.label_begin = r.label_begin, a.label = r.label;
  if (r.name_count > kUnseenClass)
    throw UserError("there are too many names; at most 4294967295 are possible");
  if (r.name_count > 0) require(r.names);
  for (std::uint64_t i = 0; i < r.name_count; ++i) {
    require(r.names[i]);
    a.names.emplace_back(r.names[i]);
  }
  if (r.name_counts != nullptr) a.name_counts.assign(r.name_counts, r.name_counts + r.name_count);
  if (r.name_weights != nullptr) a.name_weights.assign(r.name_weights, r.name_weights + r.name_count);
  a.weights = r.weights;
  a.owner = std::move(owner);
  return a;
}

// Makes data of the caller's arrays, and sees to it that they are released once.
template <class Make>
tmx_status from_rows(const tmx_rows* rows, tmx_data** out, const Make& make) noexcept {
  return call([&] {
    require(rows);
    api::require_size(rows->size, sizeof(tmx_rows), "tmx_rows");
    std::shared_ptr<const void> owner;
    if (rows->release != nullptr) owner = std::shared_ptr<void>(rows->owner, rows->release);
    require(out);
    auto data = std::make_unique<tmx_data>();
    data->inside = make(arrays_of(*rows, std::move(owner)));
    *out = data.release();
  });
}

// A JSON text that lives until the next call on this thread.
thread_local std::string kept_text;
const char* kept_json(const nlohmann::ordered_json& json) {
  kept_text = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return kept_text.c_str();
}

api::Purpose purpose_of(tmx_purpose purpose) {
  if (purpose != TMX_FOR_EVALUATION && purpose != TMX_FOR_PREDICTION)
    throw UserError("there is no such purpose; use one of tmx_purpose");
  return purpose == TMX_FOR_PREDICTION ? api::Purpose::prediction : api::Purpose::evaluation;
}

// Hands events to the caller's function.
class Events final : public TrainObserver {
 public:
  Events(tmx_callback callback, void* context, std::atomic<bool>& stop)
      : callback_(callback), context_(context), stop_(stop) {}

  void stepped(std::uint64_t epoch, std::uint64_t steps, std::uint64_t of, double seconds) override {
    if (due())
      send({{"event", "step"}, {"epoch", epoch}, {"steps", steps}, {"of", of}, {"seconds", seconds}});
  }
  void trying(const SearchTrial& next) override {
    nlohmann::ordered_json event = trial_event(next);
    event["event"] = "trying";
    event.erase("log_loss");
    event.erase("seconds");
    send(event);
  }
  void trial_stepped(std::uint64_t steps, std::uint64_t of) override {
    if (due()) send({{"event", "trial_step"}, {"steps", steps}, {"of", of}});
  }
  void tried(const SearchTrial& trial) override { send(trial_event(trial)); }
  void fitting(const Plan& plan, double seconds) override {
    send({{"event", "fit"}, {"config", to_json(plan.recipe)}, {"seconds", seconds}});
  }
  void evaluating(std::size_t rows, std::size_t of) override {
    if (due()) send({{"event", "evaluating"}, {"rows", rows}, {"of", of}});
  }
  void evaluated(const EvaluationRecord& record) override { send(evaluate_event(record)); }

 private:
  bool due() {
    constexpr std::chrono::milliseconds kPause{80};
    const auto now = std::chrono::steady_clock::now();
    if (now - last_ < kPause) return false;
    last_ = now;
    return true;
  }
  void send(const nlohmann::ordered_json& event) {
    if (callback_ == nullptr) return;
    const std::string text = event.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    if (callback_(text.c_str(), context_) != 0) stop_ = true;
  }

  tmx_callback callback_;
  void* context_;
  std::atomic<bool>& stop_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

void require_ended(const tmx_run& run) {
  if (run.model == nullptr) throw UserError("the run has not ended; call tmx_run_train first");
}

// Copies the rows of a matrix in the order of the model file.
template <class CopyRow>
void copy_rows(std::uint64_t rows, std::uint64_t columns, float* out, const CopyRow& copy) {
  for (std::uint64_t r = 0; r < rows; ++r) copy(r, std::span<float>(out + r * columns, columns));
}

// From scores by class to what is asked for, by place in the model file.
void write_values(std::span<const double> scores, std::span<const std::uint32_t> place, tmx_value value,
                  double* out) {
  const double highest = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  if (value != TMX_SCORE)
    for (const double z : scores) sum += std::exp(z - highest);
  const double log_sum = std::log(sum);
  for (std::size_t k = 0; k < scores.size(); ++k) {
    const double below = scores[k] - highest;
    out[place[k]] = value == TMX_SCORE         ? scores[k]
                    : value == TMX_PROBABILITY ? std::exp(below) / sum
                                               : below - log_sum;
  }
}

}  // namespace

extern "C" {

int tmx_api_version(void) {
  return TMX_API_VERSION;
}
const char* tmx_version(void) {
  return kVersion;
}
const char* tmx_message(void) {
  return api::kept_message();
}

tmx_status tmx_data_read(const char* path, const tmx_option* options, size_t count, tmx_data** out) {
  return call([&] {
    require(path, out);
    *out = new tmx_data{api::read_training_data(path, api::option_list(options, count))};
  });
}

tmx_status tmx_data_from_rows(const tmx_rows* rows, const tmx_option* options, size_t count, tmx_data** out) {
  return from_rows(rows, out, [&](const ArrayRows& arrays) {
    return api::training_data_of(arrays, api::option_list(options, count));
  });
}

tmx_status tmx_data_read_for(const tmx_model* model, tmx_purpose purpose, const char* path,
                             const tmx_option* options, size_t count, tmx_data** out) {
  return call([&] {
    require(model, path, out);
    *out = new tmx_data{api::read_for_model(model->inside->model, purpose_of(purpose), path,
                                            api::option_list(options, count))};
  });
}

tmx_status tmx_data_from_rows_for(const tmx_model* model, tmx_purpose purpose, const tmx_rows* rows,
                                  const tmx_option* options, size_t count, tmx_data** out) {
  return from_rows(rows, out, [&](const ArrayRows& arrays) {
    require(model);
    return api::rows_for_model(model->inside->model, purpose_of(purpose), arrays,
                               api::option_list(options, count));
  });
}

tmx_status tmx_data_read_beside(const tmx_data* train, const char* path, const tmx_option* options,
                                size_t count, tmx_data** out) {
  return call([&] {
    require(train, path, out);
    *out = new tmx_data{api::read_beside(*train->inside, path, api::option_list(options, count))};
  });
}

tmx_status tmx_data_from_rows_beside(const tmx_data* train, const tmx_rows* rows, const tmx_option* options,
                                     size_t count, tmx_data** out) {
  return from_rows(rows, out, [&](const ArrayRows& arrays) {
    require(train);
    return api::rows_beside(*train->inside, arrays, api::option_list(options, count));
  });
}

tmx_status tmx_data_json(const tmx_data* data, const char** json) {
  return call([&] {
    require(data, json);
    const DataView& rows = data->inside->data;
    nlohmann::ordered_json about = data_json(rows);
    about["in_place"] = data->inside->in_place;
    about["notes"] = data->inside->notes;
    if (rows.size() > 0 && !reads_words(rows.space->encoder) && !rows.space->of_triples())
      about["first_step"] = first_step(facts_of({rows}, false, {.norms = true}, 1), true);
    *json = kept_json(about);
  });
}

void tmx_data_free(tmx_data* data) {
  delete data;
}

tmx_status tmx_run_create(const tmx_data* data, const tmx_data* valid, const tmx_model* start,
                          const tmx_option* options, size_t count, tmx_run** out) {
  return call([&] {
    require(data, out);
    auto run = std::make_unique<tmx_run>();
    run->training = std::make_unique<api::Training>(data->inside, valid != nullptr ? valid->inside : nullptr,
                                                    start != nullptr ? start->inside : nullptr,
                                                    api::option_list(options, count));
    *out = run.release();
  });
}

tmx_status tmx_run_plan(const tmx_run* run, const char** json) {
  return call([&] {
    require(run, json);
    *json = kept_json(run->training->about_plan());
  });
}

tmx_status tmx_run_train(tmx_run* run, tmx_callback callback, void* context) {
  return call([&] {
    require(run);
    if (std::exchange(run->begun, true)) throw UserError("the run has been trained already; create another");
    Events events(callback, context, run->stop);
    TrainObserver* const observers[] = {&events};
    run->model = run->training->run(observers, run->stop);
    if (const std::string& said = run->training->result().outcome.divergence; !said.empty())
      throw DivergenceError(said);
  });
}

void tmx_run_stop(tmx_run* run) {
  if (run != nullptr) run->stop.store(true, std::memory_order_relaxed);
}

tmx_status tmx_run_json(const tmx_run* run, const char** json) {
  return call([&] {
    require(run, json);
    require_ended(*run);
    const FitResult& result = run->training->result();
    const TrainOutcome& outcome = result.outcome;
    nlohmann::ordered_json about{{"epochs", outcome.epochs},
                                 {"steps", outcome.steps},
                                 {"train_seconds", outcome.train_seconds},
                                 {"trial_seconds", result.trial_seconds},
                                 {"trials", result.search.trials},
                                 {"interrupted", outcome.interrupted},
                                 {"searched", result.search.finished},
                                 {"config", to_json(result.plan->recipe)},
                                 {"solver", result.plan->solver().name},
                                 {"plan", to_json(*result.plan)},
                                 {"notes", run->training->notes()}};
    if (!outcome.divergence.empty()) about["diverged"] = outcome.divergence;
    if (!outcome.unsolved.empty()) about["unsolved"] = outcome.unsolved;
    *json = kept_json(about);
  });
}

tmx_status tmx_run_model(const tmx_run* run, tmx_model** out) {
  return call([&] {
    require(run, out);
    require_ended(*run);
    *out = new tmx_model{run->model};
  });
}

void tmx_run_free(tmx_run* run) {
  delete run;
}

tmx_status tmx_model_load(const char* path, const tmx_option* options, size_t count, tmx_model** out) {
  return call([&] {
    require(path, out);
    UseOptions use;
    OptionTable table;
    describe_memory_limit(table, &use.memory_limit);
    api::set_options(table, api::option_list(options, count));
    auto inside = std::make_shared<api::Model::Inside>();
    inside->model = load_model(path, use.memory_there(), use.thread_count());
    *out = new tmx_model{std::move(inside)};
  });
}

tmx_status tmx_model_save(const tmx_model* model, const char* path) {
  return call([&] {
    require(model, path);
    require_writable(path, 0, "");
    save_model(model->inside->model, path);
  });
}

void tmx_model_free(tmx_model* model) {
  delete model;
}

tmx_status tmx_model_shape(const tmx_model* model, uint64_t* classes, uint64_t* features, uint64_t* columns) {
  return call([&] {
    require(model);
    const truemax::Model& m = model->inside->model;
    if (classes != nullptr) *classes = m.classes->size();
    if (features != nullptr) *features = m.space->features;
    if (columns != nullptr) *columns = m.weights.features();
  });
}

tmx_status tmx_model_metadata(const tmx_model* model, const char** json) {
  return call([&] {
    require(model, json);
    *json = kept_json(model_metadata(model->inside->model));
  });
}

tmx_status tmx_model_tensor(const tmx_model* model, const char* name, float* out, uint64_t* count) {
  return call([&] {
    require(model, name, count);
    const truemax::Model& m = model->inside->model;
    const std::string which = name;
    const Embedding* table = which == "embedding" ? &m.encoder.features
                             : which == "context" ? &m.encoder.mixing
                                                  : nullptr;
    std::uint64_t rows = 0, columns = 0;
    if (which == "weight")
      rows = m.weights.classes(), columns = m.weights.features();
    else if (which == "intercept")
      rows = m.weights.has_intercept() ? m.weights.classes() : 0, columns = 1;
    else if (table != nullptr)
      rows = table->rows, columns = table->columns;
    else
      throw UserError("there is no tensor '" + which +
                      "'; weight, intercept, embedding and context are possible");
    const std::uint64_t there = std::exchange(*count, rows * columns);
    if (out == nullptr) return;
    require_room(there, rows, columns);
    const std::vector<ClassId> order = m.classes->by_name();
    copy_rows(rows, columns, out, [&](std::uint64_t r, std::span<float> to) {
      if (table != nullptr)
        std::copy_n(table->row(r), columns, to.begin());
      else if (which == "weight")
        m.weights.copy_class(order[r], to);
      else
        to[0] = m.weights.intercept()[order[r]];
    });
  });
}

tmx_status tmx_predict(const tmx_model* model, const tmx_data* data, tmx_value value, size_t threads,
                       double* out, uint64_t count) {
  return call([&] {
    require(model, data);
    if (value != TMX_PROBABILITY && value != TMX_LOG_PROBABILITY && value != TMX_SCORE)
      throw UserError("there is no such value; use one of tmx_value");
    const truemax::Model& m = model->inside->model;
    const std::uint64_t classes = m.classes->size();
    require_room(count, data->inside->data.row_count(), classes);
    if (data->inside->data.row_count() > 0) require(out);
    const std::vector<std::uint32_t>& place = m.classes->name_ranks();
    const std::size_t cores = resolve_threads(threads);
    double* to = out;
    api::score_data(m, *data->inside, cores, [&](std::span<const double> scores, std::size_t rows) {
      parallel_for(rows, cores, [&](std::size_t r) {
        write_values(scores.subspan(r * classes, classes), place, value, to + r * classes);
      });
      to += rows * classes;
    });
  });
}

tmx_status tmx_predict_top(const tmx_model* model, const tmx_data* data, uint64_t top, size_t threads,
                           int32_t* classes, double* probabilities, uint64_t count) {
  return call([&] {
    require(model, data);
    const truemax::Model& m = model->inside->model;
    if (top < 1 || top > m.classes->size())
      throw UserError("top is " + std::to_string(top) + "; give a number from 1 to the " +
                      std::to_string(m.classes->size()) + " classes of the model");
    require_room(count, data->inside->data.row_count(), top);
    if (data->inside->data.row_count() > 0) require(classes, probabilities);
    const std::vector<std::uint32_t>& place = m.classes->name_ranks();
    std::uint64_t at = 0;
    api::predict_data(*model->inside, *data->inside, top, resolve_threads(threads),
                      [&](const Predictions& p, std::size_t rows) {
                        for (std::size_t i = 0; i < rows * p.top; ++i, ++at) {
                          classes[at] = static_cast<std::int32_t>(place[p.classes[i]]);
                          probabilities[at] = p.probability[i];
                        }
                      });
  });
}

tmx_status tmx_evaluate(const tmx_model* model, const tmx_data* data, size_t threads, const char** json) {
  return call([&] {
    require(model, data, json);
    const truemax::Model& m = model->inside->model;
    const DataView& rows = data->inside->data;
    api::require_data_of(m, *data->inside);
    if (rows.size() == 0) throw UserError("the data have no labels to evaluate; make them for evaluation");
    Metrics metrics = evaluate(m.weights, m.rows_of(rows), resolve_threads(threads)).value();
    if (rows.ranking)
      metrics.ranking = rank_triples(m.encoder.features, *rows.ranking, resolve_threads(threads));
    *json = kept_json(metrics.to_json());
  });
}

tmx_status tmx_ranks(const tmx_model* model, const tmx_data* data, size_t threads, double* out,
                     uint64_t* count) {
  return call([&] {
    require(model, data, count);
    const truemax::Model& m = model->inside->model;
    api::require_data_of(m, *data->inside);
    const auto& task = data->inside->data.ranking;
    if (task == nullptr)
      throw UserError("the data are no triples for evaluation; read them with tmx_data_read_for");
    const std::uint64_t there = std::exchange(*count, task->queries.size());
    if (out == nullptr) return;
    require_room(there, task->queries.size(), 1);
    const std::vector<double> ranks = ranks_of(m.encoder.features, *task, resolve_threads(threads)).value();
    std::copy(ranks.begin(), ranks.end(), out);
  });
}

tmx_status tmx_options_json(const char** json) {
  return call([&] {
    require(json);
    RunOptions run;
    Asked train;
    PreprocessOptions preprocess;
    OptionTable table, of_train, of_rows;
    run.describe(table);
    train.describe(of_train);
    preprocess.describe(of_rows);
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const Option& o : table.options())
      list.push_back({{"name", o.name},
                      {"value", o.value_name},
                      {"help", o.full_help()},
                      {"range", o.range},
                      {"default", o.default_value},
                      {"plain_default", o.tags.plain_default},
                      {"values", o.words},
                      {"is_switch", o.is_switch},
                      {"group", o.group},
                      {"of", of_train.find(o.name) != nullptr  ? "train"
                             : of_rows.find(o.name) != nullptr ? "rows"
                                                               : "run"}});
    *json = kept_json(list);
  });
}

}  // extern "C"
