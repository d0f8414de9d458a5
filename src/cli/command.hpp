// What the commands share: how a command describes itself, and where the words go.
#pragma once

#include <fmt/format.h>

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

// What is typed without a name: a file, or several of them.
struct Argument {
  std::string name, help;
  std::string* one = nullptr;
  std::vector<std::string>* several = nullptr;
};

// A command, described once: the parser, --help, the man page, the completion and docs/options.md read this.
struct Command {
  std::string name, summary;
  std::vector<Argument> arguments;
  OptionTable table;
  std::string example;                        // lines that work as they are
  std::function<int()> run;                   // the exit code
  std::vector<std::string>* given = nullptr;  // gets the names of the options that were typed

  std::string synopsis() const;  // "truemax compare DATA..."
};

// The fields that a command's options are bound to live as long as its `run`.
Command train_command();
Command evaluate_command();
Command predict_command();
Command inspect_command();
Command generate_command();
Command compare_command();
Command tune_command();
Command report_command();
Command methods_command();
// Those with options, in the order of the help; not 'options' itself.
std::vector<Command> all_commands();

// --help of the program and of a command; `all`: every option, under headings.
std::string program_help(const std::vector<Command>& commands);
std::string command_help(const Command& command, bool all);
// What docs/options.md holds.
std::string options_page(const std::vector<Command>& commands);
// truemax(1), and the script that completes commands, options and their values in bash.
std::string man_page(const std::vector<Command>& commands);
std::string bash_completion(const std::vector<Command>& commands);
// Words broken into lines of at most `width` columns, each after the first behind `indent`.
std::string wrapped(const std::string& text, std::size_t width, const std::string& indent);
extern const char* const kProgramSummary;
extern const char* const kExitCodes;

// Throws UserError with what to type now where a word of the command line is a spelling of older versions.
void refuse_old_spellings(const Command& command, const std::vector<std::string>& words);

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

// --json, which every command that prints results has.
void describe_json(OptionTable& table, bool* json, const std::string& what);
// A result on standard output, on one line.
void print_json(const nlohmann::ordered_json& json);
// The text of a JSON file. Paths need not be UTF-8; what is not is replaced.
std::string json_file_text(const nlohmann::ordered_json& json);

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
