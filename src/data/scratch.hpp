// Memory that is not cleared before it is written and never shrinks: what is never used costs nothing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>

namespace truemax {

template <class T>
class Scratch {
 public:
  // Room for `size` items, of which the first `kept` stay as they are.
  T* reserve(std::size_t size, std::size_t kept = 0) {
    if (size > size_) {
      auto larger = std::make_unique_for_overwrite<T[]>(size);
      std::copy_n(data_.get(), kept, larger.get());
      data_ = std::move(larger);
      size_ = size;
    }
    return data_.get();
  }
  const T* data() const { return data_.get(); }

 private:
  std::unique_ptr<T[]> data_;
  std::size_t size_ = 0;
};

}  // namespace truemax
