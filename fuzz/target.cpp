#include "target.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "core/error.hpp"
#include "core/text.hpp"

namespace truemax::fuzz {

void broken(const std::string& promise) {
  std::fprintf(stderr, "broken promise: %s\n", promise.c_str());
  std::abort();
}

MemoryFile::MemoryFile(std::string_view bytes) : descriptor_(memfd_create("input", MFD_CLOEXEC)) {
  if (descriptor_ < 0) throw std::runtime_error("no file in memory");
  for (std::size_t done = 0; done < bytes.size();) {
    const auto wrote = ::write(descriptor_, bytes.data() + done, bytes.size() - done);
    if (wrote <= 0) throw std::runtime_error("no room for a file in memory");
    done += static_cast<std::size_t>(wrote);
  }
  path_ = "/proc/self/fd/" + std::to_string(descriptor_);
}

MemoryFile::~MemoryFile() {
  ::close(descriptor_);
}

std::string scratch_folder() {
  static const struct Folder {
    Folder() {
      std::error_code error;
      const auto base = std::filesystem::is_directory("/dev/shm", error)
                            ? "/dev/shm"
                            : std::filesystem::temp_directory_path();
      path = (base / "truemax_fuzz_XXXXXX").string();
      if (::mkdtemp(path.data()) == nullptr) throw std::runtime_error("no temporary folder");
    }
    ~Folder() {
      std::error_code ignored;  // a folder left behind harms nobody
      std::filesystem::remove_all(path, ignored);
    }
    std::string path;
  } folder;
  return folder.path;
}

bool accepts(const std::string& path, const std::function<void()>& read) {
  try {
    read();
    return true;
  } catch (const UserError& error) {
    const std::string_view text = error.what();
    require(!text.empty() && printable(text) == text, "a message is fit for a terminal");
    require(text.size() < 2000, "a message is short");
    require(text.find(path) != std::string_view::npos, "a message names the file");
    return false;
  }
}

std::string file_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_seeds(const std::string& folder) {
  for (const Target& target : targets()) {
    if (target.seeds == nullptr) continue;
    const std::filesystem::path place = std::filesystem::path(folder) / target.name;
    std::filesystem::create_directories(place);
    std::size_t number = 0;
    for (const std::string& seed : target.seeds()) {
      const std::string path = (place / ("good-" + std::to_string(number++))).string();
      std::FILE* const file = std::fopen(path.c_str(), "wb");
      const bool written = file != nullptr && std::fwrite(seed.data(), 1, seed.size(), file) == seed.size();
      if (file == nullptr || std::fclose(file) != 0 || !written) broken("cannot write " + path);
    }
  }
}

}  // namespace truemax::fuzz
