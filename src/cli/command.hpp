// What the commands share: binding an option table to the command line, and where the words go.
#pragma once

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "core/claim.hpp"
#include "core/options.hpp"

namespace truemax {

// Exit codes that scripts can use.
enum ExitCode { kSuccess = 0, kBug = 1, kBadInput = 2, kDiverged = 3 };

// Adds every option of `table` to `command`. `given`, where not null, collects the names that were typed. The
// table's fields must outlive the parsing.
void bind_options(CLI::App& command, const OptionTable& table, std::vector<std::string>* given = nullptr);

// Each command adds itself to the program; `exit_code` is what it leaves behind. The table is that of its
// options.
OptionTable add_train(CLI::App& program, int& exit_code);
OptionTable add_evaluate(CLI::App& program, int& exit_code);
OptionTable add_predict(CLI::App& program, int& exit_code);
OptionTable add_inspect(CLI::App& program, int& exit_code);
OptionTable add_generate(CLI::App& program, int& exit_code);
OptionTable add_compare(CLI::App& program, int& exit_code);
OptionTable add_tune(CLI::App& program, int& exit_code);
OptionTable add_report(CLI::App& program, int& exit_code);
void add_methods(CLI::App& program, int& exit_code);

// A section of docs/options.md.
struct OptionPage {
  std::string title;
  OptionTable table;
};
void add_options(CLI::App& program, int& exit_code, const std::vector<OptionPage>& pages);

// The whole program: parses, runs, turns errors into exit codes.
int run_program(int argc, const char* const* argv);

// Prints. An output that cannot be written is no reason to stop what goes on: standard output is looked at
// once, at the end of the program.
template <class... Arguments>
void say(std::FILE* to, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  const std::string text = fmt::format(format, std::forward<Arguments>(arguments)...);
  std::fwrite(text.data(), 1, text.size(), to);
}

// A file that may grow no further is then an error of the write, met with a message, and not the end of the
// program.
void ignore_file_size_signal();

// Makes sure that no file opened later gets the number of a standard stream that is closed.
void hold_standard_streams();

// Writes a file whole or not at all; a pipe or a device as it comes. Throws UserError.
void write_file(const std::string& path, const std::string& text, const char* option);

// A word as a shell wants it.
std::string shell_word(const std::string& text);
// The words of the command line as typed; run_program sets them.
std::vector<std::string>& typed_words();

// Claims the file that an option names, so that no other live run has it. Throws UserError where one has.
// Nothing for a pipe, a device, '-' or no name.
Claim claim_output(const std::string& path, const char* option);

// Notes for people, on standard error.
void print_notes(const std::vector<std::string>& notes);

// While one of these lives, a signal that ends the program at once leaves no empty file of a claim behind.
class DropClaimsOnSignal {
 public:
  DropClaimsOnSignal();
  ~DropClaimsOnSignal();
  DropClaimsOnSignal(const DropClaimsOnSignal&) = delete;
  DropClaimsOnSignal& operator=(const DropClaimsOnSignal&) = delete;

 private:
  static constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGQUIT};
  struct sigaction old_[std::size(kSignals)]{};
};

// While one of these lives, Ctrl-C, a termination request or a lost terminal raises the flag, unless the
// program was started with that signal ignored. A second signal is passed over, for the run may be saving;
// the third ends the program at once.
class StopOnSignal {
 public:
  StopOnSignal();
  ~StopOnSignal();
  StopOnSignal(const StopOnSignal&) = delete;
  StopOnSignal& operator=(const StopOnSignal&) = delete;
  static const std::atomic<bool>& flag();
  static int exit_code();  // 128 plus the signal that came: 130 for Ctrl-C

 private:
  static constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
  struct sigaction old_[std::size(kSignals)]{};
};

}  // namespace truemax
