// truemax report
#include <filesystem>
#include <memory>
#include <optional>

#include "cli/command.hpp"
#include "core/error.hpp"
#include "core/files.hpp"
#include "report/page.hpp"
#include "report/run_page.hpp"

namespace truemax {
namespace {

struct ReportCommand {
  std::vector<std::string> logs;
  std::string out;
  bool json = false;
};

// report.html, or the first of report-2.html, report-3.html, ... that neither exists nor is claimed by
// another live process. Never overwrites a file.
Claim free_name(std::string& name) {
  std::error_code error;
  for (int i = 1;; ++i) {
    name = i == 1 ? "report.html" : fmt::format("report-{}.html", i);
    if (std::filesystem::exists(name, error)) continue;
    std::optional<Claim> claim = Claim::take(name);
    if (claim && !std::filesystem::exists(name, error)) return std::move(*claim);
  }
}

int run_report(ReportCommand& command) {
  const DropClaimsOnSignal claims;
  Claim claim;
  if (command.out.empty()) {
    require_writable("report.html", 0, "out");
    claim = free_name(command.out);
  }
  for (const std::string& log : command.logs)
    if (same_file(log, command.out))
      throw UserError(fmt::format("--out {}: this is one of the logs; give another name", command.out));
  require_writable(command.out, 0, "out");
  std::vector<ReportedRun> runs;
  for (const std::string& log : command.logs) runs.push_back(read_reported_run(log));
  write_file(command.out, page_html(run_page(runs)), "out");
  if (command.json)
    print_json({{"page", command.out}, {"runs", runs.size()}});
  else
    say(stdout, "{}: {} {}\n", command.out, runs.size(), runs.size() == 1 ? "run" : "runs");
  return kSuccess;
}

}  // namespace

Command report_command() {
  auto command = std::make_shared<ReportCommand>();
  Command self;
  self.name = "report";
  self.summary = "Make a page of tables and curves from run logs";
  self.arguments = {{"RUN", "Run logs (JSON lines): one or more", nullptr, &command->logs}};
  self.table.group("Output");
  self.table.text(
      "out", "FILE", &command->out,
      "The page: one self-contained HTML file. If not given: report.html, or report-2.html and so on if "
      "that exists.");
  describe_json(self.table, &command->json, "one object: the page and the number of runs.");
  self.example =
      "  truemax train train.txt --method implicit --model none --log implicit.jsonl\n"
      "  truemax train train.txt --method umax --classes-per-step 5 --model none --log umax.jsonl\n"
      "  truemax report implicit.jsonl umax.jsonl --out report.html";
  self.run = [command] { return run_report(*command); };
  return self;
}

}  // namespace truemax
