#include "device/open.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "core/error.hpp"
#include "device/library.hpp"

namespace truemax::device {
namespace {

constexpr int kMostCards = 1024;
constexpr char kBuild[] = "build it with './dev gpu build' (docs/gpu.md), or use --device cpu";

struct Library {
  EngineCards* cards = nullptr;
  EngineOpen* open = nullptr;
  LearntEngineOpen* open_learnt = nullptr;
  std::string missing;
};

// Folders of the program, and of the shared library that this code is in.
std::vector<std::filesystem::path> own_folders() {
  std::vector<std::filesystem::path> folders;
  Dl_info info{};
  if (dladdr(kBuild, &info) != 0 && info.dli_fname != nullptr)
    if (const std::filesystem::path file = info.dli_fname; file.is_absolute())
      folders.push_back(file.parent_path());
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) folders.push_back(program.parent_path());
  return folders;
}

// The file to load, or its name alone: then the loader searches its own paths.
std::string library_file() {
  const char* const given = std::getenv("TRUEMAX_CUDA_LIBRARY");
  if (given != nullptr && *given != 0) return given;
  std::error_code error;
  for (const std::filesystem::path& folder : own_folders())
    for (const char* const beside : {".", "../lib"})
      if (const auto file = (folder / beside / kLibraryName).lexically_normal();
          std::filesystem::exists(file, error))
        return file.string();
  return kLibraryName;
}

template <class Function>
Function* function_of(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

// It stays loaded: exceptions and engines that come from it need its code.
Library load() {
  const std::string file = library_file();
  Library library;
  void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char* const said = dlerror();
    std::error_code error;
    const bool there = std::filesystem::exists(file, error);
    library.missing =
        there ? fmt::format("{} cannot be loaded: {}; {}", file, said == nullptr ? "no reason given" : said,
                            kBuild)
              : fmt::format("this truemax was built without it: there is no {}; {}", file, kBuild);
    return library;
  }
  EngineVersion* const version = function_of<EngineVersion>(handle, kEngineVersionName);
  library.cards = function_of<EngineCards>(handle, kEngineCardsName);
  library.open = function_of<EngineOpen>(handle, kEngineOpenName);
  library.open_learnt = function_of<LearntEngineOpen>(handle, kLearntEngineOpenName);
  if (version == nullptr || version() != kEngineVersion || library.cards == nullptr ||
      library.open == nullptr || library.open_learnt == nullptr)
    library.missing = fmt::format("{} is of another version of truemax; {}", file, kBuild);
  return library;
}

Found find_with(const Library& library) {
  if (!library.missing.empty()) return {0, library.missing};
  std::array<char, 400> why{};
  const int cards = library.cards(why.data(), why.size());
  if (cards < 0)
    return {0, fmt::format("there is no NVIDIA driver, or one that is too old ({}); install a new one, see "
                           "what 'nvidia-smi' says, or use --device cpu",
                           why.data())};
  if (cards == 0)
    return {
        0,
        "the driver finds no GPU; see what 'nvidia-smi' says and whether CUDA_VISIBLE_DEVICES hides it, or "
        "use --device cpu"};
  return {cards, ""};
}

std::string cards_text(int cards) {
  if (cards == 1) return "one card, cuda:0";
  return fmt::format("{} cards, cuda:0 to cuda:{}", cards, cards - 1);
}

// `opener`: the function of the library that opens an engine of this kind.
template <class Made, class Opener>
std::unique_ptr<Made> open_or_say(const Choice& choice, Opener* Library::*opener, std::string& why) {
  const Library library = load();
  const Found found = find_with(library);
  if (found.cards == 0) {
    why = found.missing;
    return nullptr;
  }
  if (choice.card >= found.cards) {
    why = fmt::format("there is {}; choose another, or use --device cpu", cards_text(found.cards));
    if (found.cards > 1) why.replace(0, 8, "there are");
    return nullptr;
  }
  std::array<char, 1000> said{};
  std::unique_ptr<Made> engine((library.*opener)(choice.card, said.data(), said.size()));
  if (!engine) {
    why = said.data();
    constexpr std::string_view kPrefix = "--device cuda: ";  // open() puts the choice there
    if (why.starts_with(kPrefix)) why.erase(0, kPrefix.size());
  }
  return engine;
}

}  // namespace

std::optional<Choice> Choice::read(std::string_view text) {
  if (text == kCpu) return Choice{};
  if (text == kAuto) return Choice{Kind::automatic, 0};
  if (text == "cuda") return Choice{Kind::cuda, 0};
  constexpr std::string_view kNumbered = "cuda:";
  if (!text.starts_with(kNumbered)) return std::nullopt;
  Choice choice{Kind::cuda, 0};
  const char* const end = text.data() + text.size();
  const char* const first = text.data() + kNumbered.size();
  const auto [last, error] = std::from_chars(first, end, choice.card);
  if (error != std::errc() || last != end || *first == '-' || choice.card >= kMostCards) return std::nullopt;
  return choice;
}

Choice Choice::parse(std::string_view text) {
  if (const std::optional<Choice> choice = read(text)) return *choice;
  throw bad_value("device", text, "one of cpu, cuda, cuda:N, auto");
}

std::string Choice::text() const {
  if (kind == Kind::cpu) return kCpu;
  return kind == Kind::automatic ? kAuto : fmt::format("cuda:{}", card);
}

void describe(OptionTable& table, const Place<std::string>& device, std::string plain_default) {
  table.group("Machine");
  // Free of the log: a replay is always on the CPU, and a run may be resumed on another device.
  table.checked_text(
      "device", {"cpu", "cuda", "cuda:N", "auto"}, device,
      [](std::string_view text) { return Choice::read(text).has_value(); },
      "Where to compute: the CPU, a GPU (cuda is the first card, cuda:N card N, from 0), or auto: a GPU if "
      "there is one and it is faster, else the CPU. Results of a GPU are not the same bit for bit.",
      {.replay = Replay::free, .plain_default = std::move(plain_default), .elsewhere = {"gpu"}});
}

Found find() {
  return find_with(load());
}

namespace {

template <class Made, class Opener>
std::unique_ptr<Made> open_with(const Choice& choice, Opener* Library::*opener, std::string* why) {
  if (choice.kind == Kind::cpu) return nullptr;
  std::string missing;
  std::unique_ptr<Made> engine = open_or_say<Made>(choice, opener, missing);
  if (!engine && choice.kind == Kind::cuda)
    throw UserError(fmt::format("--device {}: {}", choice.card == 0 ? "cuda" : choice.text(), missing));
  if (why != nullptr) *why = missing;
  return engine;
}

}  // namespace

std::unique_ptr<Engine> open(const Choice& choice, std::string* why) {
  return open_with<Engine>(choice, &Library::open, why);
}

std::unique_ptr<LearntEngine> open_learnt(const Choice& choice, std::string* why) {
  return open_with<LearntEngine>(choice, &Library::open_learnt, why);
}

}  // namespace truemax::device
