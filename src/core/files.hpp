// Files and the machine: atomic writes, memory that is there, sizes in words.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace truemax {

// A file that appears whole or not at all: written under a temporary name beside its target, synced, renamed.
// Unless commit() was reached, the temporary is removed and the target keeps its old bytes. Several at once
// may write one target: the last to commit wins. Temporaries of this target whose process was killed are
// removed by the next.
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
  void open_temporary();
  std::string path_, temporary_;
  int descriptor_ = -1;
};

// Removes what killed processes left of an AtomicFile of this path, and nothing of a live one.
void remove_stale_temporaries(const std::string& path);

// Renames, and syncs the folder: a power cut leaves the old or the new file. False, with errno, where that
// fails.
bool rename_on_disk(const std::string& from, const std::string& to);

// What is written aside until it is whole has the name of its target and this ending (core/claim.hpp).
inline constexpr std::string_view kPartEnding = ".part";

// Refuses, before any work, a path that could not be written: no such folder, not writable, is a folder, or
// less free space than `bytes`. Creates nothing. `option`, where not empty, is named in the message.
void require_writable(const std::string& path, std::uint64_t bytes, std::string_view option);

// The path that is written in the end: links are followed, also those that lead to a file still to be made.
std::string behind_links(const std::string& path);

// A pipe or a device: it is written as it comes, and never replaced.
bool is_stream(const std::string& path);
// Whether two paths lead to one file, there or still to be made.
bool same_file(const std::string& a, const std::string& b);

// Memory this process may still take: what the machine and its control group have free.
std::uint64_t available_memory();
// What the control group described in `folder` (version 1 or 2) leaves; the largest number without a limit.
std::uint64_t group_memory(const std::string& folder);

// "12.3 MB" (powers of 1024).
std::string size_text(std::uint64_t bytes);

}  // namespace truemax
