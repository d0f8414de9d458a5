// Saving and restoring values by one list of the fields of their struct, for both directions:
//
//   template <class Archive>
//   void each_field(MaybeConst<Trial> auto& trial, Archive& archive) {
//     archive(trial.about, trial.number);
//   }
//
//   ArchiveWriter{sink}(trial);
//   ArchiveReader{source}(trial);
//
// Numbers lie as in memory, arrays and text follow their length, and an optional value follows a byte that
// says whether it is there. A value with members write(StateSink&) and read(StateSource&) saves itself.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "core/state_stream.hpp"

namespace truemax {

// A struct is constant while it is written.
template <class T, class Of>
concept MaybeConst = std::is_same_v<std::remove_const_t<T>, Of>;

// Saved as its bytes. Of structs, only those without padding: that would be bytes that no run has set.
template <class T>
inline constexpr bool kPlain = std::is_arithmetic_v<T> || std::is_enum_v<T>;

class ArchiveWriter {
 public:
  static constexpr bool kReads = false;
  explicit ArchiveWriter(StateSink& to) : to_(to) {}
  template <class... Values>
  void operator()(const Values&... values) {
    (put(values), ...);
  }

  StateSink& stream() { return to_; }

 private:
  template <class T>
  void put(const T& value) {
    if constexpr (kPlain<T>)
      to_.put(value);
    else if constexpr (requires { value.write(to_); })
      value.write(to_);
    else
      each_field(value, *this);
  }
  void put(const std::string& text) { to_.put_array(std::span<const char>(text)); }
  template <class T>
  void put(const std::optional<T>& value) {
    put(value.has_value());
    if (value) put(*value);
  }
  template <class T, std::size_t size>
  void put(const std::array<T, size>& values) {
    for (const T& value : values) put(value);
  }
  template <class T, class Allocator>
  void put(const std::vector<T, Allocator>& values) {
    if constexpr (kPlain<T>) {
      to_.put_array(std::span<const T>(values));
    } else {
      put(std::uint64_t{values.size()});
      for (const T& value : values) put(value);
    }
  }

  StateSink& to_;
};

class ArchiveReader {
 public:
  static constexpr bool kReads = true;
  explicit ArchiveReader(StateSource& from) : from_(from) {}
  template <class... Values>
  void operator()(Values&&... values) {
    (get(values), ...);
  }

  StateSource& stream() { return from_; }

 private:
  template <class T>
  void get(T& value) {
    if constexpr (kPlain<T>)
      from_.get(value);
    else if constexpr (requires { value.read(from_); })
      value.read(from_);
    else
      each_field(value, *this);
  }
  void get(std::string& text) {
    text.resize(from_.length_of<char>());
    from_.read(text);
  }
  template <class T>
  void get(std::optional<T>& value) {
    bool there = false;
    get(there);
    value.reset();
    if (there) get(value.emplace());
  }
  template <class T, std::size_t size>
  void get(std::array<T, size>& values) {
    for (T& value : values) get(value);
  }
  template <class T, class Allocator>
  void get(std::vector<T, Allocator>& values) {
    if constexpr (kPlain<T>) {
      from_.get_array(values);
    } else {
      // Each takes 8 bytes at least. The array grows as they are read, so that a damaged length takes no
      // memory.
      const std::size_t size = from_.length_of<std::uint64_t>();
      values.resize(std::min(values.size(), size));
      for (std::size_t i = 0; i < size; ++i) get(i < values.size() ? values[i] : values.emplace_back());
    }
  }

  StateSource& from_;
};

}  // namespace truemax
