// truemax predict
#include <algorithm>
#include <filesystem>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.hpp"
#include "core/behind.hpp"
#include "core/error.hpp"
#include "core/parallel.hpp"
#include "core/text.hpp"
#include "index/predict.hpp"
#include "model/use.hpp"

namespace truemax {
namespace {

struct PredictCommand {
  UseOptions use;
  std::uint64_t top = 1;
  std::string index;
  IndexUse with_index;
  bool json = false;
  std::vector<std::string> given;
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
  if (!p.error.empty()) line["error"] = p.error[row];
  fmt::format_to(std::back_inserter(out), "{}\n", line.dump());
}

class Printer {
 public:
  Printer(const PredictCommand& command, const Model& model) : command_(command), model_(model) {}

  // Text is made and written while the caller goes on with the next rows; an error is thrown by the next call
  // or by `finish`. One thread does both.
  void print_behind(Predictions predictions, std::size_t rows) {
    finish();
    const auto work = [this, rows, all = std::make_shared<const Predictions>(std::move(predictions))] {
      print(*all, rows);
    };
    if (command_.use.thread_count() > 1) behind_ = start_behind(work);
    if (!behind_.valid()) work();
  }
  void finish() {
    if (behind_.valid()) behind_.get();
  }

 private:
  void print(const Predictions& predictions, std::size_t rows) {
    // Text is made by all threads, a chunk of rows each.
    constexpr std::size_t kRows = 512;
    std::vector<fmt::memory_buffer> out((rows + kRows - 1) / kRows);
    parallel_for(out.size(), command_.use.thread_count(), [&](std::size_t chunk) {
      for (std::size_t r = chunk * kRows; r < std::min(rows, (chunk + 1) * kRows); ++r) {
        if (command_.json)
          print_row_json(model_, predictions, r, done_ + r + 1, out[chunk]);
        else
          print_row_text(model_, predictions, r, out[chunk]);
      }
    });
    done_ += rows;
    bool whole = true;
    for (const fmt::memory_buffer& text : out)
      whole = whole && std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
    if (!whole || std::fflush(stdout) != 0) throw UserError(kOutputFailed);
  }

  const PredictCommand& command_;
  const Model& model_;
  std::uint64_t done_ = 0;
  std::future<void> behind_;  // the last member: it waits before the others go
};

int predict_by_index(const PredictCommand& command) {
  const UseOptions& use = command.use;
  if (!ranks().alone())
    throw UserError("--index is for one process; start it without mpirun: truemax predict");
  if (use.device_choice().kind == device::Kind::cuda)
    throw UserError(fmt::format("--device {}: an index is searched on the CPU; leave out --device or --index",
                                use.device));
  const ModelOnDisk opened = open_model(use.model_path, use.memory_there(), use.thread_count());
  const auto vectors = vectors_on_disk(*opened.weights);
  std::error_code unknown;  // then reading says why
  const std::uintmax_t bytes = std::filesystem::file_size(command.index, unknown);
  if (!unknown && bytes > use.memory_there())
    throw UserError(
        fmt::format("{}: not enough memory: the index needs {}, {} available; use a larger machine, or raise "
                    "--memory-limit to try anyway",
                    command.index, size_text(bytes), size_text(use.memory_there())));
  const ClassIndex index =
      load_index(command.index, vectors->mark(use.thread_count()), shell_word(use.model_path));
  IndexPredictor predictor(opened.model, *vectors, index, command.top, use.thread_count(),
                           command.with_index);
  Printer printer(command, opened.model);
  constexpr std::size_t kMostRows = 16384;
  print_notes(each_batch(opened.model, use.data_path, use, rows_of_batch(kMostRows, command.top),
                         [&](CsrView rows) { printer.print_behind(predictor.predict(rows), rows.rows()); }));
  printer.finish();
  predictor.measure();
  print_notes(predictor.notes(command.index));
  return kSuccess;
}

int run_predict(const PredictCommand& command) {
  const UseOptions& use = command.use;
  if (!command.index.empty()) return predict_by_index(command);
  for (const char* name : {"recall", "normaliser"})
    if (std::find(command.given.begin(), command.given.end(), name) != command.given.end())
      throw UserError(
          fmt::format("--{}: this is for --index; search without one is exact, leave it out", name));
  const Model model = load_model(use.model_path, use.memory_there(), use.thread_count());
  Printer printer(command, model);
  print_notes(predict_stream(model, use.data_path, use, command.top, [&](Predictions p, std::size_t rows) {
    printer.print_behind(std::move(p), rows);
  }));
  printer.finish();
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
  self.table.group("Index");
  self.table.text("index", "FILE", &command->index,
                  "Search with this index, which 'truemax index' makes, instead of scoring all classes. Its "
                  "recall is measured on some of the rows and printed.");
  command->with_index.describe(self.table);
  command->use.describe(self.table);
  describe_json(
      self.table, &command->json,
      "one object per row: row (from 1), classes, probabilities. Without it: one line per row, class and "
      "probability separated by tabs. With --index also error: half of the 95% interval of their logarithm.");
  self.example =
      "  truemax predict model.safetensors test.txt --top 5\n"
      "  truemax predict model.safetensors - --top 5 --json < test.txt";
  self.over_ranks = OverRanks::all;
  self.given = &command->given;
  self.run = [command] { return run_predict(*command); };
  return self;
}

}  // namespace truemax
