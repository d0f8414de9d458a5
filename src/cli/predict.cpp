// truemax predict
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.hpp"
#include "core/text.hpp"
#include "model/use.hpp"

namespace truemax {
namespace {

struct PredictCommand {
  UseOptions use;
  std::uint64_t top = 1;
  bool json = false;
};

void print_row_text(const Model& model, const Predictions& p, std::size_t row, fmt::memory_buffer& out) {
  for (std::size_t i = 0; i < p.top; ++i)
    fmt::format_to(std::back_inserter(out), "{}{}\t{:.9g}", i == 0 ? "" : "\t",
                   printable(model.classes->name(p.classes[row * p.top + i])),
                   p.probability[row * p.top + i]);
  out.push_back('\n');
}

void print_row_json(const Model& model, const Predictions& p, std::size_t row, std::uint64_t number,
                    fmt::memory_buffer& out) {
  nlohmann::ordered_json line{
      {"row", number}, {"classes", nlohmann::json::array()}, {"probabilities", nlohmann::json::array()}};
  for (std::size_t i = 0; i < p.top; ++i) {
    line["classes"].push_back(model.classes->name(p.classes[row * p.top + i]));
    line["probabilities"].push_back(p.probability[row * p.top + i]);
  }
  fmt::format_to(std::back_inserter(out), "{}\n", line.dump());
}

int run_predict(const PredictCommand& command) {
  const UseOptions& use = command.use;
  const Model model = load_model(use.model_path, use.memory_there(), use.thread_count());
  std::uint64_t done = 0;
  const auto print = [&](const Predictions& predictions, std::size_t rows) {
    fmt::memory_buffer out;
    for (std::size_t r = 0; r < rows; ++r) {
      ++done;
      if (command.json)
        print_row_json(model, predictions, r, done, out);
      else
        print_row_text(model, predictions, r, out);
    }
    std::fwrite(out.data(), 1, out.size(), stdout);
    std::fflush(stdout);
  };
  print_notes(predict_stream(model, use.data_path, use, command.top, print));
  return kSuccess;
}

}  // namespace

Command predict_command() {
  auto command = std::make_shared<PredictCommand>();
  Command self;
  self.name = "predict";
  self.summary = "The most probable classes of each row, with probabilities";
  self.arguments = {
      {"MODEL", "Model file", &command->use.model_path},
      {"DATA", "Rows, with or without labels; '-' for standard input", &command->use.data_path}};
  self.table.group("Output");
  self.table.count("top", &command->top, {1, 4e9}, "Classes to print for each row.");
  command->use.describe(self.table);
  describe_json(
      self.table, &command->json,
      "one object per row: row (from 1), classes, probabilities. Without it: one line per row, class and "
      "probability separated by tabs.");
  self.example =
      "  truemax predict model.safetensors test.txt --top 5\n"
      "  truemax predict model.safetensors - --top 5 --json < test.txt";
  self.over_ranks = OverRanks::all;
  self.run = [command] { return run_predict(*command); };
  return self;
}

}  // namespace truemax
