#include "cli/command.hpp"

#include <fcntl.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/claim.hpp"
#include "core/error.hpp"
#include "core/files.hpp"
#include "core/text.hpp"
#include "ranks/ranks.hpp"

namespace truemax {
namespace {

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
  raise(number);  // end as the default handler would
}

}  // namespace

std::string Command::synopsis() const {
  std::string text = "truemax " + name;
  for (const Argument& argument : arguments)
    text += " " + argument.name + (argument.several != nullptr ? "..." : "");
  return text;
}

std::vector<Command> all_commands() {
  std::vector<Command> all;
  all.push_back(train_command());
  all.push_back(plan_command());
  all.push_back(evaluate_command());
  all.push_back(predict_command());
  all.push_back(index_command());
  all.push_back(inspect_command());
  all.push_back(vectors_command());
  all.push_back(nearest_command());
  all.push_back(generate_command());
  all.push_back(convert_command());
  all.push_back(compare_command());
  all.push_back(tune_command());
  all.push_back(report_command());
  all.push_back(methods_command());
  return all;
}

namespace {

// Older versions took a file name after --json, which is now --json-file. The word after --json may also be a
// data file: it counts as the old spelling if its name or content looks like JSON, or if there is no such
// file.
bool looks_like_json_file(const std::string& word) {
  if (word.empty() || word.front() == '-') return word == "-";
  if (word.size() > 5 && word.substr(word.size() - 5) == ".json") return true;
  if (is_stream(word)) return false;  // peeking would consume a pipe
  std::FILE* const file = std::fopen(word.c_str(), "re");
  if (file == nullptr) return true;
  const int first = std::fgetc(file);
  std::fclose(file);
  return first == '{';
}

}  // namespace

void refuse_old_spellings(const Command& command, const std::vector<std::string>& words) {
  const bool has_json_file = command.table.find("json-file") != nullptr;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].substr(0, 2) != "--") continue;
    const std::string typed = words[i].substr(0, words[i].find('='));
    const bool off = typed.substr(0, 5) == "--no-";
    for (const std::string& name : {typed.substr(2), typed.substr(off ? 5 : 2)})
      if (const Option* now = command.table.find_other_name(name))
        throw UserError(fmt::format("{} is called --{}{} here; see 'truemax {} --help'", typed,
                                    off && name != typed.substr(2) ? "no-" : "", now->name, command.name));
    if (!has_json_file || typed != "--json") continue;
    const bool joined = typed != words[i];
    const std::string file = joined ? words[i].substr(7) : i + 1 < words.size() ? words[i + 1] : "";
    // The command takes one data file and it is already there: a second word cannot be data.
    const bool has_data =
        command.arguments.front().several == nullptr && i > 1 && !words[1].empty() && words[1].front() != '-';
    const bool second = has_data && !file.empty() && file.front() != '-';
    if (joined || second || looks_like_json_file(file))
      throw UserError(fmt::format(
          "--json {}: --json prints to standard output and takes no file; type --json-file {} for a file",
          file, shell_word(file)));
  }
}

void ignore_file_size_signal() {
  signal(SIGXFSZ, SIG_IGN);
}

void share_heap_if_limited() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  mallopt(M_ARENA_MAX, 1);
  // Large arrays lie outside the heap, where freed ones leave holes that nothing else fits into.
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
}

void hold_standard_streams() {
  // Opened in the wrong direction on purpose: reading or writing them still fails.
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
  if (!fine) throw UserError(fmt::format("--{} {}: cannot be written; choose another path", option, path));
}

void describe_json(OptionTable& table, bool* json, const std::string& what) {
  table.group("Output");
  table.toggle("json", json, "Print JSON to standard output: " + what, {.brief = true});
}

void print_json(const nlohmann::ordered_json& json) {
  say(stdout, "{}\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

std::string json_file_text(const nlohmann::ordered_json& json) {
  return json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
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

std::string program_to_type() {
  return ranks().in_groups() ? fmt::format("mpirun -n {} truemax-mpi", ranks().size()) : "truemax";
}

Claim claim_output(const std::string& path, const char* option) {
  if (path.empty() || path == "-" || is_stream(path)) return {};
  std::optional<Claim> claim = Claim::take(path);
  if (!claim)
    throw UserError(fmt::format(
        "--{} {}: another run is still writing there; wait for it, or give another name", option, path));
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

int StopOnSignal::number() {
  return stop_signal.load();
}

int StopOnSignal::exit_code() {
  return 128 + static_cast<int>(ranks().max_of(number()));
}

}  // namespace truemax
