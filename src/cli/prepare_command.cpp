#include "cli/prepare_command.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/counts_text.hpp"
#include "core/files.hpp"
#include "core/text.hpp"
#include "data/cache_file.hpp"
#include "ranks/ranks.hpp"
#include "train/draft.hpp"
#include "train/replay.hpp"
#include "train/resume.hpp"
#include "train/warm_start.hpp"

namespace truemax {
namespace {

// --init: reads the model, and its shape and preprocessing become those of the run.
void start_from_model(RunOptions& run, const std::vector<std::string>& given,
                      std::vector<std::string>& notes) {
  if (run.init.empty()) return;
  const std::uint64_t memory = run.memory_limit > 0 ? run.memory_limit : memory_of_each(ranks().here());
  run.start =
      std::make_shared<const Model>(load_model(run.init, memory, over_defaults(run.asked).thread_count()));
  if (!run.replay.empty()) return;  // the log has it all
  const auto was_given = [&](const char* name) {
    return std::find(given.begin(), given.end(), name) != given.end();
  };
  try {
    continue_reading(*run.start, was_given, run.read, run.preprocess, notes);
  } catch (const UserError& error) {
    throw UserError(fmt::format("--init {}: {}", run.init, error.what()));
  }
}

// Where a resumed run goes on.
std::string resume_text(const PreparedRun& run) {
  const SavedRun& saved = run.resumed->about();
  if (!saved.fitting && saved.trials.empty()) return fmt::format("{}: at the start", run.options.checkpoint);
  if (!saved.fitting)
    return fmt::format("{}: in the search, {} done", run.options.checkpoint,
                       counted(saved.trials.size(), "trial"));
  return fmt::format("{}: {}, {} done{}", run.options.checkpoint, counted(saved.epochs, "epoch"),
                     counted(saved.steps, "step"),
                     saved.finished && run.recipe().epochs <= saved.epochs ? ", which was all" : "");
}

}  // namespace

PreparedRun prepare_command(RunOptions options, const std::vector<std::string>& given, Aim aim) {
  const bool replays = !options.replay.empty();
  if (replays) options = replayed_options(std::move(options), given);
  std::vector<std::string> notes;
  start_from_model(options, given, notes);
  if (!replays) options.read.format = format_in_cache(options.read.format, options.train_path);
  PreparedRun run = prepare_run(std::move(options), aim);
  run.notes.insert(run.notes.end(), notes.begin(), notes.end());
  return run;
}

std::string sets_text(const PreparedRun& run) {
  const LabelRule labels = run.options.preprocess.labels;
  std::string text = counts_text("train", run.data, labels);
  if (const StreamedRows* stream = run.data.streamed()) text += stream_text(*stream);
  if (run.valid) text += counts_text("valid", *run.valid, labels);
  if (run.test) text += counts_text("test", *run.test, labels);
  return text;
}

std::string beginning_text(const PreparedRun& run) {
  std::string text;
  if (run.engine)
    text += fmt::format("device  {}, card {} ({})\n", printable(run.engine->card().name),
                        run.engine->card().number, size_text(run.engine->card().memory));
  if (run.recording)
    text += fmt::format("replay  {} of {}\n", counted(run.recording->steps, "step"), run.options.replay);
  if (run.start)
    text += fmt::format("start   {}: {} of {} and {} of {} are known to it\n", run.options.init,
                        run.start_match.classes, counted(run.data.classes->size(), "class", "classes"),
                        run.start_match.features, counted(run.data.space->features, "feature"));
  if (run.resumed) text += fmt::format("resume  {}\n", resume_text(run));
  return text;
}

}  // namespace truemax
