// Shared by the commands: how a command describes itself, and output.
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

inline constexpr const char* kOutputFailed = "standard output could not be written; is the disk full?";

// Exit codes that scripts can use.
enum ExitCode { kSuccess = 0, kBug = 1, kBadInput = 2, kDiverged = 3 };

// A positional argument: a file, or several.
struct Argument {
  std::string name, help;
  std::string* one = nullptr;
  std::vector<std::string>* several = nullptr;
};

// What a command does where several ranks run it (truemax-mpi).
enum class OverRanks {
  first,    // the first one runs it as one process would; the others wait
  all,      // they share the work
  refused,  // it is for one process
};

// A command, described once. The parser, --help, the man page, the completion and docs/options.md read this.
struct Command {
  std::string name, summary;
  std::vector<Argument> arguments;
  OptionTable table;
  std::string example;                        // lines that run as they are
  std::function<int()> run;                   // the exit code
  std::vector<std::string>* given = nullptr;  // receives the names of the options typed
  OverRanks over_ranks = OverRanks::first;

  std::string synopsis() const;  // "truemax compare DATA..."
};

// `run` owns the fields that the options are bound to.
Command train_command();
Command plan_command();
Command evaluate_command();
Command predict_command();
Command index_command();
Command inspect_command();
Command vectors_command();
Command nearest_command();
Command generate_command();
Command convert_command();
Command compare_command();
Command tune_command();
Command report_command();
Command methods_command();
// In the order of the help, without 'options'.
std::vector<Command> all_commands();

// --help of the program and of a command; `all`: every option, under group headings.
std::string program_help(const std::vector<Command>& commands);
std::string command_help(const Command& command, bool all);
// The content of docs/options.md.
std::string options_page(const std::vector<Command>& commands);
nlohmann::ordered_json options_json(const std::vector<Command>& commands);
// truemax(1), and the bash completion script.
std::string man_page(const std::vector<Command>& commands);
std::string bash_completion(const std::vector<Command>& commands);
// Wraps text at `width` columns; lines after the first start with `indent`.
std::string wrapped(const std::string& text, std::size_t width, const std::string& indent);
extern const char* const kProgramSummary;
extern const char* const kExitCodes;

// Throws UserError with what to type now if a word of the command line is an old spelling.
void refuse_old_spellings(const Command& command, const std::vector<std::string>& words);

// Throws UserError unless all ranks have the same version and were given the same command.
void require_same_command(const std::string& name);
// Runs a command that was parsed, on all ranks that there are. Returns the exit code. Throws UserError if
// their options differ.
int run_over_ranks(const Command& command);

// The whole program: parses, runs, turns errors into exit codes.
int run_program(int argc, const char* const* argv);

// Prints. A failed write must not stop a training run: standard output is checked once, at the end of the
// program.
template <class... Arguments>
void say(std::FILE* to, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  const std::string text = fmt::format(format, std::forward<Arguments>(arguments)...);
  std::fwrite(text.data(), 1, text.size(), to);
}

// Without this, a file that reaches its size limit kills the program instead of failing the write.
void ignore_file_size_signal();

// Under a limit on the address space (ulimit -v), threads share the heap, since a heap each reserves 64 MB,
// and freed memory goes back at once. Before any thread starts.
void share_heap_if_limited();

// Keeps files opened later from getting the descriptor of a closed standard stream.
void hold_standard_streams();

// Writes a file atomically; a pipe or device directly. Throws UserError.
void write_file(const std::string& path, const std::string& text, const char* option);

// A word quoted for the shell.
std::string shell_word(const std::string& text);
// The words of the command line as typed; run_program sets them.
std::vector<std::string>& typed_words();
// What to type to start this program again: "truemax", or with mpirun before it.
std::string program_to_type();

// Adds --json.
void describe_json(OptionTable& table, bool* json, const std::string& what);
// To standard output, on one line.
void print_json(const nlohmann::ordered_json& json);
// The text of a JSON file. Paths need not be UTF-8: invalid bytes are replaced.
std::string json_file_text(const nlohmann::ordered_json& json);

// Claims the output file of an option. Throws UserError if another live run has it. Does nothing for a pipe,
// a device, '-' or an empty name.
Claim claim_output(const std::string& path, const char* option);

// On standard error.
void print_notes(const std::vector<std::string>& notes);

// While this object lives, a signal that kills the program removes the empty files of its claims.
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

// While this object lives, SIGINT, SIGTERM and SIGHUP set the flag, unless the program was started with that
// signal ignored. A second signal does nothing, because the run may be saving; the third ends the program at
// once.
class StopOnSignal {
 public:
  StopOnSignal();
  ~StopOnSignal();
  StopOnSignal(const StopOnSignal&) = delete;
  StopOnSignal& operator=(const StopOnSignal&) = delete;
  static const std::atomic<bool>& flag();
  static int number();     // of the signal that this process got; 0: none
  static int exit_code();  // 128 + signal: 130 for Ctrl-C. All ranks ask: one of them got it

 private:
  static constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
  struct sigaction old_[std::size(kSignals)]{};
};

}  // namespace truemax
