// truemax nearest
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/command.hpp"
#include "core/error.hpp"
#include "core/files.hpp"
#include "core/parallel.hpp"
#include "core/text.hpp"
#include "data/options.hpp"
#include "model/vectors.hpp"

namespace truemax {
namespace {

struct NearestCommand {
  std::string model_path;
  std::vector<std::string> words;
  VectorsOf of = VectorsOf::words;
  std::uint64_t top = 10, threads = 0, memory_limit = 0;
  bool json = false;
};

struct Query {
  std::optional<std::size_t> number;  // none: composed of n-grams
  std::vector<float> vector;
};

std::string unknown_name(const NearestCommand& command, const Model& model, const NamedVectors& vectors,
                         const std::string& name) {
  const bool classes = command.of == VectorsOf::classes, triples = model.space->of_triples();
  std::string text = fmt::format("{} is not {} of the model", in_quotes(name),
                                 classes                      ? "a class"
                                 : triples                    ? "an entity or a relation"
                                 : model.space->words.empty() ? "a feature"
                                                              : "a word");
  if (!classes && !triples && model.space->words.empty())
    return text + fmt::format("; it keeps no words: give a feature number from 0 to {}", vectors.size() - 1);
  const std::string near = vectors.nearest_spelling(name);
  return text + (near.empty()
                     ? fmt::format("; 'truemax inspect --json {}' lists them", shell_word(command.model_path))
                     : fmt::format("; did you mean {}?", in_quotes(near)));
}

Query query_of(const NearestCommand& command, const Model& model, const NamedVectors& vectors,
               const std::string& name) {
  Query query{vectors.find(name), std::vector<float>(vectors.columns())};
  if (query.number)
    vectors.copy(*query.number, query.vector);
  else if (vectors.compose(name, query.vector))
    print_notes({fmt::format("{} is not a word of the model; its vector is the sum of those of its n-grams",
                             in_quotes(name))});
  else
    throw UserError(unknown_name(command, model, vectors, name));
  if (std::all_of(query.vector.begin(), query.vector.end(), [](float x) { return x == 0; }))
    throw UserError(
        fmt::format("the vector of {} is zero and has no direction; give another name, or train "
                    "longer",
                    in_quotes(name)));
  return query;
}

int run_nearest(const NearestCommand& command) {
  const std::size_t threads = resolve_threads(command.threads);
  const Model model = load_learnt_model(
      command.model_path, command.memory_limit == 0 ? available_memory() : command.memory_limit, threads);
  const NamedVectors vectors(model, command.of);
  std::vector<Query> queries;
  for (const std::string& word : command.words) queries.push_back(query_of(command, model, vectors, word));
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (std::size_t q = 0; q < queries.size(); ++q) {
    nlohmann::ordered_json found = nlohmann::ordered_json::array();
    for (const Neighbour& n :
         nearest_vectors(vectors, queries[q].vector, queries[q].number, command.top, threads)) {
      if (command.json)
        found.push_back({{"name", vectors.name(n.number)}, {"cosine", n.cosine}});
      else
        say(stdout, "{}\t{}\t{:.6f}\n", printable(command.words[q]), printable(vectors.name(n.number)),
            n.cosine);
    }
    if (command.json) json.push_back({{"name", command.words[q]}, {"nearest", std::move(found)}});
  }
  if (command.json) print_json({{"queries", std::move(json)}});
  return kSuccess;
}

}  // namespace

Command nearest_command() {
  auto command = std::make_shared<NearestCommand>();
  Command self;
  self.name = "nearest";
  self.summary = "The words or classes whose learnt vectors are nearest";
  self.arguments = {{"MODEL", "Model file, trained with --hidden", &command->model_path},
                    {"WORD", "Words, or classes with --of classes: one or more", nullptr, &command->words}};
  self.table.group("Output");
  self.table.count("top", &command->top, {1, 4e9}, "Names to print for each word.");
  self.table.choice("of", &command->of, {{"words", VectorsOf::words}, {"classes", VectorsOf::classes}},
                    "Compare words (features by number from 0 where the data have no words), or classes.");
  describe_threads(self.table, &command->threads);
  describe_memory_limit(self.table, &command->memory_limit);
  describe_json(
      self.table, &command->json,
      "one object: of each word, the nearest names and their cosines. Without it: one line for each "
      "of them, word, name and cosine separated by tabs.");
  self.example =
      "  truemax generate text.txt --format fasttext --rows 2000\n"
      "  truemax train text.txt --hidden 16 --seconds 1 --model words.safetensors\n"
      "  truemax nearest words.safetensors w1 w2 --top 5\n"
      "  truemax nearest words.safetensors 0 --of classes";
  self.run = [command] { return run_nearest(*command); };
  return self;
}

}  // namespace truemax
