// truemax generate
#include "data/generate.hpp"

#include <fmt/format.h>

#include <memory>

#include "cli/command.hpp"
#include "core/error.hpp"
#include "core/parallel.hpp"

namespace truemax {
namespace {

struct GenerateCommand {
  GenerateOptions generate;
  std::string path, test_path;
};

void print_summary(const std::string& path, const GenerateSummary& s) {
  fmt::print(path == "-" ? stderr : stdout, "{}: {} rows, {} classes, {} non-zeros, {} bytes\n", path, s.rows,
             s.classes, s.nonzeros, s.bytes);
}

int run_generate(const GenerateCommand& command) {
  if (command.test_path.empty() != (command.generate.test_rows == 0))
    throw UserError("--test and --test-rows go together; give both, as in: --test test.txt --test-rows 1000");
  if (command.path == command.test_path)
    throw UserError(
        fmt::format("--test {}: the training rows go there; give another name", command.test_path));
  const std::size_t threads = available_threads();
  print_summary(command.path, generate_file(command.generate, Part::train, threads, command.path));
  if (!command.test_path.empty())
    print_summary(command.test_path, generate_file(command.generate, Part::test, threads, command.test_path));
  return kSuccess;
}

}  // namespace

void add_generate(CLI::App& program, int& exit_code) {
  CLI::App* app = program.add_subcommand("generate", "Write a made-up data set with many classes");
  auto command = std::make_shared<GenerateCommand>();
  app->add_option("OUT", command->path, "File for the training rows; '-' for standard output")->required();
  OptionTable table;
  command->generate.describe(table);
  table.text("test", "FILE", &command->test_path, "File for the test rows.");
  bind_options(*app, table);
  app->footer(
      "Example:\n  truemax generate train.txt --rows 50000 --classes 1000 --test test.txt --test-rows 5000");
  app->callback([command, &exit_code] { exit_code = run_generate(*command); });
}

}  // namespace truemax
