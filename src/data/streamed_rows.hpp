// Rows that stay in a file and are read in blocks: what a RowStore has instead of arrays if data are larger
// than memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "core/csr.hpp"
#include "core/types.hpp"

namespace truemax {

using SharedRows = std::shared_ptr<const Csr>;

class StreamedRows {
 public:
  struct Shape {
    std::vector<std::uint32_t> row_begin;  // the first row of each block, and the number of rows
    std::uint64_t nonzeros = 0;
    std::uint64_t block_bytes = 0;  // of the largest block, with what reading it takes
    std::size_t threads = 1;        // that read
    std::size_t window_blocks = 1;  // that training shuffles and holds together
    std::uint64_t checksum = 0;     // of the blocks
  };
  // `load` reads a block; it is called by several threads at once, and may throw UserError.
  using Load = std::function<Csr(std::size_t block)>;
  StreamedRows(Shape shape, Load load);

  std::size_t rows() const { return shape_.row_begin.back(); }
  std::size_t blocks() const { return shape_.row_begin.size() - 1; }
  std::uint64_t nonzeros() const { return shape_.nonzeros; }
  std::size_t window_blocks() const { return shape_.window_blocks; }
  std::uint64_t checksum() const { return shape_.checksum; }
  std::uint32_t first_row(std::size_t block) const { return shape_.row_begin[block]; }
  // Memory of a window, and of all buffers: two windows and the blocks at hand.
  std::uint64_t window_bytes() const { return shape_.window_blocks * shape_.block_bytes; }
  std::uint64_t buffer_bytes() const { return 2 * window_bytes() + kept_blocks() * shape_.block_bytes; }
  // A sample of at most this size is copied into memory.
  std::uint64_t most_copied() const { return 2 * window_bytes(); }

  std::size_t block_of(RowId r) const {
    std::size_t block = block_of_chunk_[number_of(r) / kChunk];
    while (shape_.row_begin[block + 1] <= number_of(r)) ++block;
    return block;
  }
  // A row of a block that RowWindows holds.
  RowView row(RowId r) const {
    const std::size_t block = block_of(r);
    if (held_[block] == nullptr) not_held();
    return held_[block]->row(number_of(r) - shape_.row_begin[block]);
  }

  // For reading in order: blocks used lately are kept, and those that follow are read with them.
  SharedRows block(std::size_t b) const;

 private:
  friend class RowWindows;
  static constexpr std::uint32_t kChunk = 1024;
  std::size_t kept_blocks() const;
  [[noreturn]] static void not_held();

  Shape shape_;
  Load load_;
  std::vector<std::uint32_t> block_of_chunk_;  // of row kChunk i
  std::vector<const Csr*> held_;               // by block; null: not in memory
  mutable std::mutex mutex_;
  mutable std::vector<std::pair<std::size_t, SharedRows>> kept_;  // used lately, the oldest first
};

// The blocks that steps read: those of a window are in memory while the next ones are read. One at a time.
class RowWindows {
 public:
  explicit RowWindows(std::shared_ptr<StreamedRows> rows) : rows_(std::move(rows)) {}
  ~RowWindows();
  RowWindows(const RowWindows&) = delete;
  RowWindows& operator=(const RowWindows&) = delete;

  // Makes the blocks `now` readable and begins to read `next`; all others are dropped. Throws UserError if
  // a block cannot be read.
  void enter(std::span<const std::uint32_t> now, std::span<const std::uint32_t> next);

 private:
  using Blocks = std::vector<std::pair<std::uint32_t, SharedRows>>;
  bool has(std::uint32_t block) const;
  void take_pending();
  void load(std::span<const std::uint32_t> blocks);

  std::shared_ptr<StreamedRows> rows_;
  Blocks loaded_;
  std::future<Blocks> pending_;
};

}  // namespace truemax
