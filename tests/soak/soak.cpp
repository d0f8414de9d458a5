// truemax_soak: trains random configurations for a few epochs and checks what truemax promises of any run
// (check.cpp). A failure prints one line that replays it. The last line of the output is JSON with counts.
//
//   truemax_soak [--count N] [--seconds S] [--seed S] [--first I]
//   truemax_soak --seed S --config I [--keep FOLDER]      one configuration; its files stay in FOLDER
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "check.hpp"
#include "config.hpp"

namespace {

using truemax::soak::Config;
using truemax::soak::Outcome;

struct Arguments {
  std::uint64_t count = 2000, seed = 1, first = 0;
  double seconds = 1e9;
  std::optional<std::uint64_t> config;
  std::string keep;
};

bool parse(int argc, char** argv, Arguments& out) {
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    if (i + 1 == argc) return false;
    const std::string value = argv[i + 1];
    const auto whole = [&] { return std::strtoull(value.c_str(), nullptr, 10); };
    if (name == "--count")
      out.count = whole();
    else if (name == "--seed")
      out.seed = whole();
    else if (name == "--first")
      out.first = whole();
    else if (name == "--config")
      out.config = whole();
    else if (name == "--seconds")
      out.seconds = std::strtod(value.c_str(), nullptr);
    else if (name == "--keep")
      out.keep = value;
    else
      return false;
  }
  return true;
}

// A crash prints its replay line too.
char running[128];

void report_crash(int number) {
  const char* const text = "FAILED: the program crashed: ";
  if (write(STDOUT_FILENO, text, std::strlen(text)) < 0 ||
      write(STDOUT_FILENO, running, std::strlen(running)) < 0)
    _exit(1);
  std::signal(number, SIG_DFL);
  std::raise(number);
}

void about_to_run(std::uint64_t seed, std::uint64_t config) {
  std::snprintf(running, sizeof running, "truemax_soak --seed %llu --config %llu\n",
                static_cast<unsigned long long>(seed), static_cast<unsigned long long>(config));
}

// A folder of its own, removed at the end unless it is to be kept.
class Folder {
 public:
  explicit Folder(const std::string& keep) : kept_(!keep.empty()) {
    const auto base = std::filesystem::temp_directory_path();
    path_ = kept_ ? keep : (base / ("truemax-soak-" + std::to_string(getpid()))).string();
    std::filesystem::create_directories(path_);
  }
  ~Folder() {
    std::error_code ignored;
    if (!kept_) std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }

 private:
  bool kept_;
  std::string path_;
};

struct Counts {
  std::uint64_t checked = 0, diverged = 0, refused = 0, failed = 0;
  std::map<std::string, std::uint64_t> of_kind, of_method, of_draw;

  void add(const Config& config, const Outcome& outcome) {
    if (outcome.refused) {
      ++refused;
      return;
    }
    ++checked;
    diverged += outcome.diverged ? 1 : 0;
    ++of_kind[config.kind];
    ++of_method[config.value("method")];
    if (const std::string draw = config.value("draw"); !draw.empty()) ++of_draw[draw];
  }
};

int run(const Arguments& arguments) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  const Folder folder(arguments.keep);
  Counts counts;
  const std::uint64_t first = arguments.config.value_or(arguments.first);
  std::uint64_t i = first;
  for (; counts.checked < (arguments.config ? 1 : arguments.count) && seconds() < arguments.seconds; ++i) {
    if (arguments.config && i > first) break;
    about_to_run(arguments.seed, i);
    const Config config = truemax::soak::make_config(arguments.seed, i, folder.path());
    if (arguments.config) std::printf("%s\n", config.command().c_str()), std::fflush(stdout);
    const Outcome outcome = truemax::soak::check(config, folder.path());
    counts.add(config, outcome);
    if (outcome.refused && (arguments.config || std::getenv("SOAK_REFUSALS") != nullptr))
      std::printf("refused: truemax_soak --seed %llu --config %llu: %s\n",
                  static_cast<unsigned long long>(arguments.seed), static_cast<unsigned long long>(i),
                  outcome.message.c_str());
    if (!outcome.failure.empty()) {
      ++counts.failed;
      std::printf("FAILED: truemax_soak --seed %llu --config %llu: %s\n",
                  static_cast<unsigned long long>(arguments.seed), static_cast<unsigned long long>(i),
                  outcome.failure.c_str());
      std::fflush(stdout);
    }
  }
  // A generator whose configurations are refused checks nothing.
  if (!arguments.config && counts.refused * 10 > counts.checked + counts.refused) {
    std::printf("FAILED: %llu of the configurations were refused\n",
                static_cast<unsigned long long>(counts.refused));
    ++counts.failed;
  }
  const nlohmann::ordered_json json{{"seed", arguments.seed},
                                    {"first", first},
                                    {"next", i},
                                    {"configurations", counts.checked},
                                    {"diverged", counts.diverged},
                                    {"refused", counts.refused},
                                    {"failures", counts.failed},
                                    {"seconds", seconds()},
                                    {"kinds", counts.of_kind},
                                    {"methods", counts.of_method},
                                    {"draws", counts.of_draw}};
  std::printf("%s\n", json.dump().c_str());
  return counts.failed == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  if (!parse(argc, argv, arguments)) {
    std::fprintf(stderr,
                 "usage: truemax_soak [--count N] [--seconds S] [--seed S] [--first I] [--config I [--keep "
                 "FOLDER]]\n");
    return 2;
  }
  for (const int number : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL}) std::signal(number, report_crash);
  return run(arguments);
}
