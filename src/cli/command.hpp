// What the commands share: binding an option table to the command line, and where the words go.
#pragma once

#include <CLI/App.hpp>
#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "core/options.hpp"

namespace truemax {

// Exit codes that scripts can use.
enum ExitCode { kSuccess = 0, kBug = 1, kBadInput = 2, kDiverged = 3 };

// Adds every option of `table` to `command`. `given`, where not null, collects the names that were typed. The
// table's fields must outlive the parsing.
void bind_options(CLI::App& command, const OptionTable& table, std::vector<std::string>* given = nullptr);

// Each command adds itself to the program; `exit_code` is what it leaves behind.
void add_train(CLI::App& program, int& exit_code);
void add_evaluate(CLI::App& program, int& exit_code);
void add_predict(CLI::App& program, int& exit_code);
void add_inspect(CLI::App& program, int& exit_code);
void add_generate(CLI::App& program, int& exit_code);
void add_methods(CLI::App& program, int& exit_code);
void add_options(CLI::App& program, int& exit_code);

// The whole program: parses, runs, turns errors into exit codes.
int run_program(int argc, const char* const* argv);

// A file that may grow no further is then an error of the write, met with a message, and not the end of the
// program.
void ignore_file_size_signal();

// Notes for people, on standard error.
void print_notes(const std::vector<std::string>& notes);

// Raised by Ctrl-C or a termination request while one of these lives; a second signal ends the program at
// once.
class StopOnSignal {
 public:
  StopOnSignal();
  ~StopOnSignal();
  StopOnSignal(const StopOnSignal&) = delete;
  StopOnSignal& operator=(const StopOnSignal&) = delete;
  static const std::atomic<bool>& flag();
  static int exit_code();  // 128 plus the signal that came: 130 for Ctrl-C
};

}  // namespace truemax
