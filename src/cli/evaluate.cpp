// truemax evaluate
#include "evaluate/evaluate.hpp"

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.hpp"
#include "cli/progress.hpp"
#include "data/load.hpp"
#include "data/weight_files.hpp"
#include "evaluate/sampled.hpp"
#include "model/model.hpp"
#include "model/use.hpp"

namespace truemax {
namespace {

struct EvaluateCommand {
  UseOptions use;
  std::string class_weights;
  EvaluateOptions evaluation;
  std::uint64_t seed = 1;
  bool json = false;
};

int run_evaluate(const EvaluateCommand& command) {
  const UseOptions& use = command.use;
  command.evaluation.check();
  require_standard_input_once({use.data_path},
                              {use.read.row_weights, class_weight_file(command.class_weights)});
  const Model model = load_model(use.model_path, use.memory_there(), use.thread_count());
  const ReadOptions read = use.read_for(model);
  std::vector<double> class_weight = make_class_weights(command.class_weights, *model.classes, read.memory);
  std::vector<std::string> notes;
  RawRows rows = read_rows(use.data_path, read, use.max_rows, use.thread_count(), notes);
  const DataView data = model.rows_of(make_test_set(std::move(rows), model.preprocess, model.classes,
                                                    model.space, use.drops(), std::move(class_weight)));
  print_notes(notes);
  ProgressLine line;
  RowProgress progress;
  RowWatch watch;
  if (ProgressLine::wanted())
    watch = [&](std::size_t done) { progress.show(line, done, rows_to_evaluate(command.evaluation, data)); };
  const Metrics metrics =
      evaluate(command.evaluation, command.seed, model.weights, data, use.thread_count(), nullptr, watch)
          .value();
  line.clear();
  if (command.json)
    say(stdout, "{}\n", metrics.to_json().dump());
  else
    say(stdout, "{}", metrics.to_text());
  return kSuccess;
}

}  // namespace

Command evaluate_command() {
  auto command = std::make_shared<EvaluateCommand>();
  Command self;
  self.name = "evaluate";
  self.summary = "Log-loss, error and precision of a model on a data file, exact or estimated";
  self.arguments = {{"MODEL", "Model file", &command->use.model_path},
                    {"DATA", "Data file; '-' for standard input", &command->use.data_path}};
  command->use.describe(self.table);
  describe_row_weights(self.table, &command->use.read.row_weights);
  describe_class_weights(self.table, &command->class_weights);
  command->evaluation.describe(self.table);
  self.table.group("Validation and evaluation");
  self.table.count("seed", &command->seed, {},
                   "Random seed for the rows and classes that --eval sampled draws.");
  describe_json(self.table, &command->json, "one object.");
  self.example = "  truemax evaluate model.safetensors test.txt";
  self.run = [command] { return run_evaluate(*command); };
  return self;
}

}  // namespace truemax
