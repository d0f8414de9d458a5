#include "train/run_options.hpp"

#include "data/weight_files.hpp"

namespace truemax {

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
  table.text("valid", "FILE", &valid_path,
             "Data to validate on, in the same format as the training data: evaluated along with them, and "
             "watched by --patience.",
             {.brief = true});
  table.text("valid-label-file", "FILE", &valid_label_file, "The labels of --valid, for idx and npy data.");
  describe_class_weights(table, &class_weights);
  preprocess.describe(table);
  describe_max_rows(table, &max_rows);
  table.toggle(
      "stream", &stream,
      "Read the training rows from the file while training, for data larger than memory. The file is "
      "a cache that 'truemax convert' wrote. Rows are shuffled within windows of shuffled blocks.");
  table.size_alias(
      "stream-window", &stream_window, "auto",
      "Memory of a window of --stream; two are held. A larger one shuffles better. auto: 64M, or "
      "an eighth of the free memory if that is less.");
  asked.describe(table);
  table.group("Output");
  table.text(
      "model", "FILE", &model,
      "Where the model goes; 'none': nowhere. Without it: model.safetensors, or model-2 and so on if that "
      "exists or another run is about to write it.",
      {.brief = true, .output = true, .replay = Replay::free, .elsewhere = {"output", "out"}});
  table.toggle("split-model", &split_model,
               "Save the model as a set of files beside each other, one written by each rank of truemax-mpi, "
               "and an index, MODEL.index.json: for models larger than a file should be. Whatever reads a "
               "model reads both forms.",
               {.replay = Replay::free});
  table.text("log", "FILE", &log,
             "Where the run log (JSON lines) goes; 'none': nowhere. Without it: beside the model, ending in "
             ".jsonl. While the run goes on it is FILE.part.",
             {.output = true, .replay = Replay::free});
  describe_memory_limit(table, &memory_limit);
  table.group("Checkpoints");
  table.text(
      "checkpoint", "FILE", &checkpoint,
      "Save the whole run here along the way, so that --resume can go on from it after a crash, a kill "
      "or Ctrl-C. The file always holds the newest good checkpoint.",
      {.brief = true, .output = true, .replay = Replay::free});
  table.text(
      "checkpoint-every", "TIME", &checkpoint_every,
      "How often: a number with its unit, such as 1epochs, 30s, 10min or 2h. Trials of a search are saved "
      "as they end.",
      {.replay = Replay::free, .elsewhere = {"save-every"}});
  table.toggle(
      "resume", &resume,
      "Go on from the file of --checkpoint to the same bits as a run that was never stopped; without "
      "such a file, start afresh. Give the same data and options; --epochs, --model, --log, --threads, "
      "--device, --checkpoint-every and --memory-limit may differ. A run on a GPU goes on, but not to the "
      "same bits.",
      {.brief = true, .replay = Replay::free, .elsewhere = {"continue", "restart"}});
  table.text(
      "init", "FILE", &init,
      "Start from this model instead of from zero. Classes and features that it lacks start as they do "
      "without it; those that the data lack are dropped.",
      {.elsewhere = {"warm-start-from", "pretrained", "start-from", "load"}});
  table.group("Training");
  table.text(
      "replay", "FILE", &replay,
      "Repeat the run of this log, bit for bit and without a clock. The log sets all options; only those "
      "of outputs and of --test, --threads and --memory-limit can be added. A run on a GPU cannot be "
      "repeated.",
      {.replay = Replay::free});
}

nlohmann::ordered_json RunOptions::to_json() {
  OptionTable table;
  describe(table);
  nlohmann::ordered_json json{{"train", train_path}};
  json.update(table.to_json());
  return json;
}

nlohmann::ordered_json with_training(const RunOptions& options, const nlohmann::ordered_json& training) {
  RunOptions copy = options;
  nlohmann::ordered_json json{{"train", options.train_path}};
  OptionTable table;
  copy.describe(table);
  for (const Option& option : table.options())
    json[option.name] =
        training.contains(option.name) ? training[option.name] : nlohmann::ordered_json(option.to_json());
  return json;
}

}  // namespace truemax
