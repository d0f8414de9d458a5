// Bytes from a file or standard input, decompressed if gzip or zstd.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "core/memory_budget.hpp"

namespace truemax {

// A source of bytes: a file, or a decompressor over one.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Reads 1 to `size` bytes; returns 0 only at the end. Throws UserError.
  virtual std::size_t read(char* to, std::size_t size) = 0;
  // False if read() would block on a pipe or a terminal.
  virtual bool ready() = 0;
  // The share of the file that was read; 0 if its size is unknown.
  virtual double progress() const = 0;
};

class Input {
 public:
  // `path` or "-" for standard input. Throws UserError if it cannot be opened or is empty, or if
  // decompressing it would exceed the budget.
  explicit Input(const std::string& path, std::shared_ptr<MemoryBudget> memory = nullptr);
  ~Input();
  Input(Input&&) noexcept;
  Input& operator=(Input&&) noexcept;

  // Reads until `size` bytes are there or the input ends; returns their number.
  std::size_t read(char* to, std::size_t size);
  // Reads what is available, at least one byte; 0 only at the end.
  std::size_t read_some(char* to, std::size_t size);
  // False if read_some() would block.
  bool ready() { return front_used_ < front_.size() || source_->ready(); }
  // Puts bytes back, to be read next.
  void unread(std::string_view bytes);
  // The share of the file that was read, compressed or not; 0 if its size is unknown.
  double progress() const { return source_->progress(); }
  // Its name in messages.
  const std::string& name() const { return name_; }

 private:
  std::string name_;
  std::string front_;  // bytes put back, read first
  std::size_t front_used_ = 0;
  std::unique_ptr<ByteSource> source_;
};

inline constexpr const char* kStandardInput = "-";

// A path as shown in messages.
std::string shown_path(const std::string& path);
bool file_exists(const std::string& path);

// A byte that no text file holds.
inline bool is_control(char c) {
  const auto u = static_cast<unsigned char>(c);
  return u < 0x20 && !(u >= '\t' && u <= '\r');
}
bool has_control(std::string_view text);

}  // namespace truemax
