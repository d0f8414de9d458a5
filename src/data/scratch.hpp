// Memory that is neither cleared nor shrunk: unused parts cost nothing.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "core/memory_budget.hpp"

namespace truemax {

template <class T>
class Scratch {
 public:
  static_assert(std::is_trivially_copyable_v<T>);
  Scratch() = default;
  explicit Scratch(std::shared_ptr<MemoryBudget> budget) : charge_(std::move(budget)) {}

  // Room for `size` items; the first `kept` are preserved. Throws OverBudget before growing.
  T* reserve(std::size_t size, std::size_t kept = 0) {
    if (size > size_) {
      if (size > static_cast<std::size_t>(-1) / 2 / sizeof(T)) throw std::bad_array_new_length();
      charge_.set(size * sizeof(T));
      // realloc moves large memory by remapping its pages, without a copy.
      if (kept == 0) data_.reset(), size_ = 0;
      T* const larger = static_cast<T*>(std::realloc(data_.get(), size * sizeof(T)));
      if (larger == nullptr) throw std::bad_alloc();
      static_cast<void>(data_.release());  // realloc has freed or reused it
      data_.reset(larger);
      size_ = size;
    }
    return data_.get();
  }
  const T* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(T* memory) const { std::free(memory); }
  };
  std::unique_ptr<T, Free> data_;
  std::size_t size_ = 0;
  MemoryCharge charge_;
};

}  // namespace truemax
