#include "cli/command.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <sstream>

#include "core/claim.hpp"
#include "core/error.hpp"
#include "core/files.hpp"
#include "core/text.hpp"

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
std::atomic<int> stop_signal{0}, stop_count{0};

extern "C" void on_signal(int signal) {
  stop_signal.store(signal);
  stop_requested.store(true);
  if (stop_count.fetch_add(1) < 2) return;
  drop_claims_on_signal();
  _exit(128 + signal);
}

extern "C" void on_end(int number) {
  drop_claims_on_signal();
  signal(number, SIG_DFL);
  raise(number);  // the program ends as it would have without this
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
      CLI::Option* flag = command.add_flag_function(
          fmt::format("--{0},!--no-{0}", o.name),
          [parse = o.parse, note](std::int64_t count) {
            note();
            parse(count >= 0 ? "on" : "off");
          },
          help);
      flag->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
      continue;
    }
    if (o.is_list) {
      CLI::Option* list = command.add_option_function<std::vector<std::string>>(
          "--" + o.name,
          [parse = o.parse, note](const std::vector<std::string>& texts) {
            note();
            for (const std::string& text : texts) parse(text);
          },
          help);
      list->type_name(o.value_name)->allow_extra_args(false);
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
  signal(SIGXFSZ, SIG_IGN);
}

void hold_standard_streams() {
  // Opened the wrong way round: what reads or writes them still fails.
  for (int stream = 0; stream <= 2; ++stream)
    if (fcntl(stream, F_GETFD) < 0)
      static_cast<void>(open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY));
}

void write_file(const std::string& path, const std::string& text, const char* option) {
  if (!is_stream(path)) {
    AtomicFile file(path);
    file.write_at(0, text);
    file.commit();
    return;
  }
  std::FILE* const file = std::fopen(path.c_str(), "we");
  bool fine = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (file != nullptr) fine = std::fclose(file) == 0 && fine;
  if (!fine)
    throw UserError(fmt::format("--{} {}: it could not be written; choose another place", option, path));
}

std::string shell_word(const std::string& text) {
  constexpr std::string_view kPlain = "_./:=,+-@%";
  const bool plain = !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || kPlain.find(c) != std::string_view::npos;
  });
  if (plain) return text;
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

std::vector<std::string>& typed_words() {
  static std::vector<std::string> words;
  return words;
}

Claim claim_output(const std::string& path, const char* option) {
  if (path.empty() || path == "-" || is_stream(path)) return {};
  std::optional<Claim> claim = Claim::take(path);
  if (!claim)
    throw UserError(fmt::format(
        "--{} {}: another run that has not ended yet writes there; wait for it, or give another name", option,
        path));
  return std::move(*claim);
}

void print_notes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) say(stderr, "truemax: note: {}\n", printable(note));
}

DropClaimsOnSignal::DropClaimsOnSignal() {
  struct sigaction action {};
  action.sa_handler = on_end;
  for (std::size_t i = 0; i < std::size(kSignals); ++i) {
    sigaction(kSignals[i], nullptr, &old_[i]);
    if (old_[i].sa_handler == SIG_DFL) sigaction(kSignals[i], &action, nullptr);
  }
}

DropClaimsOnSignal::~DropClaimsOnSignal() {
  for (std::size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &old_[i], nullptr);
}

StopOnSignal::StopOnSignal() {
  stop_requested.store(false);
  stop_count.store(0);
  struct sigaction action {};
  action.sa_handler = on_signal;
  for (std::size_t i = 0; i < std::size(kSignals); ++i) {
    sigaction(kSignals[i], nullptr, &old_[i]);
    if (old_[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &action, nullptr);
  }
}

StopOnSignal::~StopOnSignal() {
  for (std::size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &old_[i], nullptr);
}

const std::atomic<bool>& StopOnSignal::flag() {
  return stop_requested;
}

int StopOnSignal::exit_code() {
  return 128 + stop_signal.load();
}

}  // namespace truemax
