// Rows of a data file in any format, in batches: the way every command reads data. A whole file is one batch;
// prediction takes many, so that its memory does not grow with the file.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/options.hpp"
#include "data/raw_rows.hpp"
#include "data/weight_files.hpp"

namespace truemax {

struct StreamOptions {
  std::size_t threads = 1;  // the rows do not depend on it
  // Bytes of text at a time for each thread; the rows do not depend on it. Small, so that a window is parsed
  // while it lies in the cache, and its pages are few.
  std::size_t window = 2U << 20;
  std::size_t piece = 1U << 20;  // a window is parsed in pieces of this size; the rows do not depend on it
  bool labels_required = true;   // idx and npy: false takes labels only where they are named
  // Rows are given out as they come, fewer at a time than asked for, where a pipe or a terminal would make
  // them wait for the next. The rows do not depend on it.
  bool live = false;
  std::uint64_t batch_bytes = 0;  // a batch may end early once it takes so much; 0: only by its rows
  // Filled in from ReadOptions: see there.
  std::shared_ptr<MemoryBudget> memory;
  std::uint64_t max_features = 0;
};

// What a format delivers. One for text, one for dense arrays, one for rows that had to be read at once.
class RowSource {
 public:
  virtual ~RowSource() = default;
  // Appends up to `most` rows to a fresh batch; none only at the end of the file, and fewer only there or
  // where StreamOptions say so.
  virtual void read(RawRows& batch, std::uint64_t most) = 0;
};

class RowStream {
 public:
  // `path`: a file, "-" for standard input, or "FEATURES,LABELS" for idx and npy. Notes for the user are
  // appended to `notes`, now and by later calls of next(); it must outlive the stream.
  RowStream(const std::string& path, const ReadOptions& options, const StreamOptions& stream,
            std::vector<std::string>& notes);
  ~RowStream();
  RowStream(RowStream&&) noexcept;
  RowStream& operator=(RowStream&&) noexcept;

  // The next rows, at most `most` of them; no rows: the end. Throws UserError.
  RawRows next(std::uint64_t most);
  Format format() const { return format_; }
  // How messages call the file.
  const std::string& name() const { return name_; }

 private:
  std::string name_;
  std::vector<std::string> files_;
  Format format_ = Format::automatic;
  std::uint64_t rows_given_ = 0;
  std::optional<RowWeights> weights_;  // of the rows to come, where they do not have them yet
  std::unique_ptr<RowSource> source_;
};

}  // namespace truemax
