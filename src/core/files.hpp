// Files and the machine: atomic writes, free memory, readable sizes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace truemax {

// A file that appears whole or not at all: written under a temporary name beside its target, synced, renamed.
// Without commit(), the temporary is removed and the target keeps its old bytes. Several writers may share
// one target: the last to commit wins. Temporaries of killed processes are removed by the next writer.
class AtomicFile {
 public:
  explicit AtomicFile(std::string path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Preallocates the disk space, so that a full disk is reported before the work. Throws UserError.
  void reserve(std::uint64_t bytes);
  void write_at(std::uint64_t offset, std::span<const char> bytes);
  // Waits until all bytes are on the disk, and forgets them in memory; read_back() then reads the disk.
  void sync();
  void read_back(std::uint64_t offset, std::span<char> to);
  void commit();

 private:
  [[noreturn]] void fail(const char* doing);
  void open_temporary();
  std::string path_, temporary_;
  int descriptor_ = -1, slot_ = -1;  // slot_: of note_path()
};

// Removes the temporaries that killed processes left for this path; those of live processes stay.
void remove_stale_temporaries(const std::string& path);

// A hash of all bytes of a file. Throws UserError.
std::uint64_t file_checksum(const std::string& path);

// Renames and syncs the folder: a power cut leaves the old or the new file. False, with errno, if it
// could not be renamed; throws UserError if it was, and the folder could not be synced.
bool rename_on_disk(const std::string& from, const std::string& to);

// Ending of a file that is still being written (core/claim.hpp).
inline constexpr std::string_view kPartEnding = ".part";

// Throws UserError, before any work, if the path cannot be written: no such folder, no permission, a folder
// itself, or less free space than `bytes`. Creates nothing. The message names `option` unless it is empty.
void require_writable(const std::string& path, std::uint64_t bytes, std::string_view option);

// The file that will be written: follows links, also to files that do not exist yet.
std::string behind_links(const std::string& path);

// A pipe or a device: written directly, never replaced.
bool is_stream(const std::string& path);
// Whether two paths lead to the same file, existing or not.
bool same_file(const std::string& a, const std::string& b);

// What a limit on the address space (ulimit -v) leaves; the largest number if there is no limit.
std::uint64_t address_space_left();
// Memory this process may still allocate: the smallest of what the machine, its control group and the limit
// on the address space leave.
std::uint64_t available_memory();
// Of one of several processes that share the machine or control group equally; the limit on the address space
// is of each.
std::uint64_t memory_of_each(std::size_t processes);
// What the control group described in `folder` (version 1 or 2) leaves; the largest number if it has no
// limit.
std::uint64_t group_memory(const std::string& folder);

// "12.3 MB" (powers of 1024).
std::string size_text(std::uint64_t bytes);

}  // namespace truemax
