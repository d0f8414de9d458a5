#include "data/streamed_set.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "core/checksum.hpp"
#include "core/parallel.hpp"
#include "core/text.hpp"
#include "data/preprocess.hpp"
#include "data/reading_memory.hpp"
#include "data/streamed_rows.hpp"
#include "data/text_ngrams.hpp"
#include "data/text_set.hpp"

namespace truemax {
namespace {

// The preprocessing of one block, given what all blocks have in common.
struct BlockShaper {
  std::shared_ptr<const CacheFile> file;
  PreprocessOptions options;
  std::uint64_t features = 0;
  std::vector<FeatureId> of_word;  // by word of the cache: its feature or bucket, or kDropFeature
  BucketNumbers buckets;

  RawRows read(std::size_t block, DataStatistics& statistics) const {
    RawRows raw;
    raw.path = file->name();
    raw.format = file->info().format;
    file->read_block(block, raw);
    drop_weightless_rows(raw, statistics);
    return raw;
  }

  RawRows shaped(std::size_t block, DataStatistics& statistics) const {
    RawRows raw = read(block, statistics);
    if (options.hash_features > 0) {
      hash_features(raw, options.hash_features, of_word);
    } else if (raw.format == Format::fasttext) {
      for (const FeatureId f : raw.rows.index)
        if (f < kFirstBucket && of_word[f] == kDropFeature) ++raw.cut_features;
      renumber_features(raw.rows, of_word, buckets);
    }
    filter_rows(raw, {features, true, options.normalize}, statistics);
    return raw;
  }
};

// Reads all blocks on all threads and hands them on in order.
void each_block(std::size_t blocks, std::size_t threads,
                const std::function<RawRows(std::size_t, DataStatistics&)>& read,
                const std::function<void(std::size_t, RawRows&, const DataStatistics&)>& use) {
  const std::size_t together = 2 * threads;
  std::vector<RawRows> rows(together);
  std::vector<DataStatistics> statistics(together);
  for (std::size_t first = 0; first < blocks; first += together) {
    const std::size_t count = std::min(together, blocks - first);
    parallel_for(count, threads, [&](std::size_t i) {
      statistics[i] = {};
      rows[i] = read(first + i, statistics[i]);
    });
    for (std::size_t i = 0; i < count; ++i) use(first + i, rows[i], statistics[i]);
  }
}

void require_streamable(const CacheFile& file) {
  const Format format = file.info().format;
  if (format != Format::text && format != Format::triples) return;
  throw UserError(fmt::format("--stream: {} holds {}, which train in memory only; leave --stream out",
                              file.name(), format == Format::text ? "the words of a plain text" : "triples"));
}

// The features of fastText text, as number_words_by_count() of data/load.cpp numbers them.
void number_words(BlockShaper& shaper, FeatureSpace& space, MemoryCharge& memory, std::size_t threads) {
  const CacheFile& file = *shaper.file;
  const std::vector<std::string>& words = file.words();
  const NgramRule rule = shaper.options.ngrams();
  memory.add(words.size() * (sizeof(double) + 2 * sizeof(FeatureId) + 2 * sizeof(std::string)) +
             (rule.any() ? 3 * BucketNumbers::bytes(rule.buckets) : 0));
  std::vector<double> counts(words.size(), 0.0);
  if (rule.any()) shaper.buckets = BucketNumbers(rule.buckets, 0, {});
  each_block(
      file.blocks().size(), threads,
      [&](std::size_t b, DataStatistics& statistics) { return shaper.read(b, statistics); },
      [&](std::size_t, const RawRows& raw, const DataStatistics&) {
        for (std::size_t i = 0; i < raw.size(); ++i) {
          const double weight = raw.weight.empty() ? 1.0 : raw.weight[i];
          for (std::uint64_t j = raw.rows.begin[i]; j < raw.rows.begin[i + 1]; ++j)
            if (const FeatureId f = raw.rows.index[j]; f >= kFirstBucket)
              shaper.buckets.add(f - kFirstBucket);
            else
              counts[f] += weight * static_cast<double>(raw.rows.value[j]);
        }
      });
  shaper.of_word = ranks_by_count(counts);
  const std::uint64_t most = shaper.options.max_features;
  space.words.resize(most > 0 ? std::min<std::uint64_t>(most, words.size()) : words.size());
  for (std::size_t w = 0; w < words.size(); ++w) {
    FeatureId& rank = shaper.of_word[w];
    if (rank < space.words.size())
      space.words[rank] = words[w];
    else
      rank = kDropFeature;
  }
  shaper.buckets.count(static_cast<FeatureId>(space.words.size()));
  space.buckets = shaper.buckets.members();
  space.file_features = words.size() + space.buckets.size();
  space.features = static_cast<FeatureId>(space.words.size() + space.buckets.size());
}

std::shared_ptr<FeatureSpace> make_space(BlockShaper& shaper, std::uint64_t least_features,
                                         MemoryCharge& memory, std::size_t threads) {
  const CacheInfo& info = shaper.file->info();
  const PreprocessOptions& options = shaper.options;
  auto space = std::make_shared<FeatureSpace>();
  space->declared = info.declared;
  space->file_features = info.features;
  if (options.hash_features > 0) {
    space->hashed_words = info.format == Format::fasttext;
    space->features = static_cast<FeatureId>(options.hash_features);
    shaper.of_word = buckets_of_words(shaper.file->words(), options.hash_features);
  } else if (info.format == Format::fasttext) {
    number_words(shaper, *space, memory, threads);
  } else {
    if (!info.declared) space->file_features = std::max(info.features, least_features);
    space->features =
        static_cast<FeatureId>(options.max_features > 0 ? std::min(space->file_features, options.max_features)
                                                        : space->file_features);
  }
  shaper.features = space->features;
  return space;
}

void add_statistics(DataStatistics& to, const DataStatistics& of) {
  to.rows_of_weight_zero += of.rows_of_weight_zero;
  to.rows_without_label += of.rows_without_label;
  to.rows_without_features += of.rows_without_features;
  to.cut_features += of.cut_features;
}

// Labels and weights of all rows, and the shape of the blocks; returns rows without features.
RawRows read_labels_of_blocks(const BlockShaper& shaper, MemoryCharge memory, std::size_t threads,
                              StreamedRows::Shape& shape, DataStatistics& statistics) {
  const CacheFile& file = *shaper.file;
  RawRows all;
  all.path = file.name();
  all.format = file.info().format;
  all.label_names = file.names();
  all.memory = std::move(memory);
  const CacheInfo& info = file.info();
  all.memory.add(info.rows * (sizeof(std::uint64_t) + (info.weighted ? 2 * sizeof(double) : 0)) +
                 info.labels * sizeof(std::uint32_t));
  all.label_begin.reserve(info.rows + 1);
  all.label.reserve(info.labels);
  if (info.weighted) all.weight.reserve(info.rows);
  std::vector<std::uint64_t> sums;
  shape.row_begin = {0};
  each_block(
      file.blocks().size(), threads,
      [&](std::size_t b, DataStatistics& of_block) { return shaper.shaped(b, of_block); },
      [&](std::size_t b, RawRows& raw, const DataStatistics& of_block) {
        add_statistics(statistics, of_block);
        const std::uint64_t before = all.label.size();
        for (std::size_t i = 0; i < raw.size(); ++i)
          all.label_begin.push_back(before + raw.label_begin[i + 1]);
        all.label.insert(all.label.end(), raw.label.begin(), raw.label.end());
        all.weight.insert(all.weight.end(), raw.weight.begin(), raw.weight.end());
        shape.row_begin.push_back(shape.row_begin.back() + static_cast<std::uint32_t>(raw.size()));
        shape.nonzeros += raw.rows.nonzeros();
        sums.push_back(file.blocks()[b].checksum);
      });
  shape.checksum = xxh64({reinterpret_cast<const char*>(sums.data()), sums.size() * sizeof(std::uint64_t)});
  return all;
}

// Every row has one label: those of the examples say it all.
void drop_label_lists(Dataset& data) {
  if (!data.example_row.empty() || data.label_set.size() != data.label.size()) return;
  std::vector<std::uint64_t>().swap(data.label_begin);
  std::vector<ClassId>().swap(data.label_set);
}

}  // namespace

std::uint64_t stream_window(std::uint64_t asked, const MemoryBudget& memory) {
  constexpr std::uint64_t kShare = 8;
  return asked > 0 ? asked : std::min(kStreamWindow, memory.left() / kShare);
}

Dataset make_streamed_set(const std::shared_ptr<const CacheFile>& file, const PreprocessOptions& options,
                          std::uint64_t least_features, const std::string& class_weights,
                          std::uint64_t window_bytes, const std::shared_ptr<MemoryBudget>& memory,
                          std::size_t threads) {
  options.check();
  require_streamable(*file);
  RawRows kind;
  kind.path = file->name();
  kind.format = file->info().format;
  require_no_text_options(options, kind);
  try {
    auto shaper = std::make_shared<BlockShaper>();
    shaper->file = file;
    shaper->options = options;
    MemoryCharge charge(memory);
    Dataset data;
    data.format = file->info().format;
    data.statistics.rows_in_file = file->info().rows;
    data.space = make_space(*shaper, least_features, charge, threads);
    StreamedRows::Shape shape;
    RawRows labels = read_labels_of_blocks(*shaper, std::move(charge), threads, shape, data.statistics);
    label_training_set(labels, options, class_weights, data);
    drop_label_lists(data);
    shape.block_bytes = std::max<std::uint64_t>(file->largest_block(), 1);
    shape.threads = threads;
    shape.window_blocks = std::clamp<std::size_t>(window_bytes / shape.block_bytes, 1,
                                                  std::max<std::size_t>(file->blocks().size(), 1));
    data.streamed = std::make_shared<StreamedRows>(std::move(shape), [shaper](std::size_t block) {
      DataStatistics ignored;
      return std::move(shaper->shaped(block, ignored).rows);
    });
    return data;
  } catch (const OverBudget& over) {
    throw memory_error(over, file->name(), 0, counted(file->info().rows, "row"),
                       "labels and weights must fit even with --stream: convert fewer rows (--max-rows), or "
                       "raise --memory-limit");
  }
}

}  // namespace truemax
