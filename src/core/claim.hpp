// Exclusive claims to output files, one live process each.
#pragma once

#include <optional>
#include <string>

namespace truemax {

// The claim to an output is a lock on the file PATH.part. The kernel drops the lock however the process ends,
// so the file of a dead process blocks nobody: the next process takes it over. The lock belongs to the file
// system, so every container on the machine sees it.
class Claim {
 public:
  Claim() = default;
  ~Claim() { release(); }
  Claim(Claim&& other) noexcept { swap(other); }
  Claim& operator=(Claim&& other) noexcept {
    swap(other);
    return *this;
  }

  // Nullopt if another live process has claimed the file behind `path`, under any name. Throws UserError if
  // PATH.part cannot be created.
  static std::optional<Claim> take(const std::string& path);

  // May be written to while the claim lasts. If empty, it is removed with the claim.
  const std::string& part() const { return part_; }
  // False on file systems without locks: the claim then excludes nobody.
  bool protects() const { return locked_; }
  // Renames part() to the file, or to `to`, with the permissions of the file it replaces, and syncs. False,
  // with errno, on failure. Ends the claim.
  bool publish(const std::string& to = "");

 private:
  void release() noexcept;
  void swap(Claim& other) noexcept;

  std::string target_, part_;
  int descriptor_ = -1, slot_ = -1;
  bool locked_ = false;
};

// A file that drop_claims_on_signal() removes, only if it is empty or in any case, until forget_path().
enum class OnSignal { remove_if_empty, remove };
int note_path(const std::string& path, OnSignal what) noexcept;
void forget_path(int slot) noexcept;

// Removes the empty files of all claims of this process, and files that are not finished. For a signal
// handler that ends the process.
void drop_claims_on_signal() noexcept;

}  // namespace truemax
