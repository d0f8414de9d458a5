// Damages good files and loads them: each must be refused by a UserError that names the file. A damaged file
// that loads, another exception or a crash is a failure, and prints a line that replays it.
//
//     truemax_corrupt --count 100000 --seed 1 [FILE...]
//
// Without FILE it damages small models, checkpoints and caches of every kind, which it makes first. The last
// line of its output is JSON. Case i of a seed is the same in every run: --first I --count 1 replays it.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>

#include "core/error.hpp"
#include "core/text.hpp"
#include "data/cache_file.hpp"
#include "model/model.hpp"
#include "target.hpp"
#include "targets.hpp"
#include "train/checkpoint.hpp"

namespace {

using namespace truemax;
using namespace truemax::fuzz;
using Random = std::mt19937_64;

// A kind of file, recognised by its bytes. A new kind is one entry of kinds().
struct Kind {
  const char* name;
  bool (*recognises)(const std::string& bytes);
  void (*load)(const std::string& path);
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all{
      {"model", [](const std::string& bytes) { return bytes.size() > 8 && bytes[8] == '{'; },
       [](const std::string& path) { load_model(path, std::uint64_t{1} << 30); }},
      {"checkpoint", [](const std::string& bytes) { return bytes.rfind("TMXCHKPT", 0) == 0; },
       [](const std::string& path) { CheckpointFile{path}; }},
      {"cache", [](const std::string& bytes) { return bytes.starts_with(kCacheMagic); },
       [](const std::string& path) {
         const CacheFile cache(path);
         for (std::size_t b = 0; b < cache.blocks().size(); ++b) {
           RawRows rows;
           cache.read_block(b, rows);
         }
       }},
  };
  return all;
}

struct GoodFile {
  std::string name, bytes;
  const Kind* kind;
};

struct Arguments {
  std::uint64_t count = 10000, first = 0, seed = 1;
  double seconds = 0;  // stop after this time; 0: only by count
  std::vector<std::string> files;
};

struct Range {
  std::size_t at, length;
};

// Mostly short; anywhere.
Range some_range(const std::string& bytes, Random& random) {
  const std::size_t at = random() % bytes.size();
  const std::size_t most =
      random() % 4 == 0 ? bytes.size() - at : std::min<std::size_t>(16, bytes.size() - at);
  return {at, 1 + random() % most};
}

void swap_ranges(std::string& bytes, Random& random) {
  const Range one = some_range(bytes, random);
  const std::size_t two = random() % (bytes.size() - one.length + 1);
  const std::string moved = bytes.substr(one.at, one.length);
  bytes.erase(one.at, one.length);
  bytes.insert(two, moved);
}

void zero_range(std::string& bytes, Random& random) {
  const Range range = some_range(bytes, random);
  std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(range.at), range.length, '\0');
}

void change_bytes(std::string& bytes, Random& random) {
  const Range range = some_range(bytes, random);
  const std::string_view blanks = " \t\n\r";
  for (std::size_t i = range.at; i < range.at + std::min<std::size_t>(range.length, 4); ++i)
    bytes[i] = random() % 4 == 0 ? blanks[random() % 4] : static_cast<char>(random());
}

std::string damaged(std::string bytes, Random& random, const char** how) {
  switch (random() % 7) {
    case 0:
      *how = "cut";
      bytes.resize(random() % bytes.size());
      return bytes;
    case 1:
      *how = "appended";
      for (std::uint64_t more = 1 + random() % 64; more > 0; --more)
        bytes += random() % 2 == 0 ? '\0' : static_cast<char>(random());
      return bytes;
    case 2:
      *how = "moved";
      swap_ranges(bytes, random);
      return bytes;
    case 3:
      *how = "zeroed";
      zero_range(bytes, random);
      return bytes;
    case 4:
      *how = "bytes";
      change_bytes(bytes, random);
      return bytes;
    default:
      *how = "bits";
      for (std::uint64_t flips = 1 + random() % 3; flips > 0; --flips) {
        char& byte = bytes[random() % bytes.size()];
        byte = static_cast<char>(byte ^ (1 << random() % 8));
      }
      return bytes;
  }
}

// Empty if the file was refused as it must be.
std::string what_went_wrong(const Kind& kind, const std::string& bytes) {
  const MemoryFile file(bytes);
  try {
    kind.load(file.path());
    return "accepted";
  } catch (const UserError& error) {
    const std::string text = error.what();
    return text.find(file.path()) != std::string::npos ? "" : "the message does not name the file: " + text;
  } catch (const std::exception& error) {
    return std::string("not a UserError: ") + error.what();
  }
}

std::vector<GoodFile> good_files(const std::vector<std::string>& paths) {
  std::vector<GoodFile> files;
  const auto add = [&](const std::string& name, std::string bytes) {
    for (const Kind& kind : kinds())
      if (kind.recognises(bytes)) {
        const std::string wrong = what_went_wrong(kind, bytes);
        if (wrong != "accepted") {
          std::fprintf(stderr, "truemax_corrupt: %s is not a good %s (%s)\n", name.c_str(), kind.name,
                       wrong.empty() ? "it is refused" : wrong.c_str());
          std::exit(2);
        }
        files.push_back({name, std::move(bytes), &kind});
        return;
      }
    std::fprintf(stderr, "truemax_corrupt: %s is no file of a known kind\n", name.c_str());
    std::exit(2);
  };
  for (const std::string& path : paths) add(path, file_bytes(path));
  if (!paths.empty()) return files;
  // Every second one has no checksums, so that nothing could tell a changed weight.
  const std::vector<std::string> models = good_models();
  for (std::size_t i = 0; i < models.size(); i += 2) add("model " + std::to_string(i / 2), models[i]);
  // Every second one has no end, and the first byte is for the target.
  const std::vector<std::string> checkpoints = good_checkpoints();
  for (std::size_t i = 0; i < checkpoints.size(); i += 2)
    add("checkpoint " + std::to_string(i / 2), checkpoints[i].substr(1));
  const std::vector<std::string> caches = good_caches();
  for (std::size_t i = 0; i < caches.size(); i += 2)
    add("cache " + std::to_string(i / 2), caches[i].substr(1));
  return files;
}

Arguments parsed(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto value = [&] { return i + 1 < argc ? argv[++i] : ""; };
    if (word == "--count")
      arguments.count = std::strtoull(value(), nullptr, 10);
    else if (word == "--first")
      arguments.first = std::strtoull(value(), nullptr, 10);
    else if (word == "--seed")
      arguments.seed = std::strtoull(value(), nullptr, 10);
    else if (word == "--seconds")
      arguments.seconds = std::atof(value());
    else
      arguments.files.push_back(word);
  }
  return arguments;
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parsed(argc, argv);
  const std::vector<GoodFile> files = good_files(arguments.files);
  std::uint64_t tried = 0, unchanged = 0, failures = 0;
  nlohmann::ordered_json by_damage = nlohmann::ordered_json::object();
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  for (std::uint64_t i = arguments.first; tried + unchanged < arguments.count; ++i) {
    if (arguments.seconds > 0 && seconds() > arguments.seconds) break;
    Random random(arguments.seed * 0x9E3779B97F4A7C15ULL + i);
    const GoodFile& good = files[i % files.size()];
    const char* how = "";
    // Every second case of a file cuts it, one byte later each time, until it was cut at every byte.
    const std::uint64_t turn = i / files.size(), cut = turn / 2;
    const bool cuts = turn % 2 == 0 && cut < good.bytes.size();
    const std::string bytes = cuts ? good.bytes.substr(0, cut) : damaged(good.bytes, random, &how);
    if (cuts) how = "cut";
    if (bytes == good.bytes) {
      ++unchanged;
      continue;
    }
    ++tried;
    by_damage[how] = by_damage.value(how, std::uint64_t{0}) + 1;
    const std::string wrong = what_went_wrong(*good.kind, bytes);
    if (wrong.empty()) continue;
    ++failures;
    const auto where = static_cast<std::size_t>(
        std::mismatch(bytes.begin(), bytes.end(), good.bytes.begin(), good.bytes.end()).first -
        bytes.begin());
    std::printf("first difference at byte %zu: %s instead of %s\n", where,
                in_quotes(std::string_view(bytes).substr(where, 24)).c_str(),
                in_quotes(std::string_view(good.bytes).substr(where, 24)).c_str());
    std::string names;
    for (const std::string& file : arguments.files) names += " " + file;
    std::printf("%s, %s: %s; replay: truemax_corrupt --seed %llu --first %llu --count 1%s\n",
                good.name.c_str(), how, wrong.c_str(), static_cast<unsigned long long>(arguments.seed),
                static_cast<unsigned long long>(i), names.c_str());
  }
  const nlohmann::ordered_json result{{"files", files.size()},       {"damaged", tried},
                                      {"refused", tried - failures}, {"failures", failures},
                                      {"unchanged", unchanged},      {"by_damage", by_damage},
                                      {"seconds", seconds()},        {"seed", arguments.seed}};
  std::printf("%s\n", result.dump().c_str());
  return failures == 0 ? 0 : 1;
}
