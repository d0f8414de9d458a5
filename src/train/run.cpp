#include "train/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "core/files.hpp"
#include "data/weight_files.hpp"
#include "rule/methods.hpp"
#include "train/automatic.hpp"
#include "train/fit.hpp"
#include "train/run_log.hpp"
#include "train/step_shape.hpp"

namespace truemax {
namespace {

// What evaluation holds at once: results of a slice of rows, whatever N and K are.
constexpr std::uint64_t kEvaluationBytes = std::uint64_t{8} << 20;
// The program itself, and the names of a class in the metadata while a model is saved.
constexpr std::uint64_t kProgramBytes = std::uint64_t{16} << 20, kBytesPerClassName = 300;

// Beside the model, which has to fit there too.
std::string best_folder(const RunOptions& options) {
  if (!options.saves()) return std::filesystem::temp_directory_path().string();
  const std::string folder = std::filesystem::path(options.model).parent_path().string();
  return folder.empty() ? "." : folder;
}

// What the search chose, or what was best when it was stopped.
nlohmann::ordered_json search_json(const FinishedRun& finished, RunOptions& options) {
  const SearchResult& search = finished.search;
  if (search.finished)
    return {{"event", "chosen"},
            {"config", options.to_json()},
            {"trials", search.trials},
            {"seconds", finished.trial_seconds}};
  nlohmann::ordered_json best{{"event", "best_so_far"}, {"trials", search.trials}};
  if (search.ridge) best["ridge"] = options.train.ridge;
  if (search.step) best["step"] = options.train.step;
  if (search.epochs) best["epochs"] = options.train.epochs;
  return best;
}

}  // namespace

// Far more draws than classes are never meant: they would cost more than all classes. The rows of a step are
// different ones.
void require_step_shape(const TrainOptions& options, const DataView& data) {
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

nlohmann::ordered_json data_json(const DataView& data) {
  const DataStatistics& s = data.statistics;
  return {{"rows", data.row_count()},
          {"examples", data.size()},
          {"features", data.space->features},
          {"classes", data.classes->size()},
          {"nonzeros", data.nonzeros()},
          {"format", format_name(data.format)},
          {"rows_in_file", s.rows_in_file},
          {"rows_of_weight_zero", s.rows_of_weight_zero},
          {"rows_without_label", s.rows_without_label},
          {"rows_without_features", s.rows_without_features},
          {"unseen", s.unseen},
          {"cut_features", s.cut_features}};
}

void require_validation(const TrainOptions& options, bool has_valid) {
  if (options.patience > 0 && !has_valid)
    throw UserError(fmt::format(
        "--patience {}: there are no validation rows to watch; add --valid FILE, or --valid-share "
        "0.1 to set some of the training rows aside",
        options.patience));
}

MemoryPlan plan_memory(const TrainSets& sets, const TrainOptions& options, std::uint64_t memory_limit) {
  const DataView& data = sets.data;
  MemoryPlan plan;
  plan.classes = data.classes->size(), plan.features = data.space->features;
  plan.weights = Weights::bytes_needed(plan.classes, plan.features);
  plan.rows = data.size() * (sizeof(RowState) + (options.visit == Visit::shuffle ? sizeof(ExampleId) : 0));
  plan.data = sets.bytes();
  plan.rows += step_bytes(data, options);
  // Trials see parts of the rows: row numbers, labels and weights, of all rows once and of a sample.
  if (options.open.any() && options.valid_share > 0)
    plan.data +=
        (3 * sizeof(ExampleId) + (data.has_example_weights() ? sizeof(double) : 0)) * data.size() * 5 / 4;
  if (find_method(options.method).has_companion) {
    plan.copies = 2;
    if (__builtin_mul_overflow(plan.weights, plan.copies, &plan.weights))
      plan.weights = std::numeric_limits<std::uint64_t>::max();
  }
  plan.evaluation = kEvaluationBytes + kProgramBytes + kBytesPerClassName * data.classes->size();
  // The data are in memory already: what is there for the run is what is free now, plus them.
  plan.there = memory_limit > 0 ? memory_limit : available_memory() + plan.data;
  if (options.patience == 0) return plan;
  plan.best = Weights::bytes_needed(data.classes->size(), data.space->features);
  plan.best_on_disk = plan.total() > plan.there;
  if (plan.best_on_disk) plan.best = 0;
  return plan;
}

Model make_model(Weights&& weights, const DataView& data, const PreprocessOptions& preprocess,
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
  for (const Option& option : table.options())  // what changes no result must not change the file
    if (option.tags.replay == Replay::free) model.options.erase(option.name);
  if (!row_weights.empty()) model.options["row-weights"] = row_weights;
  if (!class_weights.empty()) model.options["class-weights"] = class_weights;
  model.data = data_json(data);
  return model;
}

void RunOptions::describe(OptionTable& table) {
  table.group("Data");
  table.text("test", "FILE", &test_path, "Data to evaluate on, in the same format as the training data.",
             {.brief = true, .replay = Replay::test});
  read.describe(table);
  table.text("test-label-file", "FILE", &test_label_file, "The labels of --test, for idx and npy data.",
             {.replay = Replay::test});
  table.text("test-split", "FILE", &test_split,
             "Split file with the test rows (column --split-column); without --test they come from the "
             "training file.",
             {.replay = Replay::test});
  describe_row_weights(table, &read.row_weights);
  table.text("test-row-weights", "FILE", &test_row_weights,
             "The same for the rows of --test. Without --test, the rows of --test-split have the weights of "
             "--row-weights.",
             {.replay = Replay::test});
  table.text(
      "valid", "FILE", &valid_path,
      "Data to validate on, in the same format as the training data: evaluated with them, and watched by "
      "--patience.",
      {.brief = true});
  table.text("valid-label-file", "FILE", &valid_label_file, "The labels of --valid, for idx and npy data.");
  describe_class_weights(table, &class_weights);
  preprocess.describe(table);
  describe_max_rows(table, &max_rows);
  train.describe(table);
  table.group("Output");
  table.text(
      "model", "FILE", &model,
      "Where the model goes; 'none': nowhere. Without it: model.safetensors, or model-2 and so on where that "
      "exists or another run is about to write it.",
      {.brief = true, .replay = Replay::free});
  table.text("log", "FILE", &log,
             "Where the run log (JSON lines) goes; 'none': nowhere. Without it: beside the model, ending in "
             ".jsonl. While the run goes on it is FILE.part.",
             {.brief = true, .replay = Replay::free});
  describe_memory_limit(table, &memory_limit);
  table.group("Training");
  table.text(
      "replay", "FILE", &replay,
      "Repeat the run of this log, bit for bit and without a clock: it says all options, and only those "
      "of outputs, of --test, --threads and --memory-limit can be given beside it.",
      {.replay = Replay::free});
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
  for (const std::uint64_t part : {weights, rows, data, evaluation, best})
    if (__builtin_add_overflow(sum, part, &sum)) return std::numeric_limits<std::uint64_t>::max();
  return sum;
}

std::string MemoryPlan::to_text() const {
  return fmt::format("{} (weights {}, row states {}, data {}, evaluation and program {}{}) of {}",
                     size_text(total()), size_text(weights), size_text(rows), size_text(data),
                     size_text(evaluation), best > 0 ? fmt::format(", best weights {}", size_text(best)) : "",
                     size_text(there));
}

void MemoryPlan::require() const {
  if (total() <= there) return;
  MemoryPlan others = *this;
  others.weights = others.best = 0;
  const std::uint64_t left = others.total() < there ? there - others.total() : 0;
  const std::uint64_t buckets = Weights::features_that_fit(classes, left / copies);
  const std::string fits = buckets > 0 ? fmt::format("--hash-features {} would fit", buckets)
                           : left == 0 ? "though what a run needs beside its weights is too much already"
                                       : "though with so many classes not even one bucket fits";
  throw UserError(fmt::format(
      "this run needs {}, more than is there: {} classes x {} features, in blocks of 16 classes, are {} "
      "weights of 4 bytes{}; keep fewer features (--max-features), hash them into fewer buckets ({}), train "
      "on fewer "
      "classes or rows "
      "(--max-rows), or raise --memory-limit to try all the same",
      to_text(), classes, features, (classes + kLanes - 1) / kLanes * kLanes * features,
      copies > 1 ? ", twice" : "", fits));
}

FinishedRun execute_run(PreparedRun& run, std::vector<TrainObserver*> observers,
                        const std::atomic<bool>& stop) {
  RunOptions& options = run.options;
  Weights spare;  // the memory of the trials
  if (options.train.seconds > 0 && !run.recording) spare = cleared_weights(run.data, options.train);
  run.watch.resume();

  std::unique_ptr<RunLog> log;
  if (options.logs()) {
    log = std::make_unique<RunLog>(run.outputs.growing_log(), options.log);
    nlohmann::ordered_json start{{"event", "start"},
                                 {"config", run.asked},
                                 {"data", data_json(run.data)},
                                 {"memory", {{"needed", run.memory.total()}, {"there", run.memory.there}}},
                                 {"read_seconds", run.read_seconds}};
    if (run.test) start["test_data"] = data_json(*run.test);
    if (run.valid) start["valid_data"] = data_json(*run.valid);
    start["data"]["hash"] = run.data_hash;
    if (run.valid) start["valid_data"]["hash"] = run.valid_hash;
    log->write(start);
    log->require_whole();
    observers.insert(observers.begin(), log.get());
  }

  FinishedRun finished;
  finished.search.finished = true;
  if (options.train.open.any()) {
    finished.search = choose_by_trials(run.sets(), options.train, run.watch, observers, stop, &spare);
    finished.trial_seconds = run.watch.seconds_running();
  }
  if (log && run.automatic) log->write(search_json(finished, options));
  RunState state = make_state(run.data, options.train, &spare);
  TrainExtras extras;
  if (run.recording) extras.recording = &*run.recording;
  if (run.memory.best_on_disk) extras.best_folder = best_folder(options);
  // A search that was stopped has found nothing to fit with.
  if (!finished.search.finished)
    finished.outcome.interrupted = true;
  else
    finished.outcome = train(run.sets(), options.train, state, run.watch, observers, stop, extras);
  const TrainOutcome& outcome = finished.outcome;

  finished.model = make_model(std::move(state.weights), run.data, options.preprocess, options.train,
                              options.read.row_weights, options.class_weights);
  std::string save_error;
  // A run that was stopped or diverged at once has learnt nothing that is worth an old model, nor its log.
  // One that diverged later keeps what it had learnt until then, but not in the place of another.
  const bool diverged = !outcome.divergence.empty(), cut = outcome.interrupted || diverged;
  const bool untrained =
      outcome.steps == 0 && options.train.epochs > 0;  // the clock was too short for a step
  finished.saved = options.saves() && (!cut || outcome.steps > 0);
  if (diverged || untrained)
    run.outputs.step_aside(diverged ? "diverged" : cut ? "stopped" : "untrained", finished.saved);
  if (finished.saved) try {
      save_model(finished.model, run.outputs.model());
    } catch (const UserError& error) {
      save_error = error.what();
      run.outputs.step_aside("failed", false);
      if (options.logs() && !options.train.lock_free)
        save_error +=
            fmt::format("; its log repeats the fit without a search: --replay {}", run.outputs.log());
    }
  finished.model_path = finished.saved ? run.outputs.model() : "none";
  finished.log_path = run.outputs.log();

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
    if (outcome.kept_best) end["best"] = {{"epoch", outcome.last->epoch}, {"steps", outcome.last->steps}};
    if (finished.saved && save_error.empty()) end["model"] = finished.model_path;
    if (!outcome.divergence.empty()) end["diverged"] = outcome.divergence;
    if (!save_error.empty()) end["error"] = save_error;
    log->write(end);
  }
  // Also a log that lost its last lines: the older one is not that of this model.
  run.outputs.publish_log();
  run.outputs = RunOutputs();
  if (!save_error.empty()) throw UserError(save_error);
  if (log) log->require_whole();
  return finished;
}

}  // namespace truemax
