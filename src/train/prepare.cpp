// Prepares a run from its options: names, files, checks.
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
#include "rule/methods.hpp"
#include "train/automatic.hpp"
#include "train/device_choice.hpp"
#include "train/encoder.hpp"
#include "train/group_lane.hpp"
#include "train/problem.hpp"
#include "train/replay.hpp"
#include "train/resume.hpp"
#include "train/run.hpp"
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

void require_valid_options(const RunOptions& options) {
  const bool file = !options.valid_path.empty();
  if (!options.valid_label_file.empty() && !file)
    throw UserError("--valid-label-file: there is no --valid that these labels belong to; add --valid FILE");
  if (file && options.train.valid_share > 0)
    throw UserError(fmt::format(
        "--valid-share {:g}: the validation rows are those of --valid {}; leave one of the two out",
        options.train.valid_share, options.valid_path));
  require_end(options.train, file || options.train.valid_share > 0);
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
void require_options(const RunOptions& options) {
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
  require_valid_options(options);
  require_stream_options(options);
  if (options.read.format == Format::triples) {
    require_options_of_triples(options.preprocess);
    require_triples_shape(options.train);
  }
  if (!options.train.eval_train && options.test_path.empty() && options.test_split.empty() &&
      options.valid_path.empty() && (options.train.valid_share == 0 || options.train.automatic()))
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

RawSets read_sets(const RunOptions& options, std::vector<std::string>& notes) {
  const std::size_t threads = options.train.thread_count();
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

void fit_run_to_memory(const TrainSets& sets, RunOptions& options, PreparedRun& run) {
  std::string said = fit_to_memory(sets, options.train, options.memory_limit);
  if (!said.empty()) run.notes.push_back(std::move(said));
}

// Of the ranks of truemax-mpi, however many they are. The log and checkpoints have it from the start, so that
// whoever continues or repeats the run has the same groups.
void choose_group(RunOptions& options, PreparedRun& run) {
  if (!ranks().in_groups() || options.train.group > 0 || options.train.learnt()) return;
  if (!options.replay.empty())
    throw UserError(
        fmt::format("--replay {}: this run had no groups of rows, which the ranks of truemax-mpi take; "
                    "repeat it with truemax",
                    options.replay));
  options.train.group =
      GroupLane::rows_of_group(run.data, options.train, draw_for(run.data, options.train).get());
  run.asked["group"] = options.train.group;
}

// Fills run.data, run.test and run.valid; what only the training data can be refused for comes first.
void make_sets(RawSets&& raw, RunOptions& options, PreparedRun& run) {
  const std::uint64_t other_features = raw.other_features();
  if (raw.stream) {
    options.stream_window = stream_window(options.stream_window, *options.read.memory);
    // The memory of a machine must not decide the order of its rank's rows.
    options.stream_window =
        static_cast<std::uint64_t>(-ranks().max_of(-static_cast<double>(options.stream_window)));
    run.data = make_streamed_set(raw.stream, options.preprocess, other_features, options.class_weights,
                                 options.stream_window, options.read.memory, options.train.thread_count());
  } else {
    run.data =
        make_training_set(std::move(raw.train), options.preprocess, other_features, options.class_weights);
    raw.train = RawRows();  // the names of millions of classes
  }
  run.asked = options.to_json();
  run.automatic = options.train.automatic();
  decide_device(run.data, options.train);
  if (run.resumed && run.resumed->about().fitting)
    options.train = continued_options(run.resumed->about(), options.train, run.notes);
  else if (run.automatic)
    choose_shape(run.data, options.train);
  choose_group(options, run);
  if (run.start) {
    require_start(*run.start, run.data);
    run.start_match = require_match(*run.start, run.data);
  }
  fit_run_to_memory({run.data}, options, run);
  require_step_shape(options.train, run.data);
  if (save_memory({run.data}, options.train, options.memory_limit)) run.notes.emplace_back(kSavedMemory);
  plan_memory({run.data}, options.train, options.memory_limit).require();
  const auto prepared = [&](RawRows&& rows) {
    return make_test_set(std::move(rows), options.preprocess, run.data.classes, run.data.space, false,
                         {run.data.class_weights().begin(), run.data.class_weights().end()});
  };
  const auto ranking = ranking_of(run.data, raw, options);
  if (raw.test) run.test = prepared(std::move(*raw.test));
  if (run.test) run.test->ranking = ranking;
  if (raw.valid) run.valid = prepared(std::move(*raw.valid));
  set_validation_aside(run.data, run.valid, options.train);
  require_step_shape(options.train, run.data);
}

void require_bags_in_float(const PreparedRun& run, const RunOptions& options) {
  if (!options.train.learnt()) return;
  if (run.valid)
    require_bags_in_float(
        *run.valid, options.valid_path.empty() ? "the validation rows" : "--valid " + options.valid_path);
  if (run.test)
    require_bags_in_float(*run.test,
                          options.test_path.empty() ? "the test rows" : "--test " + options.test_path);
}

void require_cpu(RunOptions& options) {
  if (!ranks().in_groups()) return;
  if (device::Choice::parse(options.train.device).kind == device::Kind::cuda)
    throw UserError("--device: the ranks of truemax-mpi train on their CPUs; leave it out");
  options.train.device = device::kCpu;
}

void note_classes_per_step(PreparedRun& run, const TrainOptions& options) {
  const std::uint64_t others = run.data.classes->size() - (options.rows_per_step == 1 ? 1 : 0);
  if (options.classes_per_step <= others || options.draw != "uniform" ||
      find_method(options.method).whole_set)
    return;
  run.notes.push_back(
      fmt::format("--classes-per-step {}: there are {} to draw from, and every step takes them all",
                  options.classes_per_step, others));
}

// Steps that suit short rows are too long for an intercept, and learnt features begin with numbers that suit
// rows of length 1. Newton's method and steps by weight have units of their own.
void note_short_rows(PreparedRun& run, const TrainOptions& options, Normalize normalize) {
  const bool has_values = !reads_words(run.data.space->encoder) && !run.data.space->of_triples();
  if (!run.automatic || !has_values || normalize != Normalize::none) return;
  if (!options.intercept && !options.learnt() && !options.open.encoder) return;
  if ((options.newton > 0 && options.epochs == 0) || find_method(options.method).by_weight) return;
  const double norm = mean_squared_norm(run.data);
  if (norm >= kShortRows || norm <= kLeastNorm) return;  // l2 leaves empty rows as they are
  run.notes.push_back(
      fmt::format("rows are short: the mean of |x|^2 is {:.2g}, and training suits rows of about 1; "
                  "'--normalize l2' usually gives a lower log-loss",
                  norm));
}

void require_room_for_model(const PreparedRun& run) {
  if (!run.options.saves()) return;
  remove_stale_temporaries(run.options.model);  // their disk space may be needed
  const TrainOptions& train = run.options.train;
  const auto bytes = [&](std::uint64_t hidden) {
    return model_bytes(run.data.classes->size(), run.data.space->features, train.intercept, hidden);
  };
  std::uint64_t largest = bytes(train.hidden);
  if (train.open.hidden) largest = std::max<std::uint64_t>(largest, bytes(train.open.most_hidden));
  require_writable(run.options.model, largest, "model");
}

}  // namespace

PreparedRun prepare_run(RunOptions options) {
  Ranks& all = ranks();
  require_cpu(options);
  options.train.check();
  options.preprocess.check();
  require_checkpoint_options(options);
  PreparedRun run;
  run.watch = Stopwatch(shared_clock());
  run.start = options.start;
  if (!options.init.empty()) {
    const std::string index = index_of_set(options.init);  // which has the checksums of the parts
    all.only_first(
        [&] { run.init_hash = checksum_text(file_checksum(index.empty() ? options.init : index)); });
    run.init_hash = all.broadcast_text(run.init_hash);
  }
  run.unnamed = options.model.empty();
  open_checkpoint(options, run);
  const bool automatic_device = options.train.device == device::kAuto;
  if (!automatic_device) run.engine = device::open(device::Choice::parse(options.train.device));
  RunOutputs outputs;
  all.only_first([&] { outputs = RunOutputs(options); });
  require_options(options);
  std::optional<LoggedRun> logged;
  if (!options.replay.empty()) {
    logged = read_logged_run(options.replay);
    run.recording = logged->recording;
  }
  run.outputs = std::move(outputs);
  all.only_first([&] { run.outputs.claim(options, run.notes); });
  options.model = all.broadcast_text(options.model), options.log = all.broadcast_text(options.log);
  require_distinct(options, {});  // the names are known now

  const auto start = std::chrono::steady_clock::now();
  if (!options.read.memory) options.read.memory = std::make_shared<MemoryBudget>(options.memory_limit);
  options.read.max_features = options.preprocess.max_features;
  options.read.ngrams = options.preprocess.ngrams();
  options.preprocess.encoder =
      reads_words(options.train.encoder) ? options.train.encoder : EncoderKind::automatic;
  RawSets raw;
  together(all, [&] { raw = read_sets(options, run.notes); });
  make_sets(std::move(raw), options, run);
  if (options.logs() || logged || !options.checkpoint.empty() || !all.alone()) {
    const std::size_t threads = options.train.thread_count();
    run.data_hash = checksum_text(content_hash(run.data, threads));
    if (run.valid) run.valid_hash = checksum_text(content_hash(*run.valid, threads));
    if (run.test && (!options.checkpoint.empty() || !all.alone()))
      run.test_hash = checksum_text(content_hash(*run.test, threads));
  }
  all.require_same("data", {{"the checksum of the training rows", run.data_hash, options.train_path},
                            {"that of the validation rows", run.valid_hash, options.valid_path},
                            {"that of the test rows", run.test_hash, options.test_path}});
  if (logged) require_same_data(*logged, run);
  run.read_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

  require_bags_in_float(run, options);
  note_classes_per_step(run, options.train);
  note_short_rows(run, options.train, options.preprocess.normalize);
  fit_run_to_memory(run.sets(), options, run);  // the other sets have taken memory too
  require_device(run.data, options.train);
  require_groups(run.data, options.train);
  if (std::string said = warn_of_groups(run.data, options.train); !said.empty())
    run.notes.push_back(std::move(said));
  if (automatic_device) run.engine = device::open(device::Choice::parse(options.train.device));
  if (run.engine && automatic_device)
    run.notes.push_back(fmt::format("training on {}, which is faster here; --device cpu trains on the CPU",
                                    run.engine->card().name));
  run.options = std::move(options);
  if (run.resumed) require_resumed_data(run);
  run.memory = plan_memory(run.sets(), run.options.train, run.options.memory_limit);
  run.memory.require();
  all.only_first([&] {
    require_room_for_model(run);
    require_room_for_checkpoints(run);
  });
  return run;
}

}  // namespace truemax
