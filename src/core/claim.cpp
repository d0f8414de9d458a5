#include "core/claim.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "core/error.hpp"
#include "core/files.hpp"

namespace truemax {
namespace {

// Paths for the signal handler, which may neither allocate nor wait. A path that is too long, or that finds
// no free slot, leaves a file behind that the next run of that name removes.
struct Slot {
  std::atomic<bool> taken{false}, ready{false};
  OnSignal what = OnSignal::remove_if_empty;
  char path[4096] = {};
};
Slot slots[8];

bool is_at(int descriptor, const char* path) noexcept {
  struct stat here {
  }, there{};
  return fstat(descriptor, &here) == 0 && lstat(path, &there) == 0 && here.st_dev == there.st_dev &&
         here.st_ino == there.st_ino;
}

int open_part(const std::string& part) {
  const int descriptor = open(part.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
  // A file of another user may be read-only and can still be locked.
  return descriptor < 0 && errno == EACCES ? open(part.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC)
                                           : descriptor;
}

// Holds back the signals of this thread: one that ended the program between the making of a file and the note
// of its path would leave the file behind.
class NoSignals {
 public:
  NoSignals() noexcept {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old_);
  }
  ~NoSignals() { pthread_sigmask(SIG_SETMASK, &old_, nullptr); }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t old_{};
};

}  // namespace

int note_path(const std::string& path, OnSignal what) noexcept {
  if (path.size() >= sizeof slots[0].path) return -1;
  for (int i = 0; i < static_cast<int>(std::size(slots)); ++i) {
    if (slots[i].taken.exchange(true)) continue;
    std::memcpy(slots[i].path, path.c_str(), path.size() + 1);
    slots[i].what = what;
    slots[i].ready.store(true);
    return i;
  }
  return -1;
}

void forget_path(int slot) noexcept {
  if (slot < 0) return;
  slots[slot].ready.store(false);
  slots[slot].taken.store(false);
}

std::optional<Claim> Claim::take(const std::string& path) {
  Claim claim;
  std::error_code error;
  const auto real =
      std::filesystem::weakly_canonical(std::filesystem::absolute(behind_links(path), error), error);
  claim.target_ = error ? path : real.string();
  claim.part_ = claim.target_ + std::string(kPartEnding);
  const NoSignals quiet;
  for (;;) {
    claim.descriptor_ = open_part(claim.part_);
    if (claim.descriptor_ < 0) {
      const int why = errno;
      throw UserError(fmt::format("{}: {} cannot be written: {}; remove it, or give another name", path,
                                  claim.part_, std::strerror(why)));
    }
    int result = 0;
    while ((result = flock(claim.descriptor_, LOCK_EX | LOCK_NB)) != 0 && errno == EINTR) {
    }
    const bool taken = result != 0 && errno == EWOULDBLOCK;
    claim.locked_ = result == 0;
    // The previous holder may have removed or renamed the file between the open and the lock.
    if (!taken && is_at(claim.descriptor_, claim.part_.c_str())) break;
    close(std::exchange(claim.descriptor_, -1));
    if (taken) return std::nullopt;
  }
  claim.slot_ = note_path(claim.part_, OnSignal::remove_if_empty);
  return claim;
}

bool Claim::publish(const std::string& to) {
  const std::string& target = to.empty() ? target_ : to;
  struct stat old {};
  if (stat(target.c_str(), &old) == 0) static_cast<void>(fchmod(descriptor_, old.st_mode & 07777));
  if (!is_at(descriptor_, part_.c_str())) {  // another process has put its own file there
    errno = ESTALE;
    return false;
  }
  if (fsync(descriptor_) != 0 || !rename_on_disk(part_, target)) return false;
  release();
  return true;
}

void Claim::release() noexcept {
  if (descriptor_ < 0) return;
  struct stat status {};
  if (is_at(descriptor_, part_.c_str()) && fstat(descriptor_, &status) == 0 && status.st_size == 0)
    unlink(part_.c_str());
  forget_path(std::exchange(slot_, -1));
  close(std::exchange(descriptor_, -1));  // also releases the lock
}

void Claim::swap(Claim& other) noexcept {
  std::swap(target_, other.target_);
  std::swap(part_, other.part_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(slot_, other.slot_);
  std::swap(locked_, other.locked_);
}

void drop_claims_on_signal() noexcept {
  for (const Slot& slot : slots) {
    struct stat status {};
    if (!slot.ready.load()) continue;
    if (slot.what == OnSignal::remove || (lstat(slot.path, &status) == 0 && status.st_size == 0))
      unlink(slot.path);
  }
}

}  // namespace truemax
