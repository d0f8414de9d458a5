// Files and the machine: atomic writes, memory that is there, sizes in words.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace truemax {

// A file that appears whole or not at all: written under a temporary name beside its target, synced, renamed.
// Unless commit() was reached, the temporary is removed and the target keeps its old bytes.
class AtomicFile {
 public:
  explicit AtomicFile(std::string path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Claims the disk space at once, so that a full disk is met before the work. Throws UserError.
  void reserve(std::uint64_t bytes);
  void write_at(std::uint64_t offset, std::span<const char> bytes);
  void commit();

 private:
  [[noreturn]] void fail(const char* doing);
  std::string path_, temporary_;
  int descriptor_ = -1;
};

// Refuses, before any work, a path that could not be written: no such folder, not writable, is a folder, or
// less free space than `bytes`. Creates nothing. `option` is named in the message.
void require_writable(const std::string& path, std::uint64_t bytes, std::string_view option);

// Memory this process may still take: what the machine and its control group have free.
std::uint64_t available_memory();

// "12.3 MB" (powers of 1024).
std::string size_text(std::uint64_t bytes);

}  // namespace truemax
