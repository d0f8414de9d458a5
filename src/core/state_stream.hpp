// Streams of a saved state: to memory, a file or a socket.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "core/damaged_state.hpp"

namespace truemax {

class StateSink {
 public:
  virtual ~StateSink() = default;
  virtual void write(std::span<const char> bytes) = 0;

  template <class T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    write({reinterpret_cast<const char*>(&value), sizeof value});
  }
  void put(const bool& value) { put(static_cast<std::uint8_t>(value ? 1 : 0)); }
  template <class T>
  void put_array(std::span<const T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    put(std::uint64_t{values.size()});
    write({reinterpret_cast<const char*>(values.data()), values.size_bytes()});
  }
};

class StateSource {
 public:
  virtual ~StateSource() = default;
  // Fills all of `bytes`, or throws UserError.
  virtual void read(std::span<char> bytes) = 0;
  // Upper bound on the remaining bytes: a damaged length cannot make an array larger than this.
  virtual std::uint64_t left() const = 0;

  template <class T>
  void get(T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    read({reinterpret_cast<char*>(&value), sizeof value});
  }
  void get(bool& value) {
    std::uint8_t byte = 0;
    get(byte);
    if (byte > 1) throw damaged_state();
    value = byte == 1;
  }
  template <class T, class Allocator>
  void get_array(std::vector<T, Allocator>& values) {
    values.resize(length_of<T>());
    read({reinterpret_cast<char*>(values.data()), values.size() * sizeof(T)});
  }
  // The length of an array that follows.
  template <class T>
  std::size_t length_of() {
    std::uint64_t length = 0;
    get(length);
    if (length > left() / sizeof(T)) throw damaged_state();
    return length;
  }
};

// In memory.
class StateBuffer final : public StateSink, public StateSource {
 public:
  void write(std::span<const char> bytes) override {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  void read(std::span<char> bytes) override {
    if (bytes.size() > left()) throw damaged_state();
    if (!bytes.empty()) std::memcpy(bytes.data(), bytes_.data() + at_, bytes.size());
    at_ += bytes.size();
  }
  std::uint64_t left() const override { return bytes_.size() - at_; }
  std::size_t size() const { return bytes_.size(); }

 private:
  std::vector<char> bytes_;
  std::size_t at_ = 0;
};

}  // namespace truemax
