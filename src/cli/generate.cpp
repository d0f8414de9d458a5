// truemax generate
#include "data/generate.hpp"

#include <memory>
#include <nlohmann/json.hpp>
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
  bool json = false;
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
  if (command.json && (path == "-" || test_path == "-"))
    throw UserError("--json: the rows go to standard output; name a file for them, or leave --json out");
  nlohmann::ordered_json written = nlohmann::ordered_json::array();
  // Rows on standard output must not be mixed with messages.
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
    if (command.json)
      written.push_back({{"path", to},
                         {"rows", s.rows},
                         {"classes", s.classes},
                         {"nonzeros", s.nonzeros},
                         {"bytes", s.bytes}});
    else
      say(words, "{}: {} rows, {} classes, {} non-zeros, {} bytes\n", to, s.rows, s.classes, s.nonzeros,
          s.bytes);
  }
  if (command.json) print_json({{"files", written}});
  return kSuccess;
}

}  // namespace

Command generate_command() {
  auto command = std::make_shared<GenerateCommand>();
  Command self;
  self.name = "generate";
  self.summary = "Write a made-up data set with many classes";
  self.arguments = {{"OUT", "File for the training rows; '-' for standard output", &command->path}};
  command->generate.describe(self.table);
  self.table.text("test", "FILE", &command->test_path, "File for the test rows.");
  describe_json(self.table, &command->json, "one object that says what was written.");
  self.example = "  truemax generate train.txt --rows 50000 --classes 1000 --test test.txt --test-rows 5000";
  self.run = [command] { return run_generate(*command); };
  return self;
}

}  // namespace truemax
