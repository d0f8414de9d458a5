// truemax generate
#include "data/generate.hpp"

#include <memory>
#include <optional>

#include "cli/command.hpp"
#include "core/error.hpp"
#include "core/files.hpp"
#include "core/parallel.hpp"

namespace truemax {
namespace {

struct GenerateCommand {
  GenerateOptions generate;
  std::string path, test_path;
};

int run_generate(const GenerateCommand& command) {
  const std::string& path = command.path;
  const std::string& test_path = command.test_path;
  if (test_path.empty() != (command.generate.test_rows == 0))
    throw UserError("--test and --test-rows go together; give both, as in: --test test.txt --test-rows 1000");
  if (!test_path.empty() &&
      (path == test_path || (path != "-" && test_path != "-" && same_file(path, test_path))))
    throw UserError(fmt::format("--test {}: the training rows go there; give another name", test_path));
  if (!test_path.empty() && test_path != "-" && !is_stream(test_path)) require_writable(test_path, 0, "test");
  // Where the rows go to standard output, nothing else may.
  std::FILE* const words = path == "-" || test_path == "-" ? stderr : stdout;
  for (const Part part : {Part::train, Part::test}) {
    const std::string& to = part == Part::train ? path : test_path;
    if (to.empty()) continue;
    std::optional<StopOnSignal> signals;
    const GenerateSummary s = generate_file(command.generate, part, available_threads(), to, [&] {
      signals.emplace();
      return &StopOnSignal::flag();
    });
    if (s.stopped) {
      say(stderr, "truemax: stopped; {} was not written\n", to);
      return StopOnSignal::exit_code();
    }
    say(words, "{}: {} rows, {} classes, {} non-zeros, {} bytes\n", to, s.rows, s.classes, s.nonzeros,
        s.bytes);
  }
  return kSuccess;
}

}  // namespace

OptionTable add_generate(CLI::App& program, int& exit_code) {
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
  return table;
}

}  // namespace truemax
