// A name in a folder that one live process has for itself.
#pragma once

#include <optional>
#include <string>

namespace truemax {

// The claim to an output is a lock on the file PATH.part. The kernel drops the lock however the process ends,
// so what a dead process left there blocks nobody: the next one takes it over. The lock is one of the file
// system, seen from every container on the machine.
class Claim {
 public:
  Claim() = default;
  ~Claim() { release(); }
  Claim(Claim&& other) noexcept { swap(other); }
  Claim& operator=(Claim&& other) noexcept {
    swap(other);
    return *this;
  }

  // Nothing where another live process has the file behind `path`, by whichever name. Throws UserError where
  // PATH.part cannot be made.
  static std::optional<Claim> take(const std::string& path);

  // May be written to while the claim lasts; an empty one is removed with the claim.
  const std::string& part() const { return part_; }
  // False on file systems without locks: then nobody is kept away.
  bool protects() const { return locked_; }
  // What was written to part() becomes the file, or the file `to`, on disk, with the permissions of the file
  // that it replaces; false, with errno, where that fails. The claim is over.
  bool publish(const std::string& to = "");

 private:
  void release() noexcept;
  void swap(Claim& other) noexcept;

  std::string target_, part_;
  int descriptor_ = -1, slot_ = -1;
  bool locked_ = false;
};

// Removes the empty files of all claims of this process. For a signal handler that ends it.
void drop_claims_on_signal() noexcept;

}  // namespace truemax
