#include "core/files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <sstream>
#include <utility>
#include <vector>

#include "core/checksum.hpp"
#include "core/claim.hpp"
#include "core/error.hpp"

namespace truemax {
namespace {

constexpr std::uint64_t kUnknown = std::numeric_limits<std::uint64_t>::max();

std::string folder_of(const std::string& path) {
  const auto slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::uint64_t read_number(const std::string& path, std::uint64_t missing) {
  std::ifstream in(path);
  std::uint64_t value = 0;
  return in >> value ? value : missing;
}

// The number after `name` in a file of lines "name number ...".
std::uint64_t named_number(const std::string& path, std::string_view name, std::uint64_t missing) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string first;
    std::uint64_t value = 0;
    if (words >> first >> value && first == name) return value;
  }
  return missing;
}

constexpr std::string_view kTemporary = ".tmp-";
constexpr std::size_t kTemporaryDigits = 8;

// Whether a lock is seen by every machine and container that can reach the file.
bool locks_reach_everywhere(int descriptor) {
  struct statfs system {};
  if (fstatfs(descriptor, &system) != 0) return false;
  constexpr std::uint32_t kLocal[] = {0xEF53 /* ext */,
                                      0x58465342 /* xfs */,
                                      0x9123683E /* btrfs */,
                                      0x01021994 /* tmpfs */,
                                      0x794C7630 /* overlay */,
                                      0xF2F52010 /* f2fs */,
                                      0x2FC12FC1 /* zfs */};
  const auto type = static_cast<std::uint32_t>(system.f_type);
  return std::find(std::begin(kLocal), std::end(kLocal), type) != std::end(kLocal);
}

}  // namespace

// A live process holds a lock on its temporary. Where locks may not be visible from here, the file must also
// be at least a day old.
void remove_stale_temporaries(const std::string& path) {
  constexpr auto kLong = std::chrono::hours(24);
  const std::string start = std::filesystem::path(path).filename().string() + std::string(kTemporary);
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder_of(path), error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.size() != start.size() + kTemporaryDigits || name.compare(0, start.size(), start) != 0 ||
        name.find_first_not_of("0123456789abcdef", start.size()) != std::string::npos)
      continue;
    const int found = open(entry->path().c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (found < 0) continue;
    struct stat status {};
    const bool left =
        flock(found, LOCK_EX | LOCK_NB) == 0 && fstat(found, &status) == 0 && S_ISREG(status.st_mode) &&
        (locks_reach_everywhere(found) ||
         std::chrono::system_clock::from_time_t(status.st_mtime) + kLong < std::chrono::system_clock::now());
    if (left) unlink(entry->path().c_str());
    close(found);
  }
}

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)) {
  path_ = behind_links(path_);  // replace the file behind a link, not the link
  remove_stale_temporaries(path_);
  open_temporary();
  struct stat old {};  // the new file keeps the permissions of the old one
  if (stat(path_.c_str(), &old) == 0) static_cast<void>(fchmod(descriptor_, old.st_mode & 07777));
}

void AtomicFile::open_temporary() {
  std::random_device random;
  for (;;) {
    temporary_ = fmt::format("{}{}{:08x}", path_, kTemporary, random());
    descriptor_ = open(temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && errno == EEXIST) continue;
    if (descriptor_ < 0) fail("creating");
    // The lock marks this process as alive. A process cleaning up leftovers may have removed the file first.
    while (flock(descriptor_, LOCK_EX) != 0 && errno == EINTR) {
    }
    struct stat status {};
    if (fstat(descriptor_, &status) != 0 || status.st_nlink > 0) {
      slot_ = note_path(temporary_, OnSignal::remove);
      return;
    }
    close(descriptor_);
  }
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  unlink(temporary_.c_str());
  forget_path(slot_);
}

void AtomicFile::fail(const char* doing) {
  const int error = errno;
  throw UserError(
      fmt::format("{}: {} it failed: {}; the old file, if any, is untouched: make room or choose "
                  "another place, and run the command again",
                  path_, doing, std::strerror(error)));
}

void AtomicFile::reserve(std::uint64_t bytes) {
  const int error = posix_fallocate(descriptor_, 0, static_cast<off_t>(bytes));
  if (error == 0) return;
  // If the file system cannot preallocate, a full disk shows up while writing instead.
  if (error == EOPNOTSUPP || error == EINVAL || error == ENOSYS) {
    if (ftruncate(descriptor_, static_cast<off_t>(bytes)) == 0) return;
  } else {
    errno = error;
  }
  fail("writing");
}

void AtomicFile::write_at(std::uint64_t offset, std::span<const char> bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) fail("writing");
    offset += static_cast<std::uint64_t>(wrote);
    bytes = bytes.subspan(static_cast<std::size_t>(wrote));
  }
}

void AtomicFile::sync() {
  if (fsync(descriptor_) != 0) fail("writing");
  posix_fadvise(descriptor_, 0, 0, POSIX_FADV_DONTNEED);  // only advice: nothing depends on it
}

void AtomicFile::read_back(std::uint64_t offset, std::span<char> to) {
  while (!to.empty()) {
    const ssize_t got = pread(descriptor_, to.data(), to.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) errno = EIO;
    if (got <= 0) fail("reading back");
    offset += static_cast<std::uint64_t>(got);
    to = to.subspan(static_cast<std::size_t>(got));
  }
}

void AtomicFile::commit() {
  if (fsync(descriptor_) != 0) fail("writing");
  if (!rename_on_disk(temporary_, path_)) fail("renaming");
  forget_path(std::exchange(slot_, -1));
  close(descriptor_);
  descriptor_ = -1;
}

std::uint64_t file_checksum(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::vector<char> piece(RunningSum::kPiece);
  RunningSum sum;
  while (in) {
    in.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    sum.add(std::span(piece).first(static_cast<std::size_t>(in.gcount())));
  }
  if (!in.eof()) throw UserError(fmt::format("{}: reading it failed; give a file that can be read", path));
  return sum.value();
}

bool rename_on_disk(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) return false;
  const int folder = open(folder_of(to).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  // A folder may be writable and not readable, and some file systems cannot sync folders.
  const bool synced =
      folder < 0 ? errno == EACCES : fsync(folder) == 0 || errno == EINVAL || errno == ENOTSUP;
  const int error = errno;
  if (folder >= 0) close(folder);
  if (!synced)
    throw UserError(fmt::format(
        "{}: it is written, but syncing its folder failed: {}; a power cut may lose it: check the "
        "disk, and run the command again",
        to, std::strerror(error)));
  return true;
}

void require_writable(const std::string& path, std::uint64_t bytes, std::string_view option) {
  const std::string folder = folder_of(behind_links(path));
  const auto refuse = [&](const std::string& why) {
    throw UserError(fmt::format("{}{}: {}", option.empty() ? "" : fmt::format("--{} ", option), path, why));
  };
  struct stat status {};
  if (path.empty() || path.back() == '/' || (stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)))
    refuse("this is a folder; give the name of a file in it");
  if (path.ends_with(kPartEnding))
    refuse(
        fmt::format("names ending in {} are reserved for unfinished runs; give another name", kPartEnding));
  if (stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode))
    refuse(option == "model" || option == "log" ? "this is not a regular file; give a file name, or 'none'"
                                                : "this is not a regular file; give a file name");
  if (stat(folder.c_str(), &status) == 0 && !S_ISDIR(status.st_mode))
    refuse(fmt::format("{} is a file, not a folder; choose another place", folder));
  if (stat(folder.c_str(), &status) != 0)
    refuse(fmt::format("there is no folder {0}; make it with: mkdir -p {0}", folder));
  if (access(folder.c_str(), W_OK) != 0)
    refuse(fmt::format("the folder {} is not writable; choose another place", folder));
  struct statvfs disk {};
  if (statvfs(folder.c_str(), &disk) == 0) {
    const std::uint64_t there = static_cast<std::uint64_t>(disk.f_bavail) * disk.f_frsize;
    if (bytes > there)
      refuse(fmt::format("the file needs {} and the disk has {} free; make room or choose another place",
                         size_text(bytes), size_text(there)));
  }
}

bool is_stream(const std::string& path) {
  std::error_code error;
  const auto type = std::filesystem::status(path, error).type();
  return type == std::filesystem::file_type::character || type == std::filesystem::file_type::fifo;
}

std::string behind_links(const std::string& path) {
  std::filesystem::path at = path;
  std::error_code error;
  for (int links = 0; links < 40 && std::filesystem::is_symlink(at, error); ++links) {
    const std::filesystem::path to = std::filesystem::read_symlink(at, error);
    if (error) return path;
    at = to.is_absolute() ? to : at.parent_path() / to;
  }
  return at.string();
}

bool same_file(const std::string& a, const std::string& b) {
  std::error_code error;
  if (std::filesystem::equivalent(a, b, error)) return true;
  const auto real = [](const std::string& path) {
    std::error_code ignored;
    return std::filesystem::weakly_canonical(std::filesystem::absolute(behind_links(path), ignored), ignored);
  };
  return real(a) == real(b);
}

std::uint64_t group_memory(const std::string& folder) {
  const auto left = [&](const char* limit_name, const char* used_name, const char* cache_name) {
    const std::uint64_t limit = read_number(folder + limit_name, kUnknown);
    if (limit == kUnknown) return kUnknown;
    std::uint64_t used = read_number(folder + used_name, 0);
    // The page cache counts as used, but is freed on demand.
    used -= std::min(used, named_number(folder + "/memory.stat", cache_name, 0));
    return limit > used ? limit - used : 0;
  };
  return std::min(left("/memory.max", "/memory.current", "inactive_file"),
                  left("/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file"));
}

std::uint64_t address_space_left() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kUnknown;
  const std::uint64_t pages = read_number("/proc/self/statm", 0);
  const std::uint64_t used = pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  const std::uint64_t left = limit.rlim_cur > used ? limit.rlim_cur - used : 0;
  // Stacks of threads to come, and what lies unused between and behind allocations.
  return left - left / 8;
}

std::uint64_t memory_of_each(std::size_t processes) {
  const std::uint64_t kilobytes = named_number("/proc/meminfo", "MemAvailable:", kUnknown);
  const std::uint64_t machine = kilobytes == kUnknown ? kUnknown : kilobytes * 1024;
  // Inside a container, the control group may allow less than the machine has.
  const std::uint64_t shared =
      std::min({machine, group_memory("/sys/fs/cgroup"), group_memory("/sys/fs/cgroup/memory")});
  return std::min(shared / processes, address_space_left());
}

std::uint64_t available_memory() {
  return memory_of_each(1);
}

std::string size_text(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"bytes", "KB", "MB", "GB", "TB", "PB", "EB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) value /= 1024, ++unit;
  if (unit == 0) return fmt::format("{} bytes", bytes);
  return fmt::format("{:.{}f} {}", value, value < 10 ? 1 : 0, kUnits[unit]);
}

}  // namespace truemax
