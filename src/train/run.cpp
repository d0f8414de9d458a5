#include "train/run.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/files.hpp"
#include "data/weight_files.hpp"
#include "train/plan_json.hpp"
#include "train/run_log.hpp"
#include "train/saver.hpp"
#include "train/search_and_fit.hpp"
#include "train/shared_clock.hpp"

namespace truemax {
namespace {

// Beside the model, where there must be room for a model anyway.
std::string best_folder(const RunOptions& options) {
  if (!options.saves()) return std::filesystem::temp_directory_path().string();
  const std::string folder = std::filesystem::path(options.model).parent_path().string();
  return folder.empty() ? "." : folder;
}

// What the search chose, or the best so far if it was stopped.
nlohmann::ordered_json search_json(const FinishedRun& finished, const RunOptions& options) {
  const SearchResult& search = finished.search;
  const Recipe& recipe = finished.plan->recipe;
  if (search.finished) {
    nlohmann::ordered_json chosen{{"event", "chosen"},
                                  {"config", with_training(options, to_json(recipe))},
                                  {"plan", to_json(*finished.plan)},
                                  {"trials", search.trials},
                                  {"seconds", finished.trial_seconds}};
    if (const auto& c = search.compared)
      chosen["compared"] = {{"linear", c->linear}, {"learnt", c->learnt}, {"hidden", c->hidden}};
    return chosen;
  }
  nlohmann::ordered_json best{{"event", "best_so_far"}, {"trials", search.trials}, {"hidden", recipe.hidden}};
  if (search.ridge) best["ridge"] = recipe.ridge;
  if (search.step) best["step"] = recipe.step;
  if (search.epochs) best["epochs"] = recipe.epochs;
  return best;
}

}  // namespace

Model make_model(RunState&& state, const DataView& data, const PreprocessOptions& preprocess,
                 const Recipe& recipe, const std::string& row_weights, const std::string& class_weights) {
  Model model;
  model.weights = std::move(state.weights);
  model.encoder = std::move(state.learnt.tables);
  model.classes = data.classes;
  model.space = data.space;
  model.preprocess = preprocess;
  model.method = recipe.method;
  Recipe used = recipe;
  OptionTable table;
  used.describe(table);
  model.options = table.to_json();
  for (const Option& option : table.options())  // options that change no result must not change the file
    if (option.tags.replay == Replay::free) model.options.erase(option.name);
  if (!row_weights.empty()) model.options["row-weights"] = row_weights;
  if (!class_weights.empty()) model.options["class-weights"] = class_weights;
  model.data = data_json(data);
  return model;
}

namespace {

// Only a run on a GPU has it: --replay refuses such a log.
nlohmann::ordered_json device_json(const device::Engine& engine) {
  const device::Card& card = engine.card();
  return {{"kind", "cuda"}, {"name", card.name}, {"number", card.number}, {"memory", card.memory}};
}

std::unique_ptr<RunLog> start_log(const PreparedRun& run) {
  const bool writes = run.options.logs() && ranks().first();
  auto log = std::make_unique<RunLog>(writes ? run.outputs.growing_log() : "none", run.options.log);
  if (!run.options.checkpoint.empty()) log->keep_lines();
  if (run.resumed) {
    const SavedRun& saved = run.resumed->about();
    log->write_lines(saved.lines);
    nlohmann::ordered_json event{{"event", "resume"}, {"epochs", saved.epochs}, {"steps", saved.steps}};
    if (saved.fitting) event["options"] = {{"epochs", run.recipe().epochs}};
    if (run.engine) event["device"] = device_json(*run.engine);
    log->write(event);
    log->require_begun();
    return log;
  }
  nlohmann::ordered_json start{
      {"event", "start"},
      {"config", with_training(run.options, to_json(run.recipe()))},
      {"asked", to_json(run.options.asked)},
      {"plan", to_json(*run.plan)},
      {"data", data_json(run.data)},
      {"memory", {{"needed", run.plan->memory.total()}, {"there", run.plan->memory.there}}},
      {"read_seconds", run.read_seconds}};
  if (!ranks().alone()) start["ranks"] = ranks().size();
  if (run.test) start["test_data"] = data_json(*run.test);
  if (run.valid) start["valid_data"] = data_json(*run.valid);
  start["data"]["hash"] = run.data_hash;
  if (!run.init_hash.empty()) start["init_hash"] = run.init_hash;
  if (run.engine) start["device"] = device_json(*run.engine);
  if (run.valid) start["valid_data"]["hash"] = run.valid_hash;
  log->write(start);
  log->require_begun();
  return log;
}

// Saves the model. A run that stopped or diverged before its first step replaces neither an old model nor its
// log. One that diverged later is saved, but under another name if there is an old model. Returns the error,
// if any. `in_checkpoint`: the last checkpoint has the same state. `logged`: the log has all lines so far.
std::string save(PreparedRun& run, FinishedRun& finished, bool in_checkpoint, bool logged) {
  const RunOptions& options = run.options;
  const TrainOutcome& outcome = finished.outcome;
  std::string error;
  const bool diverged = !outcome.divergence.empty(), cut = outcome.interrupted || diverged;
  const bool untrained =
      outcome.steps == 0 && finished.plan->recipe.epochs > 0;  // the time was too short for a step
  finished.saved = options.saves() && (!cut || outcome.steps > 0);
  if (diverged || untrained)
    run.outputs.step_aside(diverged ? "diverged" : cut ? "stopped" : "untrained", finished.saved);
  const std::string path = ranks().broadcast_text(run.outputs.model());
  if (finished.saved) try {
      save_model(finished.model, path, options.model_form());
    } catch (const UserError& failure) {
      error = failure.what();
      run.outputs.step_aside("failed", false);
      if (in_checkpoint)
        error += fmt::format("; {} has what was learnt: add --resume", options.checkpoint);
      else if (logged && !finished.plan->recipe.lock_free && !run.engine)
        error += fmt::format("; its log repeats the fit without a search: --replay {}", run.outputs.log());
    }
  finished.model_path = finished.saved ? path : "none";
  finished.log_path = run.outputs.log();
  return error;
}

nlohmann::ordered_json end_json(const FinishedRun& finished, const std::string& save_error) {
  const TrainOutcome& outcome = finished.outcome;
  nlohmann::ordered_json end{{"event", "end"},
                             {"epochs", outcome.epochs},
                             {"steps", outcome.steps},
                             {"train_seconds", outcome.train_seconds},
                             {"interrupted", outcome.interrupted}};
  // Of the steps; one rank that counts says what several would combine.
  if (const Traffic& t = outcome.traffic.traffic; t.reductions > 0)
    end["ranks"] = {{"number", ranks().size()},
                    {"rows", outcome.traffic.rows},
                    {"reductions", t.reductions},
                    {"combined_bytes", t.combined},
                    {"sent_bytes", t.sent}};
  if (!outcome.segments.empty()) {
    nlohmann::ordered_json& segments = end["segments"] = nlohmann::ordered_json::array();
    for (const Segment& s : outcome.segments)
      segments.push_back({{"first_step", s.first_step}, {"step", s.step}});
  }
  if (outcome.kept_best) end["best"] = {{"epoch", outcome.last->epoch}, {"steps", outcome.last->steps}};
  if (finished.saved && save_error.empty()) end["model"] = finished.model_path;
  if (!outcome.divergence.empty()) end["diverged"] = outcome.divergence;
  if (!outcome.unsolved.empty()) end["unsolved"] = outcome.unsolved;
  if (!save_error.empty()) end["error"] = save_error;
  return end;
}

// Also resumes the run: what its earlier process knew of the search goes to `finished`.
TrainExtras extras_of(PreparedRun& run, std::optional<CheckpointSaver>& saver, FinishedRun& finished) {
  TrainExtras extras;
  if (run.recording) extras.recording = &*run.recording;
  if (run.plan->memory.best_on_disk) extras.best_folder = best_folder(run.options);
  extras.start = run.start.get();
  if (saver) {
    saver->begin();
    extras.saving = {.epochs = run.save_every.epochs,
                     .seconds = run.save_every.seconds,
                     .at_start = true,
                     .save = [&](const RunState& state, bool done) { saver->save(state, done); }};
  }
  if (!run.resumed) return extras;
  const SavedRun& saved = run.resumed->about();
  run.watch.add(saved.seconds);
  extras.known_trials = saved.trials;
  if (!saved.fitting) return extras;
  extras.saving.at_start = false;
  extras.restore = [&run, &finished, folder = extras.best_folder](RunState& state) {
    if (run.recipe().patience > 0) state.patience.weights = std::make_shared<KeptWeights>(folder);
    run.resumed->read_state(state);
    finished.search = run.resumed->about().search;
    finished.trial_seconds = run.resumed->about().trial_seconds;
  };
  return extras;
}

}  // namespace

FinishedRun execute_run(PreparedRun& run, std::vector<TrainObserver*> observers,
                        const std::atomic<bool>& own_stop) {
  RunOptions& options = run.options;
  Ranks& all = ranks();
  SharedStop shared(own_stop);
  const std::atomic<bool>& stop = all.alone() ? own_stop : shared.flag();
  if (!all.alone()) observers.push_back(&shared);
  std::unique_ptr<RunLog> log;
  std::optional<CheckpointSaver> saver;
  const std::vector<TrainObserver*> others = observers;
  if (options.logs() || !options.checkpoint.empty()) {
    const auto begin = [&] { log = start_log(run); };
    all.only_first(begin);
    if (!all.first()) begin();
    observers.insert(observers.begin(), log.get());
  }
  if (!options.checkpoint.empty()) {
    saver.emplace(run, *log, others);
    observers.insert(observers.begin() + 1, &*saver);
  }
  FinishedRun finished;
  TrainExtras extras = extras_of(run, saver, finished);
  extras.own_stop = &own_stop;
  RunState state = search_and_fit(run.sets(), *run.plan, run.watch, observers, stop, extras, finished, [&] {
    if (log && run.automatic() && !extras.restore) log->write(search_json(finished, options));
    if (saver) saver->searched(finished.search, finished.trial_seconds, *finished.plan);
  });
  finished.model = make_model(std::move(state), run.data, options.preprocess, finished.plan->recipe,
                              options.read.row_weights, options.class_weights);
  const std::string save_error = save(run, finished, saver && saver->has_state(), log && log->complete());
  all.only_first([&] {
    if (log) log->write(end_json(finished, save_error));
    // Even if the log lost lines: an older log does not belong to this model.
    run.outputs.publish_log();
    run.outputs = RunOutputs();
    if (!save_error.empty()) throw UserError(save_error);
    if (log) log->require_whole();
    if (saver) saver->require_saved();
  });
  return finished;
}

}  // namespace truemax
