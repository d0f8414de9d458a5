#include "data/row_stream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/text.hpp"
#include "data/cache_file.hpp"
#include "data/formats.hpp"
#include "data/reading_memory.hpp"
#include "data/sniff.hpp"
#include "data/sources.hpp"

namespace truemax {
namespace {

constexpr std::uint64_t kAll = ~0ULL;

class RowsAtHand : public RowSource {
 public:
  explicit RowsAtHand(RawRows rows) : rows_(std::move(rows)) {}

  void read(RawRows& batch, std::uint64_t most) override {
    if (used_ == 0 && most >= rows_.size()) {
      batch = std::exchange(rows_, RawRows());  // all at once: no copy
      return;
    }
    std::vector<std::uint64_t> chosen(std::min<std::uint64_t>(most, rows_.size() - used_));
    std::iota(chosen.begin(), chosen.end(), used_);
    used_ += chosen.size();
    batch = gather_rows(rows_, chosen);
  }

 private:
  RawRows rows_;
  std::uint64_t used_ = 0;
};

std::string ngrams_text(const NgramRule& rule) {
  return rule.any() ? fmt::format("n-grams ({})", ngrams_typed(rule)) : "no n-grams";
}

struct Paths {
  std::string features, labels;
};

// "FEATURES,LABELS" means two files unless a file has that whole name.
Paths split_at_comma(const std::string& path) {
  if (path.find(',') == std::string::npos || file_exists(path)) return {path, ""};
  for (std::size_t comma = path.find(','); comma != std::string::npos; comma = path.find(',', comma + 1)) {
    Paths paths{path.substr(0, comma), path.substr(comma + 1)};
    if (file_exists(paths.features) && file_exists(paths.labels)) return paths;
  }
  return {path.substr(0, path.find(',')), path.substr(path.find(',') + 1)};
}

// `live`: a whole line is enough if reading more would block.
std::string read_head(Input& input, bool live) {
  std::string head(kSniffBytes, '\0');
  if (!live) {
    head.resize(input.read(head.data(), head.size()));
    return head;
  }
  std::size_t size = 0;
  bool has_line = false;
  while (size < head.size() && (!has_line || input.ready())) {
    const std::size_t got = input.read_some(head.data() + size, head.size() - size);
    if (got == 0) break;
    has_line |= std::find(head.data() + size, head.data() + size + got, '\n') != head.data() + size + got;
    size += got;
  }
  head.resize(size);
  return head;
}

Sniffed sniff(Input& input, Format expected, bool live) {
  const std::string head = read_head(input, live);
  input.unread(head);
  return sniff_format(input.name(), head, expected);
}

std::string choose_label_file(const Paths& paths, const ReadOptions& options, bool required) {
  if (options.label_file == kStandardInput && paths.features == kStandardInput)
    throw UserError(
        "features and labels cannot both come from standard input; give a file with --label-file");
  if (!options.label_file.empty()) return options.label_file;
  if (!paths.labels.empty()) return paths.labels;
  if (!required) return "";  // a file beside the features may belong to others
  const bool has_neighbours = paths.features != kStandardInput;
  std::string found = has_neighbours ? find_label_file(paths.features) : "";
  if (found.empty())
    throw file_error(shown_path(paths.features), 0,
                     has_neighbours ? "found no label file beside it" : "rows without labels",
                     "give the labels with --label-file");
  return found;
}

// The options must ask for what the cache holds: it cannot be parsed again.
void require_cache_fits(const CacheFile& file, const ReadOptions& options) {
  const CacheInfo& info = file.info();
  const Format asked = options.format;
  const bool other_kind = has_words(asked) || has_words(info.format);
  if (asked != Format::automatic && asked != Format::cache && asked != info.format && other_kind)
    throw other_format_in_cache(file.name(), info.format, asked);
  const bool needed = options.ngrams.any() && info.format == Format::fasttext;
  if ((needed || info.ngrams.any()) && !(info.ngrams == options.ngrams))
    throw file_error(
        file.name(), 0,
        fmt::format("is a cache with {}, and {} asked for", ngrams_text(info.ngrams),
                    options.ngrams.any() ? ngrams_text(options.ngrams) + " are" : "none are"),
        needed ? fmt::format("convert again: truemax convert DATA CACHE {}", ngrams_typed(options.ngrams))
               : fmt::format("add {}, or convert again without", ngrams_typed(info.ngrams)));
  if (options.ngrams.any() && info.format != Format::fasttext && options.expected != Format::fasttext)
    throw file_error(file.name(), 0,
                     fmt::format("is a cache of {} data, which has no words for {}", format_name(info.format),
                                 options.ngrams.option()),
                     "leave the option out");
  if (info.weighted && !options.row_weights.empty())
    throw file_error(file.name(), 0, "is a cache with row weights of its own",
                     "leave --row-weights out, or convert again without them");
}

// Moves all weights into their rows.
void take_weights(RowWeights& weights, RawRows& rows) {
  rows.weight = std::move(weights.value);
  const std::uint64_t bytes = weights.memory.bytes();
  weights.memory.release();
  rows.memory.add(bytes);
}

}  // namespace

std::string ngrams_typed(const NgramRule& rule) {
  std::string text;
  if (rule.words > 1) text += fmt::format("--word-ngrams {} ", rule.words);
  if (rule.characters.high > 0)
    text += fmt::format("--char-ngrams {}-{} ", rule.characters.low, rule.characters.high);
  return text + fmt::format("--ngram-buckets {}", rule.buckets);
}

std::unique_ptr<RowSource> give_out(RawRows rows) {
  return std::make_unique<RowsAtHand>(std::move(rows));
}

std::shared_ptr<const CacheFile> open_cache_for(const std::string& path, const ReadOptions& options) {
  auto file = std::make_shared<const CacheFile>(path, options.memory);
  require_cache_fits(*file, options);
  return file;
}

RowStream::RowStream(const std::string& path, const ReadOptions& options, const StreamOptions& stream,
                     std::vector<std::string>& notes) {
  const Paths paths = split_at_comma(path);
  StreamOptions source = stream;
  source.memory = options.memory ? options.memory : std::make_shared<MemoryBudget>();
  // Values of rows dropped by a split or a weight must not count as cut.
  source.max_features = options.split.empty() && options.row_weights.empty() ? options.max_features : 0;
  source.ngrams = options.ngrams;
  files_ = {paths.features};
  may_end_early_ = stream.batch_bytes > 0 || stream.live;
  if (paths.features != kStandardInput && is_cache(paths.features))
    open_cached(paths.features, paths.labels, options, source);
  else
    open_rows(paths.features, paths.labels, options, source, notes);
  if (!options.row_weights.empty()) {
    weights_ = read_row_weights(options.row_weights, source.memory);
    files_.push_back(options.row_weights);
  }
  if (!options.split.empty()) {
    RawRows all;
    source_->read(all, kAll);
    if (weights_) {
      weights_->require_rows(all.size(), name_, false);
      take_weights(*weights_, all);
      weights_.reset();
    }
    const auto chosen = read_split(options.split, options.split_column, all.size(), source.memory);
    try {
      source_ = give_out(gather_rows(all, chosen));
    } catch (const OverBudget& over) {
      throw memory_error(over, name_, 0, fmt::format("{} of {}", chosen.size(), counted(all.size(), "row")),
                         "give a split of fewer rows, or raise --memory-limit");
    }
    files_.push_back(options.split);
  }
}

void RowStream::open_rows(const std::string& path, const std::string& labels, const ReadOptions& options,
                          const StreamOptions& source, std::vector<std::string>& notes) {
  Input input(path, source.memory);
  name_ = input.name();
  format_ = options.format;
  if (format_ == Format::automatic) {
    const Sniffed sniffed = sniff(input, options.expected, source.live);
    format_ = sniffed.format;
    if (sniffed.may_be_lshtc)
      notes.push_back(fmt::format("{}: read as libsvm; if it is LSHTC text, add --format lshtc", name_));
  }
  if (format_ == Format::cache)
    throw file_error(name_, 0, "a cache is read from its own file, not packed or from standard input",
                     "unpack it and name the file, or leave --format cache out");
  const FormatInfo& info = find_format(format_);
  // Data for a model of words: RowPreparer refuses other formats with a message about the model.
  if (options.ngrams.any() && format_ != Format::fasttext && options.expected != Format::fasttext)
    throw file_error(name_, 0,
                     fmt::format("is {} data, which has no words for {}", info.name, options.ngrams.option()),
                     "give fastText text (--format fasttext), or leave the option out");
  if (info.is_text && (!options.label_file.empty() || !labels.empty()))
    throw file_error(name_, 0, fmt::format("is {} text, which contains its labels", info.name),
                     "leave out --label-file (it is for idx and npy features)");
  source_ = info.open(std::move(input),
                      {path, format_, source, notes, [&] {
                         files_.push_back(choose_label_file({path, labels}, options, source.labels_required));
                         return files_.back();
                       }});
}

void RowStream::open_cached(const std::string& path, const std::string& labels, const ReadOptions& options,
                            const StreamOptions& source) {
  ReadOptions with = options;
  with.memory = source.memory;
  const auto file = open_cache_for(path, with);
  name_ = file->name();
  format_ = file->info().format;
  if (!options.label_file.empty() || !labels.empty())
    throw file_error(name_, 0, "is a cache, which contains its labels",
                     "leave out --label-file, or give it to truemax convert");
  source_ = open_cache(file, source);
}

RowStream::~RowStream() = default;
RowStream::RowStream(RowStream&&) noexcept = default;
RowStream& RowStream::operator=(RowStream&&) noexcept = default;

RawRows RowStream::next(std::uint64_t most) {
  RawRows batch;
  source_->read(batch, most);
  batch.path = name_;
  batch.files = files_;
  batch.format = format_;
  batch.first_row = rows_given_;
  rows_given_ += batch.size();
  if (weights_) {
    const bool last = batch.size() < most && (batch.size() == 0 || !may_end_early_);
    weights_->require_rows(rows_given_, name_, !last);
    if (batch.first_row == 0 && last) {  // all at once: no copy
      take_weights(*weights_, batch);
      weights_.reset();
      return batch;
    }
    try {
      batch.memory.add(batch.size() * sizeof(double));
    } catch (const OverBudget& over) {
      throw memory_error(over, name_, 0, counted(batch.size(), "row"),
                         "read fewer rows (--max-rows), or raise --memory-limit");
    }
    batch.weight.assign(weights_->value.begin() + static_cast<std::ptrdiff_t>(batch.first_row),
                        weights_->value.begin() + static_cast<std::ptrdiff_t>(rows_given_));
  }
  return batch;
}

}  // namespace truemax
