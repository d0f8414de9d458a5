// Bytes from a file or standard input, unpacked where they are gzip or zstd.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "core/memory_budget.hpp"

namespace truemax {

// Where bytes come from: a file, or a decompressor over one.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // At least one byte, at most `size`; 0 only at the end. Throws UserError.
  virtual std::size_t read(char* to, std::size_t size) = 0;
  // False where read() would have to wait for who writes a pipe or types.
  virtual bool ready() = 0;
  // The share of the file that was read; 0 where its size is not known.
  virtual double progress() const = 0;
};

class Input {
 public:
  // `path` or "-" for standard input. Throws UserError where it cannot be opened or holds nothing, or where
  // unpacking it takes more than is left of the budget.
  explicit Input(const std::string& path, std::shared_ptr<MemoryBudget> memory = nullptr);
  ~Input();
  Input(Input&&) noexcept;
  Input& operator=(Input&&) noexcept;

  // Reads until `size` bytes are there or the input ends; returns their number.
  std::size_t read(char* to, std::size_t size);
  // What there is, at least one byte; 0 only at the end.
  std::size_t read_some(char* to, std::size_t size);
  // False where read_some() would have to wait.
  bool ready() { return front_used_ < front_.size() || source_->ready(); }
  // Puts bytes back in front of those still to be read.
  void unread(std::string_view bytes);
  // The share of the file that was read, packed or not; 0 where its size is not known.
  double progress() const { return source_->progress(); }
  // How messages call it.
  const std::string& name() const { return name_; }

 private:
  std::string name_;
  std::string front_;  // put back, to be read first
  std::size_t front_used_ = 0;
  std::unique_ptr<ByteSource> source_;
};

inline constexpr const char* kStandardInput = "-";

// How messages call a path.
std::string shown_path(const std::string& path);
bool file_exists(const std::string& path);

// A byte that no text file holds.
inline bool is_control(char c) {
  const auto u = static_cast<unsigned char>(c);
  return u < 0x20 && !(u >= '\t' && u <= '\r');
}
bool has_control(std::string_view text);

}  // namespace truemax
