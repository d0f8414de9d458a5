// Rows of a data file in any format, in batches: every command reads data this way. A whole file is one
// batch; prediction uses many, so that its memory does not grow with the file.
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
  std::size_t threads = 1;  // does not affect the rows
  // Bytes of text per thread and window; does not affect the rows. Small, so that a window is parsed while it
  // is in the cache and touches few pages.
  std::size_t window = 2U << 20;
  std::size_t piece = 1U << 20;  // a window is parsed in pieces of this size; does not affect the rows
  // If false, labels of idx and npy features are read only if named, and triples may lack their tail.
  bool labels_required = true;
  // Deliver rows as they arrive, fewer than asked for, if a pipe or a terminal would block. Does not affect
  // the rows.
  bool live = false;
  std::uint64_t batch_bytes = 0;  // a batch may end early once it takes this much; 0: only by its rows
  // Copied from ReadOptions.
  std::shared_ptr<MemoryBudget> memory;
  std::uint64_t max_features = 0;
  NgramRule ngrams;
};

// A source of rows: one for text, one for dense arrays, one for rows that had to be read all at once.
class RowSource {
 public:
  virtual ~RowSource() = default;
  // Appends up to `most` rows to a fresh batch; none only at the end of the file, fewer only there or if
  // StreamOptions say so.
  virtual void read(RawRows& batch, std::uint64_t most) = 0;
  // The share of the file that was read; 0: unknown.
  virtual double progress() const { return 0; }
};

// The options that ask for these n-grams, as they are typed.
std::string ngrams_typed(const NgramRule& rule);

class CacheFile;
// Opens a cache (data/cache_file.hpp) and checks that it holds what the options ask for: it cannot be parsed
// again. Throws UserError.
std::shared_ptr<const CacheFile> open_cache_for(const std::string& path, const ReadOptions& options);

class RowStream {
 public:
  // `path`: a file, "-" for standard input, or "FEATURES,LABELS" for idx and npy. Notes for the user are
  // appended to `notes`, now and by later calls of next(); it must outlive the stream.
  RowStream(const std::string& path, const ReadOptions& options, const StreamOptions& stream,
            std::vector<std::string>& notes);
  ~RowStream();
  RowStream(RowStream&&) noexcept;
  RowStream& operator=(RowStream&&) noexcept;

  // The next rows, at most `most`; an empty batch marks the end. Throws UserError.
  RawRows next(std::uint64_t most);
  Format format() const { return format_; }
  double progress() const { return source_->progress(); }
  // The name of the file in messages.
  const std::string& name() const { return name_; }

 private:
  void open_rows(const std::string& path, const std::string& labels, const ReadOptions& options,
                 const StreamOptions& source, std::vector<std::string>& notes);
  void open_cached(const std::string& path, const std::string& labels, const ReadOptions& options,
                   const StreamOptions& source);

  std::string name_;
  std::vector<std::string> files_;
  Format format_ = Format::automatic;
  std::uint64_t rows_given_ = 0;
  bool may_end_early_ = false;         // a batch with fewer rows than asked for need not be the last
  std::optional<RowWeights> weights_;  // of the rows to come, if they are not set yet
  std::unique_ptr<RowSource> source_;
};

}  // namespace truemax
