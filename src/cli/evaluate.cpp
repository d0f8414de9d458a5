// truemax evaluate
#include "evaluate/evaluate.hpp"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.hpp"
#include "cli/progress.hpp"
#include "core/checksum.hpp"
#include "core/row_encoder.hpp"
#include "data/content_hash.hpp"
#include "data/load.hpp"
#include "data/triples.hpp"
#include "data/weight_files.hpp"
#include "evaluate/ranking.hpp"
#include "evaluate/sampled.hpp"
#include "model/model.hpp"
#include "model/use.hpp"
#include "ranks/together.hpp"
#include "weights/on_device.hpp"

namespace truemax {
namespace {

struct EvaluateCommand {
  UseOptions use;
  std::string class_weights;
  EvaluateOptions evaluation;
  std::uint64_t seed = 1;
  std::vector<std::string> filters;  // files of known triples
  bool json = false;
};

// What the triples of `rows` are ranked among, and what is known besides them; null if they are no triples.
std::shared_ptr<const RankingTask> ranking_of(const EvaluateCommand& command, const Model& model,
                                              const ReadOptions& read, const RawRows& rows,
                                              std::vector<std::string>& notes) {
  if (!model.space->of_triples()) {
    if (!command.filters.empty())
      throw UserError("--filter: the model was not trained on triples; leave it out");
    return nullptr;
  }
  if (rows.format != Format::triples) return nullptr;  // refused later, with file and reason
  if (command.evaluation.kind == EvalKind::sampled) {
    notes.emplace_back("--eval sampled: ranks need all entities and are left out");
    return nullptr;
  }
  RankingBuilder builder(model.classes, *model.space, read.memory);
  builder.add_test(rows);
  ReadOptions how = read;
  how.row_weights.clear();
  how.split.clear();
  for (const std::string& file : command.filters)
    builder.add_known(read_rows(file, how, 0, command.use.thread_count(), notes));
  return builder.finish();
}

int run_evaluate(const EvaluateCommand& command) {
  const UseOptions& use = command.use;
  require_possible(command.evaluation);
  std::vector<std::string> files = command.filters;
  files.push_back(use.data_path);
  if (std::count(files.begin(), files.end(), "-") > 1)
    throw UserError(
        "standard input can be read only once; name files for all but one of the data and --filter");
  require_standard_input_once(files, {use.read.row_weights, class_weight_file(command.class_weights)});
  const device::Choice choice = use.device_choice();
  const bool possible = takes_all_classes(command.evaluation);
  if (choice.kind == device::Kind::cuda && !possible)
    throw UserError("--eval-classes: a GPU takes all classes; leave it out, or use --device cpu");
  const auto engine = possible ? device::open(choice) : nullptr;
  const Model model = load_model(use.model_path, use.memory_there(), use.thread_count());
  const ReadOptions read = use.read_for(model);
  std::vector<std::string> notes;
  std::shared_ptr<const RankingTask> ranking;
  DataView data;
  std::string hash;
  together(ranks(), [&] {
    std::vector<double> class_weight = make_class_weights(command.class_weights, *model.classes, read.memory);
    RawRows rows = read_rows(use.data_path, read, use.max_rows, use.thread_count(), notes);
    ranking = ranking_of(command, model, read, rows, notes);
    data = make_test_set(std::move(rows), model.preprocess, model.classes, model.space, use.drops(),
                         std::move(class_weight));
    if (!ranks().alone()) hash = checksum_text(content_hash(data, use.thread_count()));
  });
  ranks().require_same("data", {{"the checksum of the rows", hash, use.data_path}});
  data = model.rows_of(data);
  if (const std::uint64_t unknown = data.statistics.unk_words; 2 * unknown > data.row_count())
    notes.push_back(fmt::format(
        "{} of {} words are unknown to the model and were scored as <unk>; is {} a text like the one it was "
        "trained on?",
        unknown, data.row_count(), use.data_path));
  print_notes(notes);
  ProgressLine line;
  RowProgress progress;
  RowWatch watch;
  if (ProgressLine::wanted())
    watch = [&](std::size_t done) { progress.show(line, done, rows_to_evaluate(command.evaluation, data)); };
  if (engine != nullptr) engine->set_weights(host_weights(model.weights), false);
  Metrics metrics;
  try {
    metrics = (engine != nullptr ? evaluate(command.evaluation, command.seed, *engine, data,
                                            use.thread_count(), nullptr, watch)
                                 : evaluate(command.evaluation, command.seed, model.weights, data,
                                            use.thread_count(), nullptr, watch))
                  .value();
  } catch (const RowBeyondFloat& error) {
    throw UserError(fmt::format("{}: {}", use.data_path, error.what()));
  }
  if (ranking) metrics.ranking = rank_triples(model.encoder.features, *ranking, use.thread_count());
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
  self.table.list("filter", "FILE", &command->filters,
                  "Triples: a file of further true triples, such as the training data; of the entities that "
                  "answer a question they do not count for the rank of another. May be given more than once.",
                  {.brief = true});
  self.table.count("seed", &command->seed, {},
                   "Random seed for the rows and classes that --eval sampled draws.");
  describe_json(self.table, &command->json, "one object.");
  self.example = "  truemax evaluate model.safetensors test.txt";
  self.over_ranks = OverRanks::all;
  self.run = [command] { return run_evaluate(*command); };
  return self;
}

}  // namespace truemax
