#include "train/prepare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "core/checksum.hpp"
#include "core/files.hpp"
#include "data/cache_file.hpp"
#include "data/content_hash.hpp"
#include "data/input.hpp"
#include "data/load.hpp"
#include "data/streamed_set.hpp"
#include "data/triples.hpp"
#include "data/weight_files.hpp"
#include "model/model_set.hpp"
#include "ranks/together.hpp"
#include "train/bind.hpp"
#include "train/draft.hpp"
#include "train/encoder.hpp"
#include "train/replay.hpp"
#include "train/require.hpp"
#include "train/resolve.hpp"
#include "train/resume.hpp"
#include "train/search_and_fit.hpp"
#include "train/shared_clock.hpp"
#include "train/warm_start.hpp"

namespace truemax {
namespace {

// Outputs must differ from inputs and from each other: the run would destroy what it reads.
void require_distinct(const RunOptions& o, const std::vector<std::string>& inputs) {
  const std::vector<std::pair<const char*, std::string>> outputs{
      {"model", o.saves() ? o.model : ""}, {"log", o.logs() ? o.log : ""}, {"checkpoint", o.checkpoint}};
  for (const auto& [name, output] : outputs)
    for (const std::string& input : inputs) {
      if (output.empty() || input.empty() || input == "-") continue;
      if (same_file(output, input))
        throw UserError(fmt::format("--{} {}: this is an input of the run; give another name", name, output));
      if (same_file(output + ".part", input))
        throw UserError(
            fmt::format("--{0} {1}: it is first written to {1}.part, which is an input of the run; give "
                        "another name",
                        name, output));
    }
  if (o.saves() && o.logs() && !o.model.empty() && !o.log.empty() && same_file(o.model, o.log))
    throw UserError(fmt::format("--log {}: this is also the model file; give another name", o.log));
  for (const auto& [name, output] : outputs)
    if (!o.checkpoint.empty() && !output.empty() && std::string_view(name) != "checkpoint" &&
        same_file(output, o.checkpoint))
      throw UserError(
          fmt::format("--checkpoint {}: this is also the {} file; give another name", o.checkpoint, name));
}

ReadOptions test_reading(const RunOptions& options, Format train_format) {
  ReadOptions read = options.read;
  if (read.format == Format::automatic) read.format = train_format;
  read.split = options.test_split;
  if (options.test_path.empty()) return read;
  read.label_file = options.test_label_file;
  read.row_weights = options.test_row_weights;
  return read;
}

ReadOptions valid_reading(const RunOptions& options, Format train_format) {
  ReadOptions read = options.read;
  if (read.format == Format::automatic) read.format = train_format;
  read.label_file = options.valid_label_file;
  read.split.clear();
  read.row_weights.clear();
  return read;
}

void require_valid_options(const RunOptions& options, const Reading& reading) {
  const bool file = !options.valid_path.empty();
  if (!options.valid_label_file.empty() && !file)
    throw UserError("--valid-label-file: there is no --valid that these labels belong to; add --valid FILE");
  if (file && reading.draft.valid_share > 0)
    throw UserError(fmt::format(
        "--valid-share {:g}: the validation rows are those of --valid {}; leave one of the two out",
        reading.draft.valid_share, options.valid_path));
}

// The rows of a stream are those of its cache, all of them.
void require_stream_options(const RunOptions& o) {
  if (!o.stream) {
    if (o.stream_window > 0)
      throw UserError("--stream-window: this is the window of --stream; add --stream, or leave it out");
    return;
  }
  const bool cache = is_cache(o.train_path);
  if (!cache && o.train_path != kStandardInput && !is_stream(o.train_path))
    static_cast<void>(Input(o.train_path));  // says why it cannot be opened
  if (!cache)
    throw UserError(
        fmt::format("--stream: {0} is not a cache; make one first: truemax convert {0} {1}.cache, then "
                    "truemax train {1}.cache --stream",
                    o.train_path, o.train_path == kStandardInput ? "train" : o.train_path));
  const std::pair<const char*, bool> of_convert[] = {{"split", !o.read.split.empty()},
                                                     {"row-weights", !o.read.row_weights.empty()},
                                                     {"label-file", !o.read.label_file.empty()},
                                                     {"max-rows", o.max_rows > 0}};
  for (const auto& [name, given] : of_convert)
    if (given)
      throw UserError(
          fmt::format("--{0}: with --stream the rows are those of the cache; leave it out, and give it to "
                      "truemax convert",
                      name));
  if (!o.test_split.empty() && o.test_path.empty())
    throw UserError("--test-split: with --stream the training file is not split; add --test FILE");
}

// What can be refused before any file is read.
void require_options(const RunOptions& options, const Reading& reading) {
  require_distinct(
      options, {options.train_path, options.test_path, options.read.label_file, options.test_label_file,
                options.read.split, options.test_split, options.read.row_weights, options.test_row_weights,
                options.valid_path, options.valid_label_file, options.replay, options.init,
                class_weight_file(options.class_weights)});
  if ((options.train_path == kStandardInput) + (options.test_path == kStandardInput) +
          (options.valid_path == kStandardInput) >
      1)
    throw UserError(
        "standard input can be read only once; name files for all but one of the training data, --test and "
        "--valid");
  require_valid_options(options, reading);
  require_stream_options(options);
  if (options.read.format == Format::triples) require_options_of_triples(options.preprocess);
  if (!reading.draft.eval_train && options.test_path.empty() && options.test_split.empty() &&
      options.valid_path.empty() && (reading.draft.valid_share == 0 || reading.automatic))
    throw UserError("--no-eval-train: there are no other rows to evaluate; add --test FILE, or leave it out");
  if (!options.test_label_file.empty() && options.test_path.empty())
    throw UserError("--test-label-file: there is no --test that these labels belong to; add --test FILE");
  if (!options.test_row_weights.empty() && options.test_path.empty())
    throw UserError(
        "--test-row-weights: there is no --test that these weights belong to; add --test FILE (the rows of "
        "--test-split have the weights of --row-weights)");
  require_standard_input_once(
      {options.train_path, options.test_path, options.valid_path},
      {options.read.row_weights, options.test_row_weights, class_weight_file(options.class_weights)});
}

struct RawSets {
  RawRows train;
  std::shared_ptr<const CacheFile> stream;  // instead of `train`
  std::optional<RawRows> test, valid;

  std::uint64_t other_features() const {
    return std::max(test ? test->features : 0, valid ? valid->features : 0);
  }
};

RawSets read_sets(const RunOptions& options, std::size_t threads, std::vector<std::string>& notes) {
  const auto read = [&](const std::string& path, const ReadOptions& how) {
    RawRows rows = read_rows(path, how, options.max_rows, threads, notes);
    require_distinct(options, rows.files);  // the files actually read, label files that were found included
    return rows;
  };
  RawSets sets;
  if (options.stream) {
    sets.stream = open_cache_for(options.train_path, options.read);
    sets.train.format = sets.stream->info().format;
  } else {
    sets.train = read(options.train_path, options.read);
  }
  if (!options.test_path.empty() || !options.test_split.empty())
    sets.test = read(options.test_path.empty() ? options.train_path : options.test_path,
                     test_reading(options, sets.train.format));
  if (!options.valid_path.empty())
    sets.valid = read(options.valid_path, valid_reading(options, sets.train.format));
  return sets;
}

// What the test triples are ranked among: known are the triples of all files. Null for other data.
std::shared_ptr<const RankingTask> ranking_of(const DataView& train, const RawSets& raw,
                                              const RunOptions& options) {
  if (!raw.test || !train.space->of_triples() || raw.test->format != Format::triples) return nullptr;
  RankingBuilder builder(train.classes, *train.space, options.read.memory);
  builder.add_test(*raw.test);
  builder.add_known(train);
  if (raw.valid && raw.valid->format == Format::triples) builder.add_known(*raw.valid);
  return builder.finish();
}

// Fills run.data, run.test and run.valid; what only the training data can be refused for comes first.
void make_sets(RawSets&& raw, RunOptions& options, std::size_t threads, PreparedRun& run) {
  const std::uint64_t other_features = raw.other_features();
  if (raw.stream) {
    options.stream_window = stream_window(options.stream_window, *options.read.memory);
    // The memory of a machine must not decide the order of its rank's rows.
    options.stream_window =
        static_cast<std::uint64_t>(-ranks().max_of(-static_cast<double>(options.stream_window)));
    run.data = make_streamed_set(raw.stream, options.preprocess, other_features, options.class_weights,
                                 options.stream_window, options.read.memory, threads);
  } else {
    run.data =
        make_training_set(std::move(raw.train), options.preprocess, other_features, options.class_weights);
    raw.train = RawRows();  // the names of millions of classes
  }
  if (run.start) {
    require_start(*run.start, run.data);
    run.start_match = require_match(*run.start, run.data);
  }
  const auto prepared = [&](RawRows&& rows) {
    return make_test_set(std::move(rows), options.preprocess, run.data.classes, run.data.space, false,
                         {run.data.class_weights().begin(), run.data.class_weights().end()});
  };
  const auto ranking = ranking_of(run.data, raw, options);
  if (raw.test) run.test = prepared(std::move(*raw.test));
  if (run.test) run.test->ranking = ranking;
  if (raw.valid) run.valid = prepared(std::move(*raw.valid));
}

// What the run begins from, but for a checkpoint of a fit.
Start start_of(const RunOptions& options) {
  Start start;
  if (!options.replay.empty()) {
    start.recipe = over_defaults(options.asked);
    start.repeats = true, start.name = options.replay;
    return start;
  }
  if (options.start != nullptr) start.model = shape_of(*options.start), start.name = options.init;
  start.group = group_to_continue(options);
  return start;
}

// The encoder that data of this format ask for.
EncoderKind encoder_of(Format format) {
  return format == Format::text      ? EncoderKind::context
         : format == Format::triples ? EncoderKind::complex
                                     : EncoderKind::automatic;
}

Sniffed sniffed_in(const RunOptions& options) {
  const Format format = format_in_cache(options.read.format, options.train_path);
  return {.encoder = encoder_of(format),
          .triples = options.read.format == Format::triples,
          .has_valid = !options.valid_path.empty(),
          .in_groups = ranks().in_groups()};
}

// From the facts of the sets to the plan of the run.
void decide(const Start& start, const RunOptions& options, std::size_t threads, PreparedRun& run) {
  const bool normalized = options.preprocess.normalize != Normalize::none;
  run.facts = facts_of(run.sets(), normalized, run.reading.wanted, threads);
  const Problem& problem = run.facts;
  run.machine = machine_of(options.asked.threads.value_or(0), options.memory_limit, problem);
  if (run.engine) set_card(run.machine, *run.engine);
  Resolved resolved = resolve(options.asked, problem, run.machine, start);
  if (resolved.needs_card) {
    look_for_card(run.machine);
    resolved = resolve(options.asked, problem, run.machine, start);
  }
  for (std::string& note : resolved.notes) run.notes.push_back(std::move(note));
  run.reasons = std::move(resolved.reasons);
  // Whoever continues the run has the same groups.
  if (ranks().in_groups() && resolved.recipe.group > 0) run.asked["group"] = resolved.recipe.group;
  set_validation_aside(run.data, run.valid, resolved.recipe);
  const Problem rest = of_other_rows(problem, run.sets());
  require_shape(resolved.recipe, rest, resolved.recipe.sought.encoder);
  run.plan.emplace(bind(resolved.recipe, rest, run.machine));
}

void require_bags_in_float(const PreparedRun& run, const RunOptions& options) {
  if (!run.recipe().learnt()) return;
  if (run.valid)
    require_bags_in_float(
        *run.valid, options.valid_path.empty() ? "the validation rows" : "--valid " + options.valid_path);
  if (run.test)
    require_bags_in_float(*run.test,
                          options.test_path.empty() ? "the test rows" : "--test " + options.test_path);
}

void require_room_for_model(const PreparedRun& run) {
  if (!run.options.saves()) return;
  remove_stale_temporaries(run.options.model);  // their disk space may be needed
  const Recipe& recipe = run.recipe();
  const auto bytes = [&](std::uint64_t hidden) {
    return model_bytes(run.data.classes->size(), run.data.space->features, recipe.intercept, hidden);
  };
  std::uint64_t largest = bytes(recipe.hidden);
  if (recipe.sought.any()) largest = std::max<std::uint64_t>(largest, bytes(recipe.most_hidden));
  require_writable(run.options.model, largest, "model");
}

}  // namespace

PreparedRun prepare_run(RunOptions options, Aim aim) {
  const bool begins = aim == Aim::run;
  Ranks& all = ranks();
  PreparedRun run;
  Start start = start_of(options);
  const Sniffed sniffed = sniffed_in(options);
  run.reading = resolve_reading(options.asked, sniffed, start);
  options.preprocess.check();
  require_checkpoint_options(options);
  run.watch = Stopwatch(shared_clock());
  run.start = options.start;
  if (!options.init.empty()) {
    const std::string index = index_of_set(options.init);  // which has the checksums of the parts
    all.only_first(
        [&] { run.init_hash = checksum_text(file_checksum(index.empty() ? options.init : index)); });
    run.init_hash = all.broadcast_text(run.init_hash);
  }
  run.unnamed = options.model.empty();
  open_checkpoint(
      options, begins, [&] { return resolve_reading(options.asked, sniffed, start); }, run);
  if (run.resumed) {
    run.reading =
        resolve_reading(options.asked, sniffed, start);  // perhaps with the device of the checkpoint
    const SavedRun& saved = run.resumed->about();
    if (saved.fitting) start.recipe = recipe_of(saved.chosen), start.epochs_done = saved.epochs;
  }
  const std::string& device = run.reading.draft.device;
  if (device != device::kAuto) run.engine = device::open(device::Choice::parse(device));
  RunOutputs outputs;
  all.only_first([&] { outputs = RunOutputs(options); });
  require_options(options, run.reading);
  std::optional<LoggedRun> logged;
  if (!options.replay.empty()) {
    logged = read_logged_run(options.replay);
    run.recording = logged->recording;
  }
  run.outputs = std::move(outputs);
  if (begins) {
    all.only_first([&] { run.outputs.claim(options, run.notes); });
    options.model = all.broadcast_text(options.model), options.log = all.broadcast_text(options.log);
    require_distinct(options, {});  // the names are known now
  }

  const auto begin = std::chrono::steady_clock::now();
  const std::size_t threads = run.reading.draft.thread_count();
  if (!options.read.memory) options.read.memory = std::make_shared<MemoryBudget>(options.memory_limit);
  options.read.max_features = options.preprocess.max_features;
  options.read.ngrams = options.preprocess.ngrams();
  options.preprocess.encoder =
      reads_words(run.reading.encoder()) ? run.reading.encoder() : EncoderKind::automatic;
  RawSets raw;
  together(all, [&] { raw = read_sets(options, threads, run.notes); });
  make_sets(std::move(raw), options, threads, run);
  run.asked = with_training(options, run.reading.to_json());
  run.asked["open"] = run.reading.open;
  if (aim == Aim::facts)
    run.reading.wanted = {.norms = true, .squares = true, .units = true, .cosines = true};
  decide(start, options, threads, run);
  const bool writes = begins && (options.logs() || !options.checkpoint.empty());
  if (writes || logged || run.resumed || !all.alone()) {
    run.data_hash = checksum_text(content_hash(run.data, threads));
    if (run.valid) run.valid_hash = checksum_text(content_hash(*run.valid, threads));
    if (run.test && (!options.checkpoint.empty() || !all.alone()))
      run.test_hash = checksum_text(content_hash(*run.test, threads));
  }
  all.require_same("data", {{"the checksum of the training rows", run.data_hash, options.train_path},
                            {"that of the validation rows", run.valid_hash, options.valid_path},
                            {"that of the test rows", run.test_hash, options.test_path}});
  if (logged) require_same_run(*logged, run);
  run.read_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();

  require_bags_in_float(run, options);
  if (run.recipe().on_gpu() && !run.engine)
    run.engine = device::open(device::Choice::parse(run.recipe().device));
  run.options = std::move(options);
  if (run.resumed) require_resumed_data(run);
  run.plan->memory.require();
  if (!begins) return run;
  all.only_first([&] {
    require_room_for_model(run);
    require_room_for_checkpoints(run);
  });
  return run;
}

}  // namespace truemax
