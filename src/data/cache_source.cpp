// Rows of a cache, all in memory or in batches.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/text.hpp"
#include "data/cache_file.hpp"
#include "data/reading_memory.hpp"
#include "data/sources.hpp"
#include "data/text_ngrams.hpp"

namespace truemax {
namespace {

class CacheSource : public RowSource {
 public:
  CacheSource(std::shared_ptr<const CacheFile> file, const StreamOptions& stream)
      : file_(std::move(file)), stream_(stream) {}

  void read(RawRows& batch, std::uint64_t most) override {
    const CacheInfo& info = file_->info();
    batch.memory = MemoryCharge(stream_.memory);
    batch.path = file_->name();
    try {
      const bool all = given_ == 0 && most >= info.rows;
      if (all) reserve(batch);
      while (batch.size() < most && next_part(batch, most)) {
        if (stream_.batch_bytes > 0 && batch.rows.bytes() >= stream_.batch_bytes) break;
      }
      given_ += batch.size();
      take_names(batch, all);
    } catch (const OverBudget& over) {
      throw memory_error(over, file_->name(), 0, counted(given_, "row"),
                         "read fewer rows (--max-rows), train with --stream, or raise --memory-limit");
    }
    batch.features = has_words(info.format) ? batch.words.size() : info.features;
    batch.declared = info.declared;
  }

  double progress() const override {
    return static_cast<double>(given_) / static_cast<double>(std::max<std::uint64_t>(1, file_->info().rows));
  }

 private:
  static std::uint64_t bytes_of(std::uint64_t rows, std::uint64_t nonzeros, std::uint64_t labels,
                                bool weighted) {
    constexpr std::uint64_t kRowBytes = 2 * sizeof(std::uint64_t) + sizeof(RowId);
    return rows * (kRowBytes + (weighted ? sizeof(double) : 0)) +
           nonzeros * (sizeof(FeatureId) + sizeof(float)) + labels * sizeof(std::uint32_t);
  }

  void reserve(RawRows& batch) const {
    const CacheInfo& info = file_->info();
    batch.memory.set(bytes_of(info.rows, info.nonzeros, info.labels, info.weighted));
    batch.rows.begin.reserve(info.rows + 1);
    batch.rows.index.reserve(info.nonzeros);
    batch.rows.value.reserve(info.nonzeros);
    batch.label_begin.reserve(info.rows + 1);
    batch.label.reserve(info.labels);
    if (info.weighted) batch.weight.reserve(info.rows);
  }

  // Appends rows of the next block, or the rest of one; false at the end.
  bool next_part(RawRows& batch, std::uint64_t most) {
    if (used_ == rest_.size()) {
      if (block_ == file_->blocks().size()) return false;
      const CacheBlock& block = file_->blocks()[block_];
      charge(batch, block);
      if (block.rows <= most - batch.size()) {
        file_->read_block(block_++, batch);
        return true;
      }
      rest_ = RawRows();
      used_ = 0;
      file_->read_block(block_++, rest_);
    }
    const std::size_t end = used_ + std::min<std::uint64_t>(most - batch.size(), rest_.size() - used_);
    for (; used_ < end; ++used_) add_row(batch, used_);
    return true;
  }

  void charge(RawRows& batch, const CacheBlock& block) const {
    const std::uint64_t needed = bytes_of(batch.size() + block.rows, batch.rows.nonzeros() + block.nonzeros,
                                          batch.label.size() + block.labels, file_->info().weighted);
    if (needed > batch.memory.bytes()) batch.memory.set(needed);
  }

  void add_row(RawRows& batch, std::size_t i) const {
    batch.rows.add(rest_.rows.row(i));
    for (std::uint64_t j = rest_.label_begin[i]; j < rest_.label_begin[i + 1]; ++j)
      batch.label.push_back(rest_.label[j]);
    batch.label_begin.push_back(batch.label.size());
    if (!rest_.weight.empty()) batch.weight.push_back(rest_.weight[i]);
  }

  // Numbers in batches are those of the batch, by first occurrence. Of all rows they are those of the file.
  void take_names(RawRows& batch, bool all) {
    if (all) {
      batch.label_names = file_->names();
      batch.words = file_->words();
      return;
    }
    const Format format = file_->info().format;
    Renumbering labels(file_->names().size()), words(file_->words().size());
    for (std::size_t i = 0; i < batch.size(); ++i) {
      for (std::uint64_t j = batch.rows.begin[i]; has_words(format) && j < batch.rows.begin[i + 1]; ++j) {
        FeatureId& f = batch.rows.index[j];
        const bool is_head = format == Format::triples && j == batch.rows.begin[i];
        if (f < kFirstBucket) f = (is_head ? labels : words).number(f);
      }
      if (format == Format::fasttext) sort_row(batch.rows, i);
      for (std::uint64_t j = batch.label_begin[i]; j < batch.label_begin[i + 1]; ++j)
        batch.label[j] = labels.number(batch.label[j]);
    }
    for (const std::uint32_t i : labels.used) batch.label_names.push_back(file_->names()[i]);
    for (const std::uint32_t i : words.used) batch.words.push_back(file_->words()[i]);
  }

  void sort_row(Csr& rows, std::size_t i) {
    sorted_.clear();
    for (std::uint64_t j = rows.begin[i]; j < rows.begin[i + 1]; ++j)
      sorted_.emplace_back(rows.index[j], rows.value[j]);
    std::sort(sorted_.begin(), sorted_.end());
    for (std::uint64_t j = rows.begin[i]; j < rows.begin[i + 1]; ++j)
      std::tie(rows.index[j], rows.value[j]) = sorted_[j - rows.begin[i]];
  }

  struct Renumbering {
    explicit Renumbering(std::size_t size) : to(size, kNone) {}
    std::uint32_t number(std::uint32_t old) {
      if (to[old] == kNone) {
        to[old] = static_cast<std::uint32_t>(used.size());
        used.push_back(old);
      }
      return to[old];
    }
    static constexpr std::uint32_t kNone = 0xFFFFFFFFU;
    std::vector<std::uint32_t> to, used;
  };

  std::shared_ptr<const CacheFile> file_;
  StreamOptions stream_;
  RawRows rest_;          // of a block that is only partly delivered
  std::size_t used_ = 0;  // rows of it
  std::size_t block_ = 0;
  std::uint64_t given_ = 0;
  std::vector<std::pair<FeatureId, float>> sorted_;
};

}  // namespace

std::unique_ptr<RowSource> open_cache(std::shared_ptr<const CacheFile> file, const StreamOptions& stream) {
  return std::make_unique<CacheSource>(std::move(file), stream);
}

}  // namespace truemax
