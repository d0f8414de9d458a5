// Fuzz targets: functions of bytes that a stranger may have written. A target reads them, and checks what the
// reader promises about whatever it accepts. A broken promise aborts, as a sanitizer does.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace truemax::fuzz {

struct Target {
  const char* name;               // of its folder in fuzz/corpus
  bool (*run)(std::string_view);  // true if the bytes were accepted
  // Good inputs whose layout belongs to this build, so that they cannot be kept in the tree; null: none.
  std::vector<std::string> (*seeds)() = nullptr;
};

// One line per target: fuzz/targets.cpp.
std::span<const Target> targets();
const Target* find_target(std::string_view name);

// Prints what was promised and aborts.
[[noreturn]] void broken(const std::string& promise);
inline void require(bool holds, const char* promise) {
  if (!holds) broken(promise);
}

// A file that lives in memory: readers open it by its path.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes);
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  int descriptor_;
  std::string path_;
};

// An empty folder for files that are written aside and renamed; in memory if the machine has such a place.
std::string scratch_folder();

// Runs `read`; false if it refuses its input by a UserError. The message must be fit for a terminal, and name
// the file unless `path` is empty. Any other exception escapes, and so counts as a crash.
bool accepts(const std::string& path, const std::function<void()>& read);

// Memory that readers may take, besides a multiple of their input.
inline constexpr std::uint64_t kBudget = std::uint64_t{32} << 20;

std::string file_bytes(const std::string& path);

// Writes the good inputs of all targets that make them: FOLDER/TARGET/good-N.
void write_seeds(const std::string& folder);

}  // namespace truemax::fuzz
