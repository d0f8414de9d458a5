// A value that is made when it is first asked for, by whichever thread does so. A copy starts without it.
#pragma once

#include <mutex>
#include <optional>

namespace truemax {

template <class T>
class Lazy {
 public:
  Lazy() = default;
  Lazy(const Lazy& /*other*/) {}
  Lazy& operator=(const Lazy& other) {
    if (&other != this) value_.reset();
    return *this;
  }
  ~Lazy() = default;

  // make() gives the value.
  template <class Make>
  const T& get(const Make& make) const {
    const std::lock_guard lock(making_);
    if (!value_) value_.emplace(make());
    return *value_;
  }

 private:
  mutable std::mutex making_;
  mutable std::optional<T> value_;
};

}  // namespace truemax
