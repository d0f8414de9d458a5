// Rows of a float32 tensor in a model file: checksums, and a reader for several threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <fstream>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "core/error.hpp"

namespace truemax {

// A tensor's checksum is the sum of these over its rows, so threads can add them in any order. The row number
// is the seed, so swapped rows are noticed.
std::uint64_t row_checksum(std::span<const float> row, std::uint64_t number);

UserError damaged(const std::string& path, const std::string& what);

class TensorRows {
 public:
  // `begin`: where the tensor starts in the file.
  TensorRows(std::string path, std::uint64_t begin, bool with_checksum)
      : path_(std::move(path)), begin_(begin), with_checksum_(with_checksum) {}

  // Reads rows in one thread.
  class Reader {
   public:
    explicit Reader(TensorRows& of) : of_(of), in_(of.path_, std::ios::binary) {}
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;
    ~Reader() { of_.sum_.fetch_add(sum_, std::memory_order_relaxed); }
    void read(std::uint64_t number, std::span<float> row);

   private:
    TensorRows& of_;
    std::ifstream in_;
    std::uint64_t sum_ = 0;
  };

  // After all readers are gone. Throws if a row was cut off or not finite.
  void require_rows(const std::function<std::string(std::uint64_t row)>& what) const;
  // Of the rows that were read.
  std::uint64_t sum() const { return sum_.load(); }
  // Throws if the sum of all rows is another.
  void require_sum(const std::string& tensor, std::optional<std::uint64_t> checksum, std::uint64_t sum) const;

 private:
  enum class Found { good, cut_off, not_finite };

  std::string path_;
  std::uint64_t begin_;
  bool with_checksum_;
  std::mutex mutex_;
  std::uint64_t bad_row_ = 0;  // the first in the file, whichever thread finds it
  Found bad_ = Found::good;
  std::atomic<std::uint64_t> sum_{0};
};

}  // namespace truemax
