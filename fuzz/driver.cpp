// Drives the targets without libFuzzer: replays good seeds and corpora, then changes them at random until the
// time is up. For the tests, which are built by g++, and for line coverage.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <random>

#include "target.hpp"

namespace {

using namespace truemax::fuzz;
using Clock = std::chrono::steady_clock;

struct Arguments {
  double seconds = 0;      // of mutations, for each target
  std::uint64_t runs = 0;  // and at most so many; 0: no limit
  std::uint64_t seed = 1;
  std::string corpus;  // a folder with one folder for each target
  std::string replay;  // one file
  std::string seeds;   // write good seeds to this folder, and do nothing else
  std::vector<std::string> names;
};

// The input that runs now, for the handler of a crash.
struct Running {
  const Target* target = nullptr;
  std::string_view input;
} running;

// Only async-signal-safe calls.
void keep_input(int number) {
  std::signal(number, SIG_DFL);
  if (running.target == nullptr) {  // no input has been run yet
    std::raise(number);
    return;
  }
  char name[128] = "crash-";
  std::strncat(name, running.target->name, 64);
  const int file = ::open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file >= 0) {
    for (std::size_t done = 0; done < running.input.size();) {
      const auto wrote = ::write(file, running.input.data() + done, running.input.size() - done);
      if (wrote <= 0) break;
      done += static_cast<std::size_t>(wrote);
    }
    ::close(file);
  }
  const char* const words[] = {"\ncrash in ",
                               running.target->name,
                               "; replay: truemax_fuzz --replay ",
                               name,
                               " ",
                               running.target->name,
                               "\n"};
  for (const char* const text : words)
    if (::write(STDERR_FILENO, text, std::strlen(text)) < 0) break;
  std::raise(number);
}

bool run(const Target& target, std::string_view input) {
  running = {&target, input};
  return target.run(input);
}

std::vector<std::string> files_of(const std::string& folder) {
  std::vector<std::filesystem::path> paths;
  if (std::filesystem::is_directory(folder))
    for (const auto& entry : std::filesystem::directory_iterator(folder)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> contents;
  for (const auto& path : paths) {
    contents.push_back(file_bytes(path.string()));
    // Seeds that are good when they are made must stay good.
    const std::string name = path.filename().string();
    if (name.rfind("good", 0) == 0) {
      const Target* const target = find_target(std::filesystem::path(folder).filename().string());
      if (target != nullptr && !run(*target, contents.back()))
        broken(path.string() + " is refused; if its format has changed, run fuzz/make_seeds.py");
    }
  }
  return contents;
}

// A few changes: bits, bytes, numbers of 8 bytes, cuts, insertions, pieces of other inputs.
std::string mutated(const std::vector<std::string>& inputs, std::mt19937_64& random) {
  std::string bytes = inputs[random() % inputs.size()];
  for (std::uint64_t changes = 1 + random() % 4; changes > 0; --changes) {
    if (bytes.empty()) bytes = "x";
    const std::size_t at = random() % bytes.size();
    const std::size_t length = 1 + random() % std::min<std::size_t>(16, bytes.size() - at);
    switch (random() % 8) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
        break;
      case 1:
        bytes[at] = static_cast<char>(random());
        break;
      case 2:
        bytes.insert(at, bytes.substr(random() % bytes.size(), length));
        break;
      case 3:
        bytes.erase(at, length);
        break;
      case 4:
        bytes.resize(at);
        break;
      case 5:
        bytes.insert(at, 1, bytes[random() % bytes.size()]);
        break;
      case 6: {
        const std::uint64_t sizes[] = {0, 1, ~0ULL, 1ULL << 32, 1ULL << 63, random() >> random() % 64};
        for (std::size_t i = at; i < std::min(bytes.size(), at + 8); ++i)
          bytes[i] = static_cast<char>(sizes[random() % 6] >> (8 * (i - at)));
        break;
      }
      default: {
        const std::string& other = inputs[random() % inputs.size()];
        if (!other.empty()) bytes.replace(at, length, other.substr(random() % other.size(), length));
      }
    }
  }
  return bytes;
}

std::uint64_t drive(const Target& target, const Arguments& arguments, std::uint64_t& accepted) {
  std::vector<std::string> inputs = files_of(arguments.corpus + "/" + target.name);
  if (target.seeds != nullptr)
    for (std::string& seed : target.seeds()) {
      if (!run(target, seed)) broken(std::string(target.name) + " refuses a good input of this build");
      inputs.push_back(std::move(seed));
    }
  if (inputs.empty()) broken(std::string(target.name) + " has no seeds");
  std::uint64_t runs = 0;
  for (const std::string& input : inputs) ++runs, accepted += run(target, input) ? 1 : 0;
  std::mt19937_64 random(arguments.seed);
  const auto end = Clock::now() + std::chrono::duration<double>(arguments.seconds);
  for (std::uint64_t i = 0; Clock::now() < end && (arguments.runs == 0 || i < arguments.runs); ++i) {
    const std::string input = mutated(inputs, random);
    ++runs, accepted += run(target, input) ? 1 : 0;
  }
  return runs;
}

Arguments parsed(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto value = [&] { return i + 1 < argc ? argv[++i] : ""; };
    if (word == "--seconds")
      arguments.seconds = std::atof(value());
    else if (word == "--runs")
      arguments.runs = std::strtoull(value(), nullptr, 10);
    else if (word == "--seed")
      arguments.seed = std::strtoull(value(), nullptr, 10);
    else if (word == "--corpus")
      arguments.corpus = value();
    else if (word == "--replay")
      arguments.replay = value();
    else if (word == "--write-seeds")
      arguments.seeds = value();
    else
      arguments.names.push_back(word);
  }
  return arguments;
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parsed(argc, argv);
  if (!arguments.seeds.empty()) return write_seeds(arguments.seeds), 0;
  for (const std::string& name : arguments.names)
    if (find_target(name) == nullptr) {
      std::fprintf(stderr,
                   "truemax_fuzz: there is no target '%s'; usage: truemax_fuzz --corpus FOLDER "
                   "[--seconds N] [--runs N] [--seed S] [--replay FILE] [TARGET...]\n",
                   name.c_str());
      return 2;
    }
  for (const int number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) std::signal(number, keep_input);
  std::uint64_t total = 0;
  for (const Target& target : targets()) {
    if (!arguments.names.empty() &&
        std::find(arguments.names.begin(), arguments.names.end(), target.name) == arguments.names.end())
      continue;
    if (!arguments.replay.empty()) {
      const std::string bytes = file_bytes(arguments.replay);
      std::printf("%s: %s\n", target.name, run(target, bytes) ? "accepted" : "refused");
      continue;
    }
    std::uint64_t accepted = 0;
    const std::uint64_t runs = drive(target, arguments, accepted);
    total += runs;
    std::printf("%-15s %10llu runs %10llu accepted\n", target.name, static_cast<unsigned long long>(runs),
                static_cast<unsigned long long>(accepted));
    std::fflush(stdout);
  }
  if (arguments.replay.empty()) std::printf("%llu runs\n", static_cast<unsigned long long>(total));
  return 0;
}
