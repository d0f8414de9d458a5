#include "train/best.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "core/error.hpp"

namespace truemax {

BestWeights::~BestWeights() {
  if (file_ >= 0) close(file_);
}

void BestWeights::fail(const char* doing, int error) const {
  throw UserError(
      fmt::format("{} the best model in {} failed: {}; make room there, raise --memory-limit so that it is "
                  "kept in memory, or leave out --patience",
                  doing, folder_, std::strerror(error)));
}

void BestWeights::open_file(std::uint64_t bytes) {
  // Without a name from its first moment, where the file system can do that.
  file_ = open(folder_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file_ < 0) {
    std::string name = folder_ + "/.truemax-best-XXXXXX";
    file_ = mkostemp(name.data(), O_CLOEXEC);
    if (file_ < 0) fail("Keeping", errno);
    unlink(name.c_str());
  }
  // A full disk is met now, and not after hours. Not every file system can claim space.
  const int error = posix_fallocate(file_, 0, static_cast<off_t>(bytes));
  if (error != 0 && error != EOPNOTSUPP && error != EINVAL && error != ENOSYS) fail("Keeping", error);
}

void BestWeights::keep(const Weights& weights) {
  intercept_.assign(weights.intercept().begin(), weights.intercept().end());
  scales_ = weights.scales();
  const auto from = weights.memory();
  if (folder_.empty()) {
    if (copy_.classes() == 0) copy_ = Weights(weights.classes(), weights.features(), false);
    std::copy(from.begin(), from.end(), copy_.memory().begin());
    return;
  }
  if (file_ < 0) open_file(from.size_bytes());
  const auto* bytes = reinterpret_cast<const char*>(from.data());
  for (std::uint64_t at = 0; at < from.size_bytes();) {
    const ssize_t wrote = pwrite(file_, bytes + at, from.size_bytes() - at, static_cast<off_t>(at));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) fail("Keeping", errno);
    at += static_cast<std::uint64_t>(wrote);
  }
}

void BestWeights::restore(Weights& weights) {
  std::copy(intercept_.begin(), intercept_.end(), weights.intercept().begin());
  weights.set_scales(scales_);
  const auto to = weights.memory();
  if (folder_.empty()) {
    std::copy(copy_.memory().begin(), copy_.memory().end(), to.begin());
    return;
  }
  auto* bytes = reinterpret_cast<char*>(to.data());
  for (std::uint64_t at = 0; at < to.size_bytes();) {
    const ssize_t got = pread(file_, bytes + at, to.size_bytes() - at, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) fail("Reading", got < 0 ? errno : EIO);
    at += static_cast<std::uint64_t>(got);
  }
}

}  // namespace truemax
