#include "cli/command.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <sstream>

namespace truemax {
namespace {

// Breaks a help text into lines; the formatter indents them.
std::string wrapped(const std::string& text) {
  constexpr std::size_t kWidth = 78;
  std::string out;
  std::size_t column = 0;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (column > 0 && column + 1 + word.size() > kWidth) {
      out += '\n';
      column = 0;
    }
    if (column > 0) out += ' ', ++column;
    out += word;
    column += word.size();
  }
  return out;
}

std::atomic<bool> stop_requested{false};
std::atomic<int> stop_signal{0};

// The first asks the run to stop and save. A second would come while it saves, so only the third ends the
// program at once.
extern "C" void on_signal(int signal) {
  static std::atomic<int> count{0};
  stop_signal.store(signal);
  stop_requested.store(true);
  if (count.fetch_add(1) >= 2) _exit(128 + signal);
}

void set_handler(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigaction(signal, &action, nullptr);
}

}  // namespace

void bind_options(CLI::App& command, const OptionTable& table, std::vector<std::string>* given) {
  for (const Option& o : table.options()) {
    const auto note = [given, name = o.name] {
      if (given != nullptr) given->push_back(name);
    };
    std::string help = o.help;
    if (!o.range.empty() && o.range.rfind("one of", 0) != 0) help += fmt::format(" Takes {}.", o.range);
    help = wrapped(help);
    if (o.is_switch) {
      command.add_flag_function(
          fmt::format("--{0},!--no-{0}", o.name),
          [parse = o.parse, note](std::int64_t count) {
            note();
            parse(count >= 0 ? "on" : "off");
          },
          help);
      continue;
    }
    CLI::Option* option = command.add_option_function<std::string>(
        "--" + o.name,
        [parse = o.parse, note](const std::string& text) {
          note();
          parse(text);
        },
        help);
    option->type_name(o.value_name)->default_str(o.default_value);
  }
}

void ignore_file_size_signal() {
  set_handler(SIGXFSZ, SIG_IGN);
}

void print_notes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) fmt::print(stderr, "truemax: note: {}\n", note);
}

StopOnSignal::StopOnSignal() {
  stop_requested.store(false);
  set_handler(SIGINT, on_signal);
  set_handler(SIGTERM, on_signal);
  set_handler(SIGHUP, on_signal);
}

StopOnSignal::~StopOnSignal() {
  set_handler(SIGINT, SIG_DFL);
  set_handler(SIGTERM, SIG_DFL);
  set_handler(SIGHUP, SIG_DFL);
}

const std::atomic<bool>& StopOnSignal::flag() {
  return stop_requested;
}

int StopOnSignal::exit_code() {
  return 128 + stop_signal.load();
}

}  // namespace truemax
