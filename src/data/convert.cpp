#include "data/convert.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "core/text.hpp"
#include "data/cache_file.hpp"
#include "data/reading_memory.hpp"
#include "data/row_stream.hpp"

namespace truemax {

ConvertResult convert_file(const std::string& from, const std::string& to, const ReadOptions& options,
                           std::uint64_t max_rows, std::size_t threads, std::vector<std::string>& notes,
                           const std::function<void(const ConvertProgress&)>& watch) {
  ReadOptions read = options;
  if (!read.memory) read.memory = std::make_shared<MemoryBudget>();
  StreamOptions stream;
  stream.threads = threads;
  // Enough that what every batch costs does not count, little beside any memory limit.
  constexpr std::uint64_t kBatchRows = 1U << 17, kMostBatchBytes = 32U << 20, kLeastBatchBytes = 1U << 20;
  stream.batch_bytes = std::clamp(read.memory->left() / 32, kLeastBatchBytes, kMostBatchBytes);
  RowStream rows(from, read, stream, notes);
  CacheWriter writer(to, rows.format(), read.ngrams, read.memory);
  ConvertResult result;
  std::uint64_t done = 0;
  try {
    for (;;) {
      const std::uint64_t left = max_rows == 0 ? kBatchRows : std::min(kBatchRows, max_rows - done);
      if (left == 0) break;
      const RawRows batch = rows.next(left);
      result.files = batch.files;
      if (batch.size() == 0) break;
      writer.add(batch);
      done += batch.size();
      if (watch) watch({done, rows.progress()});
    }
  } catch (const OverBudget& over) {
    throw memory_error(over, rows.name(), 0, counted(done, "row"),
                       "the names of labels and words must fit: convert fewer rows (--max-rows), or raise "
                       "--memory-limit");
  }
  if (done == 0) throw file_error(rows.name(), 0, "holds no row", "give a file with rows");
  result.info = writer.commit();
  return result;
}

}  // namespace truemax
