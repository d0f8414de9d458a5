#include "train/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>

#include "core/files.hpp"
#include "data/input.hpp"
#include "data/load.hpp"
#include "data/weight_files.hpp"
#include "rule/methods.hpp"
#include "train/epoch.hpp"
#include "train/run_log.hpp"
#include "weights/kernels.hpp"

namespace truemax {
namespace {

// What evaluation holds at once: results of a slice of rows, whatever N and K are.
constexpr std::uint64_t kEvaluationBytes = std::uint64_t{8} << 20;
// The program itself, and the names of a class in the metadata while a model is saved.
constexpr std::uint64_t kProgramBytes = std::uint64_t{16} << 20, kBytesPerClassName = 300;

nlohmann::ordered_json data_json(const Dataset& data) {
  const DataStatistics& s = data.statistics;
  return {{"rows", data.size()},
          {"features", data.space->features},
          {"classes", data.classes->size()},
          {"nonzeros", data.rows.nonzeros()},
          {"format", format_name(data.format)},
          {"rows_in_file", s.rows_in_file},
          {"rows_of_weight_zero", s.rows_of_weight_zero},
          {"rows_without_label", s.rows_without_label},
          {"rows_without_features", s.rows_without_features},
          {"unseen", s.unseen},
          {"cut_features", s.cut_features}};
}

std::string log_beside(const std::string& model) {
  return std::filesystem::path(model).replace_extension(".jsonl").string();
}

// model.safetensors, or the first of model-2, model-3, ... that is free together with its log: nothing is
// overwritten unasked.
void name_outputs(RunOptions& options) {
  const bool names_log = options.log.empty();
  if (options.model.empty()) {
    const auto taken = [names_log](const std::string& model) {
      return std::filesystem::exists(model) || (names_log && std::filesystem::exists(log_beside(model)));
    };
    options.model = "model.safetensors";
    for (int i = 2; taken(options.model); ++i) options.model = fmt::format("model-{}.safetensors", i);
  }
  if (names_log) options.log = options.saves() ? log_beside(options.model) : "none";
}

// Outputs must not fall on an input, nor on each other: the run would destroy what it reads.
void require_distinct(const RunOptions& o, const std::vector<std::string>& inputs) {
  const std::vector<std::pair<const char*, std::string>> outputs{{"model", o.saves() ? o.model : ""},
                                                                 {"log", o.logs() ? o.log : ""}};
  for (const auto& [name, output] : outputs)
    for (const std::string& input : inputs)
      if (!output.empty() && !input.empty() && input != "-" && same_file(output, input))
        throw UserError(fmt::format("--{} {}: this is an input of the run; give another name", name, output));
  if (o.saves() && o.logs() && same_file(o.model, o.log))
    throw UserError(fmt::format("--log {}: this is the model file too; give another name", o.log));
}

}  // namespace

// Scores scale with |x|^2 times the step. For rows of unit length a tenth is a step that neither crawls nor
// overfits on the data sets we have (test log-loss below the class frequencies on all of them; a step of 1 is
// above them on Delicious).
double fitted_step(const Dataset& data, bool with_intercept) {
  double sum = 0;
  for (std::size_t i = 0; i < data.size(); ++i) sum += squared_norm(data.x(i), with_intercept);
  constexpr double kUnitLengthStep = 0.1;
  double step = kUnitLengthStep * static_cast<double>(data.size()) / sum;
  // A weight multiplies the step of its row: without this, weights in another unit would change the fit.
  if (data.has_weights()) {
    double weights = 0;
    for (std::size_t i = 0; i < data.size(); ++i) weights += data.example_weight(i);
    step *= static_cast<double>(data.rows.rows()) / weights;
  }
  return std::clamp(step, 1e-15, kLargestStep);
}

// Far more draws than classes are never meant: they would cost more than all classes. The rows of a step are
// different ones.
void require_step_shape(const TrainOptions& options, const Dataset& data) {
  constexpr std::uint64_t kMostTimes = 100;
  const std::uint64_t most = kMostTimes * data.classes->size();
  if (options.classes_per_step > most)
    throw UserError(fmt::format(
        "--classes-per-step {}: with the {} classes of the data at most {} make sense; give fewer",
        options.classes_per_step, data.classes->size(), most));
  if (options.rows_per_step > data.size())
    throw UserError(fmt::format("--rows-per-step {}: the data have {} rows; give at most that many",
                                options.rows_per_step, data.size()));
}

MemoryPlan plan_memory(const Dataset& data, const Dataset* test, const TrainOptions& options,
                       std::uint64_t memory_limit) {
  MemoryPlan plan;
  plan.weights = Weights::bytes_needed(data.classes->size(), data.space->features);
  plan.rows = data.size() * (sizeof(RowState) + (options.visit == Visit::shuffle ? sizeof(RowId) : 0));
  plan.data = data.bytes() + (test != nullptr ? test->bytes() : 0);
  plan.rows += step_bytes(data, options);
  if (find_method(options.method).has_companion) plan.weights = 2 * plan.weights;
  plan.evaluation = kEvaluationBytes + kProgramBytes + kBytesPerClassName * data.classes->size();
  // The data are in memory already: what is there for the run is what is free now, plus them.
  plan.there = memory_limit > 0 ? memory_limit : available_memory() + plan.data;
  return plan;
}

Model make_model(Weights&& weights, const Dataset& data, const PreprocessOptions& preprocess,
                 TrainOptions options, const std::string& row_weights, const std::string& class_weights) {
  Model model;
  model.weights = std::move(weights);
  model.classes = data.classes;
  model.space = data.space;
  model.preprocess = preprocess;
  model.method = options.method;
  OptionTable table;
  options.describe(table);
  model.options = table.to_json();
  model.options.erase("threads");  // never changes a result, so it must not change the file
  if (!row_weights.empty()) model.options["row-weights"] = row_weights;
  if (!class_weights.empty()) model.options["class-weights"] = class_weights;
  model.data = data_json(data);
  return model;
}

void RunOptions::describe(OptionTable& table) {
  table.text("test", "FILE", &test_path, "Data to evaluate on, in the same format as the training data.");
  read.describe(table);
  table.text("test-label-file", "FILE", &test_label_file, "The labels of --test, for idx and npy data.");
  table.text("test-split", "FILE", &test_split,
             "Split file with the test rows (column --split-column); without --test they come from the "
             "training file.");
  describe_row_weights(table, &read.row_weights);
  table.text("test-row-weights", "FILE", &test_row_weights,
             "The same for the rows of --test. Without --test, the rows of --test-split have the weights of "
             "--row-weights.");
  describe_class_weights(table, &class_weights);
  preprocess.describe(table);
  describe_max_rows(table, &max_rows);
  train.describe(table);
  table.text(
      "model", "FILE", &model,
      "Where the model goes; 'none': nowhere. Without it: model.safetensors, or model-2 and so on where that "
      "exists.");
  table.text("log", "FILE", &log,
             "Where the run log (JSON lines) goes; 'none': nowhere. Without it: beside the model, ending in "
             ".jsonl.");
  describe_memory_limit(table, &memory_limit);
}

nlohmann::ordered_json RunOptions::to_json() {
  OptionTable table;
  describe(table);
  nlohmann::ordered_json json{{"train", train_path}};
  json.update(table.to_json());
  return json;
}

std::uint64_t MemoryPlan::total() const {
  std::uint64_t sum = 0;
  for (const std::uint64_t part : {weights, rows, data, evaluation})
    if (__builtin_add_overflow(sum, part, &sum)) return std::numeric_limits<std::uint64_t>::max();
  return sum;
}

std::string MemoryPlan::to_text() const {
  return fmt::format("{} (weights {}, row states {}, data {}, evaluation and program {}) of {}",
                     size_text(total()), size_text(weights), size_text(rows), size_text(data),
                     size_text(evaluation), size_text(there));
}

void MemoryPlan::require() const {
  if (total() <= there) return;
  throw UserError(
      fmt::format("this run needs {}, more than is there; keep fewer features (--max-features), read fewer "
                  "rows (--max-rows), or "
                  "raise --memory-limit to try all the same",
                  to_text()));
}

PreparedRun prepare_run(RunOptions options) {
  options.train.check();
  name_outputs(options);
  for (const std::string& output : {options.model, options.log})
    if (output == "-")
      throw UserError("--model and --log take the name of a file or 'none', not '-'; give a name");
  // Space is not known yet; whether the places exist is.
  if (options.saves()) require_writable(options.model, 0, "model");
  if (options.logs() && !is_stream(options.log)) require_writable(options.log, 0, "log");
  require_distinct(
      options, {options.train_path, options.test_path, options.read.label_file, options.test_label_file,
                options.read.split, options.test_split, options.read.row_weights, options.test_row_weights,
                class_weight_file(options.class_weights)});
  if (options.train_path == kStandardInput && options.test_path == kStandardInput)
    throw UserError("standard input can be read once only; name a file for the training data or for --test");
  if (!options.test_label_file.empty() && options.test_path.empty())
    throw UserError("--test-label-file: there is no --test whose labels these could be; add --test FILE");
  if (!options.test_row_weights.empty() && options.test_path.empty())
    throw UserError(
        "--test-row-weights: there is no --test whose rows these could weigh; add --test FILE (the rows of "
        "--test-split have the weights of --row-weights)");
  require_standard_input_once(
      {options.train_path, options.test_path},
      {options.read.row_weights, options.test_row_weights, class_weight_file(options.class_weights)});

  PreparedRun run;
  const auto start = std::chrono::steady_clock::now();
  const std::size_t threads = options.train.thread_count();
  RawRows train_rows = read_rows(options.train_path, options.read, options.max_rows, threads, run.notes);
  std::optional<RawRows> test_rows;
  if (!options.test_path.empty() || !options.test_split.empty()) {
    ReadOptions read = options.read;
    if (read.format == Format::automatic) read.format = train_rows.format;
    read.label_file = options.test_label_file;
    read.split = options.test_split;
    read.row_weights = options.test_row_weights;
    if (options.test_path.empty()) {
      read.label_file = options.read.label_file;
      read.row_weights = options.read.row_weights;
    }
    test_rows = read_rows(options.test_path.empty() ? options.train_path : options.test_path, read,
                          options.max_rows, threads, run.notes);
  }
  // What was read in the end: label files are found by themselves too.
  require_distinct(options, train_rows.files);
  if (test_rows) require_distinct(options, test_rows->files);
  const std::uint64_t test_features = test_rows ? test_rows->features : 0;
  run.data =
      make_training_set(std::move(train_rows), options.preprocess, test_features, options.class_weights);
  if (test_rows)
    run.test = make_test_set(std::move(*test_rows), options.preprocess, run.data.classes, run.data.space,
                             false, run.data.class_weight);
  run.read_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  run.watch.resume();

  require_step_shape(options.train, run.data);
  const std::uint64_t others = run.data.classes->size() - (options.train.rows_per_step == 1 ? 1 : 0);
  if (options.train.classes_per_step > others && options.train.draw == "uniform" &&
      !find_method(options.train.method).whole_set)
    run.notes.push_back(
        fmt::format("--classes-per-step {}: there are {} to draw from, and every step takes them all",
                    options.train.classes_per_step, others));
  if (options.fit_step) options.train.step = fitted_step(run.data, options.train.intercept);
  run.options = std::move(options);
  run.memory =
      plan_memory(run.data, run.test ? &*run.test : nullptr, run.options.train, run.options.memory_limit);
  run.memory.require();
  if (run.options.saves())
    require_writable(
        run.options.model,
        model_bytes(run.data.classes->size(), run.data.space->features, run.options.train.intercept),
        "model");
  return run;
}

FinishedRun execute_run(PreparedRun& run, std::vector<TrainObserver*> observers,
                        const std::atomic<bool>& stop) {
  RunOptions& options = run.options;
  TrainState state = make_state(run.data, options.train);

  std::unique_ptr<RunLog> log;
  if (options.logs()) {
    log = std::make_unique<RunLog>(options.log);
    nlohmann::ordered_json start{{"event", "start"},
                                 {"config", options.to_json()},
                                 {"data", data_json(run.data)},
                                 {"memory", {{"needed", run.memory.total()}, {"there", run.memory.there}}},
                                 {"read_seconds", run.read_seconds}};
    if (run.test) start["test_data"] = data_json(*run.test);
    if (options.fit_step) start["chosen"] = {{"step", options.train.step}};
    log->write(start);
    log->require_whole();
    observers.insert(observers.begin(), log.get());
  }

  FinishedRun finished;
  finished.outcome =
      train(run.data, run.test ? &*run.test : nullptr, options.train, state, run.watch, observers, stop);
  const TrainOutcome& outcome = finished.outcome;

  finished.model = make_model(std::move(state.weights), run.data, options.preprocess, options.train,
                              options.read.row_weights, options.class_weights);
  std::string save_error;
  // A run that was stopped or diverged at once has learnt nothing that is worth an old model.
  const bool cut = outcome.interrupted || !outcome.divergence.empty();
  finished.saved = options.saves() && (!cut || outcome.steps > 0);
  if (finished.saved) try {
      save_model(finished.model, options.model);
    } catch (const UserError& error) {
      save_error = error.what();
    }

  if (log) {
    nlohmann::ordered_json end{{"event", "end"},
                               {"epochs", outcome.epochs},
                               {"steps", outcome.steps},
                               {"train_seconds", outcome.train_seconds},
                               {"interrupted", outcome.interrupted}};
    if (!outcome.segments.empty()) {
      nlohmann::ordered_json& segments = end["segments"] = nlohmann::ordered_json::array();
      for (const Segment& s : outcome.segments)
        segments.push_back({{"first_step", s.first_step}, {"step", s.step}});
    }
    if (finished.saved && save_error.empty()) end["model"] = options.model;
    if (!outcome.divergence.empty()) end["diverged"] = outcome.divergence;
    if (!save_error.empty()) end["error"] = save_error;
    log->write(end);
  }
  if (!save_error.empty()) throw UserError(save_error);
  if (log) log->require_whole();
  return finished;
}

}  // namespace truemax
