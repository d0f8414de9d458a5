#include "weights/kept.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "core/damaged_state.hpp"
#include "core/error.hpp"
#include "ranks/together.hpp"
#include "weights/class_arrays.hpp"
#include "weights/fast_tile.hpp"

namespace truemax {

KeptWeights::~KeptWeights() {
  if (file_ >= 0) close(file_);
}

void KeptWeights::fail(const char* doing, int error) const {
  throw UserError(
      fmt::format("{} the best model in {} failed: {}; make room there, raise --memory-limit so that it is "
                  "kept in memory, or leave out --patience",
                  doing, folder_, std::strerror(error)));
}

void KeptWeights::open_file(std::uint64_t bytes) {
  // Unnamed from the start, if the file system supports it.
  file_ = open(folder_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file_ < 0) {
    std::string name = folder_ + "/.truemax-best-XXXXXX";
    file_ = mkostemp(name.data(), O_CLOEXEC);
    if (file_ < 0) fail("Keeping", errno);
    unlink(name.c_str());
  }
  // Preallocate, so that a full disk is reported now rather than after hours. Not every file system can.
  const int error = posix_fallocate(file_, 0, static_cast<off_t>(bytes));
  if (error != 0 && error != EOPNOTSUPP && error != EINVAL && error != ENOSYS) fail("Keeping", error);
}

void KeptWeights::keep(const Weights& weights) {
  kept_ = true;
  classes_ = weights.classes(), features_ = weights.features();
  share_ = weights.shared_share();
  intercept_.assign(weights.intercept().begin(), weights.intercept().end());
  scales_ = weights.scales();
  keep_numbers(weights.memory(), 0);
}

void KeptWeights::restore(Weights& weights) {
  std::copy(intercept_.begin(), intercept_.end(), weights.intercept().begin());
  weights.set_scales(scales_);
  read_numbers(weights.memory(), 0);
}

// Numbers from position `at` of the matrix on.
void KeptWeights::keep_numbers(std::span<const float> numbers, std::uint64_t at) {
  if (folder_.empty()) {
    if (copy_.classes() == 0) copy_ = Weights(classes_, features_, false);
    std::copy(numbers.begin(), numbers.end(), copy_.memory().begin() + static_cast<std::ptrdiff_t>(at));
    return;
  }
  if (file_ < 0) open_file(Weights::bytes_needed(classes_, features_));
  const auto* bytes = reinterpret_cast<const char*>(numbers.data());
  for (std::uint64_t done = 0; done < numbers.size_bytes();) {
    const ssize_t wrote = pwrite(file_, bytes + done, numbers.size_bytes() - done,
                                 static_cast<off_t>(at * sizeof(float) + done));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) fail("Keeping", errno);
    done += static_cast<std::uint64_t>(wrote);
  }
}

void KeptWeights::read_numbers(std::span<float> numbers, std::uint64_t at) const {
  if (folder_.empty()) {
    const auto from = copy_.memory().subspan(at, numbers.size());
    std::copy(from.begin(), from.end(), numbers.begin());
    return;
  }
  auto* bytes = reinterpret_cast<char*>(numbers.data());
  for (std::uint64_t done = 0; done < numbers.size_bytes();) {
    const ssize_t got = pread(file_, bytes + done, numbers.size_bytes() - done,
                              static_cast<off_t>(at * sizeof(float) + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) fail("Reading", got < 0 ? errno : EIO);
    done += static_cast<std::uint64_t>(got);
  }
}

bool KeptWeights::fits(const Weights& weights) const {
  return classes_ == weights.classes() && features_ == weights.features() &&
         intercept_.size() == weights.intercept().size() &&
         (scales_.of_class.empty() || scales_.of_class.size() == classes_);
}

void KeptWeights::write(StateSink& to) const {
  const BlockShare* const share = share_.get();
  const std::uint64_t all = all_of(share, classes_, false);
  to.put(all);
  to.put(features_);
  put_of_classes(to, share, std::span<const float>(intercept_), true);
  put_of_classes(to, share, std::span<const double>(scales_.of_class));
  to.put(scales_.common);
  const std::uint64_t bytes = Weights::bytes_needed(all, features_);
  to.put(bytes / sizeof(float));
  put_blocks(to, share, kLanes * features_ * sizeof(float), bytes,
             [&](std::uint64_t at, std::span<char> piece) {
               read_numbers({reinterpret_cast<float*>(piece.data()), piece.size() / sizeof(float)},
                            at / sizeof(float));
             });
}

void KeptWeights::read(StateSource& from, std::shared_ptr<const BlockShare> whose) {
  share_ = std::move(whose);
  const BlockShare* const share = share_.get();
  std::uint64_t all = 0;
  from.get(all);
  from.get(features_);
  get_of_classes(from, share, intercept_, true);
  get_of_classes(from, share, scales_.of_class);
  from.get(scales_.common);
  const std::uint64_t numbers = from.length_of<float>();
  if (all != all_of(share, all, false) || numbers * sizeof(float) != Weights::bytes_needed(all, features_))
    throw damaged_state();
  classes_ = share == nullptr ? all : share->classes();
  const auto finite = [](const auto& values) {
    return std::all_of(values.begin(), values.end(), [](auto v) { return std::isfinite(v); });
  };
  together(ranks(), [&] {
    if (!finite(intercept_) || !finite(scales_.of_class) || !std::isfinite(scales_.common))
      throw damaged_state();
  });
  copy_ = Weights();
  const auto as_numbers = [](std::span<const char> piece) {
    return std::span(reinterpret_cast<const float*>(piece.data()), piece.size() / sizeof(float));
  };
  get_blocks(
      from, share, kLanes * features_ * sizeof(float), numbers * sizeof(float),
      [&](std::uint64_t at, std::span<const char> piece) {
        keep_numbers(as_numbers(piece), at / sizeof(float));
      },
      [&](std::span<const char> piece) {
        const std::span<const float> values = as_numbers(piece);
        if (!std::isfinite(largest_absolute(values.data(), values.size()))) throw damaged_state();
      });
  kept_ = true;
}

}  // namespace truemax
