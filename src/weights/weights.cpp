#include "weights/weights.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>
#include <utility>

namespace truemax {
namespace {
constexpr std::size_t kHugePage = std::size_t{1} << 21;
}

HugeBuffer::HugeBuffer(std::size_t bytes) {
  if (bytes == 0) return;
  const std::size_t slack = bytes >= kHugePage ? kHugePage : 0;
  mapped_ = bytes + slack;
  mapping_ =
      mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping_ == MAP_FAILED) {
    mapping_ = nullptr;
    throw std::bad_alloc();
  }
  char* start = static_cast<char*>(mapping_);
  if (slack > 0) {
    const std::size_t beyond = reinterpret_cast<std::uintptr_t>(mapping_) % kHugePage;
    if (beyond > 0) start += kHugePage - beyond;
    // Advice only: without huge pages the run is slower, not wrong.
    madvise(start, bytes, MADV_HUGEPAGE);
  }
  data_ = reinterpret_cast<float*>(start);
}

HugeBuffer::~HugeBuffer() {
  if (mapping_ != nullptr) munmap(mapping_, mapped_);
}

HugeBuffer::HugeBuffer(HugeBuffer&& other) noexcept
    : mapping_(std::exchange(other.mapping_, nullptr)),
      mapped_(std::exchange(other.mapped_, 0)),
      data_(std::exchange(other.data_, nullptr)) {}

HugeBuffer& HugeBuffer::operator=(HugeBuffer&& other) noexcept {
  std::swap(mapping_, other.mapping_);
  std::swap(mapped_, other.mapped_);
  std::swap(data_, other.data_);
  return *this;
}

Weights::Weights(std::size_t classes, std::size_t features, bool with_intercept)
    : classes_(classes),
      features_(features),
      buffer_(blocks() * features * kLanes * sizeof(float)),
      intercept_(with_intercept ? blocks() * kLanes : 0) {}

void Weights::copy_class(ClassId k, std::span<float> out) const {
  const float* from = lane(k);
  for (std::size_t f = 0; f < features_; ++f) out[f] = from[f * kLanes];
}

void Weights::set_class(ClassId k, std::span<const float> in) {
  float* to = lane(k);
  for (std::size_t f = 0; f < features_; ++f) to[f * kLanes] = in[f];
}

double Weights::largest() const {
  float most = 0;
  bool finite = true;
  const auto look = [&](const float* first, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      const float v = std::abs(first[i]);
      most = std::max(most, v);
      finite &= v <= std::numeric_limits<float>::max();
    }
  };
  look(buffer_.data(), blocks() * features_ * kLanes);
  look(intercept_.data(), intercept_.size());
  return finite ? most : std::numeric_limits<double>::infinity();
}

std::uint64_t Weights::bytes_needed(std::uint64_t classes, std::uint64_t features) {
  const std::uint64_t blocks = classes / kLanes + (classes % kLanes == 0 ? 0 : 1);
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(blocks, features, &bytes) ||
      __builtin_mul_overflow(bytes, kLanes * sizeof(float), &bytes))
    return std::numeric_limits<std::uint64_t>::max();
  return bytes;
}

}  // namespace truemax
