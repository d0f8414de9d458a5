// Prepares a run from its options: names, files, checks.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "core/checksum.hpp"
#include "core/files.hpp"
#include "data/content_hash.hpp"
#include "data/input.hpp"
#include "data/load.hpp"
#include "data/weight_files.hpp"
#include "rule/methods.hpp"
#include "train/automatic.hpp"
#include "train/replay.hpp"
#include "train/run.hpp"

namespace truemax {
namespace {

// Outputs must differ from inputs and from each other: the run would destroy what it reads.
void require_distinct(const RunOptions& o, const std::vector<std::string>& inputs) {
  const std::vector<std::pair<const char*, std::string>> outputs{{"model", o.saves() ? o.model : ""},
                                                                 {"log", o.logs() ? o.log : ""}};
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
  require_validation(options.train, file || options.train.valid_share > 0);
}

}  // namespace

PreparedRun prepare_run(RunOptions options) {
  options.train.check();
  options.preprocess.check();
  RunOutputs outputs(options);
  require_distinct(
      options, {options.train_path, options.test_path, options.read.label_file, options.test_label_file,
                options.read.split, options.test_split, options.read.row_weights, options.test_row_weights,
                options.valid_path, options.valid_label_file, options.replay,
                class_weight_file(options.class_weights)});
  if ((options.train_path == kStandardInput) + (options.test_path == kStandardInput) +
          (options.valid_path == kStandardInput) >
      1)
    throw UserError(
        "standard input can be read once only; name files for all but one of the training data, --test and "
        "--valid");
  require_valid_options(options);
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

  PreparedRun run;
  std::optional<LoggedRun> logged;
  if (!options.replay.empty()) {
    logged = read_logged_run(options.replay);
    run.recording = logged->recording;
  }
  run.outputs = std::move(outputs);
  run.outputs.claim(options, run.notes);
  const auto start = std::chrono::steady_clock::now();
  const std::size_t threads = options.train.thread_count();
  if (!options.read.memory) options.read.memory = std::make_shared<MemoryBudget>(options.memory_limit);
  options.read.max_features = options.preprocess.max_features;
  RawRows train_rows = read_rows(options.train_path, options.read, options.max_rows, threads, run.notes);
  std::optional<RawRows> test_rows, valid_rows;
  if (!options.test_path.empty() || !options.test_split.empty())
    test_rows = read_rows(options.test_path.empty() ? options.train_path : options.test_path,
                          test_reading(options, train_rows.format), options.max_rows, threads, run.notes);
  if (!options.valid_path.empty())
    valid_rows = read_rows(options.valid_path, valid_reading(options, train_rows.format), options.max_rows,
                           threads, run.notes);
  // The files actually read, including label files that were found automatically.
  require_distinct(options, train_rows.files);
  std::uint64_t other_features = 0;
  for (const auto* rows : {&test_rows, &valid_rows}) {
    if (!*rows) continue;
    require_distinct(options, (*rows)->files);
    other_features = std::max(other_features, (*rows)->features);
  }
  run.data =
      make_training_set(std::move(train_rows), options.preprocess, other_features, options.class_weights);
  run.asked = options.to_json();
  run.automatic = options.train.automatic();
  if (run.automatic) choose_shape(run.data, options.train);
  // First what depends only on the training data, before time is spent on data that cannot be trained on.
  require_step_shape(options.train, run.data);
  plan_memory({run.data}, options.train, options.memory_limit).require();
  const auto prepared = [&](RawRows&& rows) {
    return make_test_set(std::move(rows), options.preprocess, run.data.classes, run.data.space, false,
                         {run.data.class_weights().begin(), run.data.class_weights().end()});
  };
  if (test_rows) run.test = prepared(std::move(*test_rows));
  if (valid_rows) run.valid = prepared(std::move(*valid_rows));
  set_validation_aside(run.data, run.valid, options.train);
  if (options.logs() || logged) {
    run.data_hash = checksum_text(content_hash(run.data, threads));
    if (run.valid) run.valid_hash = checksum_text(content_hash(*run.valid, threads));
  }
  if (logged) require_same_data(*logged, run);
  run.read_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

  require_step_shape(options.train, run.data);
  const std::uint64_t others = run.data.classes->size() - (options.train.rows_per_step == 1 ? 1 : 0);
  if (options.train.classes_per_step > others && options.train.draw == "uniform" &&
      !find_method(options.train.method).whole_set)
    run.notes.push_back(
        fmt::format("--classes-per-step {}: there are {} to draw from, and every step takes them all",
                    options.train.classes_per_step, others));
  run.options = std::move(options);
  run.memory = plan_memory(run.sets(), run.options.train, run.options.memory_limit);
  run.memory.require();
  if (run.options.saves()) remove_stale_temporaries(run.options.model);  // their disk space may be needed
  if (run.options.saves())
    require_writable(
        run.options.model,
        model_bytes(run.data.classes->size(), run.data.space->features, run.options.train.intercept),
        "model");
  return run;
}

}  // namespace truemax
