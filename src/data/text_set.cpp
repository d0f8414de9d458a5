#include "data/text_set.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/text.hpp"
#include "data/reading_memory.hpp"
#include "data/text_piece.hpp"
#include "data/weight_files.hpp"

namespace truemax {
namespace {

constexpr std::uint64_t kContext = 8, kContextOnBothSides = 5;

void require_text_options(const PreprocessOptions& options, const RawRows& raw) {
  const auto refuse = [](const std::string& option, const char* why) {
    throw UserError(fmt::format("{}: {}; leave it out", option, why));
  };
  if (options.labels == LabelRule::all)
    refuse("--labels all", "every word of plain text has one label, the next word");
  if (options.normalize != Normalize::none)
    refuse("--normalize l2", "rows of plain text are words in order, not numbers");
  if (options.max_features > 0)
    throw UserError(
        fmt::format("--max-features {}: words of plain text are cut by --min-count", options.max_features));
  if (options.hash_features > 0)
    refuse(fmt::format("--hash-features {}", options.hash_features),
           "words of plain text are classes too and are not hashed");
  if (!raw.weight.empty()) refuse("--row-weights", "words of plain text have no weights");
}

// Every text has it. A cache or a model that was changed by hand may not.
FeatureId line_end_of(const ClassList& classes, const std::string& path) {
  const FeatureId end = classes.find(kLineEnd);
  if (end == kUnseenClass)
    throw file_error(path, 0, fmt::format("among the words is no {}, the end of a line", kLineEnd),
                     "make the cache again from the text: truemax convert --help");
  return end;
}

// By word of the batch: how often it occurs.
std::vector<double> count_words(const RawRows& raw) {
  std::vector<double> counts(raw.words.size(), 0.0);
  for (const FeatureId w : raw.rows.index) ++counts[w];
  return counts;
}

// The words that are often enough, and <unk> for all others, if only in later texts.
std::shared_ptr<ClassList> make_vocabulary(const RawRows& raw, std::uint64_t min_count) {
  const std::vector<double> counts = count_words(raw);
  std::vector<std::string> names;
  std::vector<double> kept;
  double unknown = 0, words = 0;
  for (std::size_t w = 0; w < counts.size(); ++w) {
    if (raw.words[w] != kLineEnd) words += counts[w];
    if (raw.words[w] == kUnknownWord ||
        (counts[w] < static_cast<double>(min_count) && raw.words[w] != kLineEnd)) {
      unknown += counts[w];
      continue;
    }
    names.push_back(raw.words[w]);
    kept.push_back(counts[w]);
  }
  if (words == 0) throw file_error(raw.path, 0, "holds no word", "give a text with words");
  if (words == unknown)
    throw file_error(raw.path, 0, fmt::format("no word occurs {} times", min_count), "lower --min-count");
  names.emplace_back(kUnknownWord);
  kept.push_back(std::max(unknown, 1.0));
  return std::make_shared<ClassList>(std::move(names), std::move(kept));
}

// The class of each word of the batch; <unk> for unknown ones, which are counted.
std::vector<ClassId> classes_of_words(const RawRows& raw, const ClassList& classes, std::uint64_t* unknown) {
  const ClassId other = classes.find(kUnknownWord);
  std::vector<ClassId> of(raw.words.size());
  std::vector<bool> missing(raw.words.size(), false);
  for (std::size_t w = 0; w < of.size(); ++w) {
    of[w] = classes.find(raw.words[w]);
    missing[w] = of[w] == kUnseenClass;
    if (missing[w]) of[w] = other;
  }
  for (const FeatureId w : raw.rows.index) *unknown += missing[w] ? 1 : 0;
  return of;
}

void charge_words(MemoryCharge& charge, const RawRows& raw, std::uint64_t bytes) {
  try {
    charge.set(bytes);
  } catch (const OverBudget& over) {
    throw memory_error(over, raw.path, 0, counted(raw.rows.nonzeros(), "word"),
                       "read fewer lines (--max-rows), or raise --memory-limit");
  }
}

// Every word with each of the words around it: the examples of skip-gram.
void fill_neighbours(RawRows& raw, const std::vector<ClassId>& of, Dataset& data) {
  const std::size_t count = raw.rows.nonzeros(), most = std::min<std::size_t>(data.space->context, count - 1);
  const std::uint64_t pairs = 2 * most * count - most * (most + 1);
  if (pairs > kMostRows)
    throw file_error(
        raw.path, 0, fmt::format("{} pairs of a word and a word near it", pairs),
        fmt::format("{} are possible: read fewer lines by --max-rows, or give a smaller --context",
                    kMostRows));
  MemoryCharge charge(raw.memory.budget());
  charge_words(
      charge, raw,
      count * (sizeof(FeatureId) + sizeof(std::uint64_t)) + pairs * (sizeof(RowId) + sizeof(ClassId)));
  data.words.reserve(count);
  for (const FeatureId w : raw.rows.index) data.words.push_back(of[w]);
  data.ones.assign(1, 1.0F);
  data.inputs = data.classes->size();
  data.example_row.reserve(pairs);
  data.label.reserve(pairs);
  data.label_begin.reserve(count + 1);
  for (std::size_t r = 0; r < count; ++r) {
    for (std::size_t near = r - std::min(r, most); near <= std::min(r + most, count - 1); ++near) {
      if (near == r) continue;
      data.example_row.push_back(RowId{static_cast<std::uint32_t>(r)});
      data.label.push_back(data.words[near]);
    }
    data.label_begin.push_back(data.label.size());
  }
}

// Fills data.words, data.ones and data.label from all lines of the text.
void fill_windows(RawRows& raw, const std::vector<ClassId>& of, Dataset& data) {
  const FeatureSpace& space = *data.space;
  const std::size_t width = space.width(), count = raw.rows.nonzeros();
  const std::size_t after = space.encoder == EncoderKind::cbow ? space.context : 0, before = space.context;
  MemoryCharge charge(raw.memory.budget());
  charge_words(charge, raw, (2 * count + width) * sizeof(FeatureId));
  const FeatureId end = line_end_of(*data.classes, raw.path);
  data.words.reserve(before + count + after);
  data.words.assign(before, end);
  for (const FeatureId w : raw.rows.index) data.words.push_back(of[w]);
  data.label.assign(data.words.begin() + static_cast<std::ptrdiff_t>(before), data.words.end());
  data.words.insert(data.words.end(), after, end);
  data.ones.assign(width, 1.0F);
  data.label_begin.clear();
}

void fill_text(RawRows& raw, const std::vector<ClassId>& of, Dataset& data) {
  if (data.space->encoder == EncoderKind::skipgram)
    fill_neighbours(raw, of, data);
  else
    fill_windows(raw, of, data);
  data.statistics.rows_in_file = raw.rows.nonzeros();
  raw.rows = {};
  // Weights of classes are those of the examples.
  if (data.class_weight.empty()) return;
  data.weight.reserve(data.label.size());
  for (const ClassId k : data.label) data.weight.push_back(data.class_weight[k]);
}

}  // namespace

Dataset make_text_set(RawRows&& raw, const PreprocessOptions& options, const std::string& class_weights) {
  require_text_options(options, raw);
  Dataset data;
  data.format = raw.format;
  data.classes = make_vocabulary(raw, options.min_count);
  auto space = std::make_shared<FeatureSpace>();
  space->encoder = options.encoder == EncoderKind::automatic ? EncoderKind::context : options.encoder;
  space->context = options.context > 0                      ? options.context
                   : space->encoder == EncoderKind::context ? kContext
                                                            : kContextOnBothSides;
  space->file_features = data.classes->size();
  space->features = static_cast<FeatureId>(data.classes->size());
  space->words = data.classes->names();
  data.space = space;
  data.class_weight = make_class_weights(class_weights, *data.classes, raw.memory.budget());
  std::uint64_t rare = 0;
  const std::vector<ClassId> of = classes_of_words(raw, *data.classes, &rare);
  fill_text(raw, of, data);
  return data;
}

Dataset text_of_model(RawRows&& raw, std::shared_ptr<const ClassList> classes,
                      std::shared_ptr<const FeatureSpace> space, std::vector<double> class_weight) {
  Dataset data;
  data.format = raw.format;
  data.classes = std::move(classes);
  data.space = std::move(space);
  data.class_weight = std::move(class_weight);
  if (!raw.weight.empty())
    throw UserError("--row-weights: words of plain text have no weights; leave it out");
  const std::vector<ClassId> of = classes_of_words(raw, *data.classes, &data.statistics.unk_words);
  fill_text(raw, of, data);
  if (data.label.empty()) throw file_error(raw.path, 0, "holds no word", "give a text with words");
  return data;
}

Dataset prompts_of_model(RawRows&& raw, std::shared_ptr<const ClassList> classes,
                         std::shared_ptr<const FeatureSpace> space) {
  if (space->encoder == EncoderKind::cbow)
    throw file_error(raw.path, 0,
                     "the model knows words by those on both sides, and cannot go on after a line",
                     "train with --encoder context, or see 'truemax nearest --help'");
  Dataset data;
  data.format = raw.format;
  data.classes = std::move(classes);
  data.space = std::move(space);
  data.statistics.rows_in_file = raw.size();
  const std::vector<ClassId> of = classes_of_words(raw, *data.classes, &data.statistics.unk_words);
  const std::size_t width = data.space->width();
  const FeatureId end = line_end_of(*data.classes, raw.path);
  for (std::size_t r = 0; r < raw.size(); ++r) {
    const std::span<const FeatureId> line = raw.rows.row(r).index;
    if (line.empty())
      throw file_error(raw.path, 0, "a line lacks its end",
                       "make the cache again from the text: truemax convert --help");
    const std::size_t known = std::min(width, line.size() - 1);  // the last word is the line end
    data.rows.index.insert(data.rows.index.end(), width - known, end);
    for (const FeatureId w : line.subspan(line.size() - 1 - known, known)) data.rows.index.push_back(of[w]);
    data.rows.value.insert(data.rows.value.end(), width, 1.0F);
    data.rows.begin.push_back(data.rows.index.size());
    data.label_begin.push_back(0);
  }
  return data;
}

void require_no_text_options(const PreprocessOptions& options, const RawRows& raw) {
  const auto refuse = [&](const std::string& option) {
    throw UserError(fmt::format(
        "{}: this is an option of plain text, and {} is {} data; leave it out, or add --format text", option,
        raw.path, format_name(raw.format)));
  };
  if (reads_words(options.encoder)) refuse("--encoder");
  if (options.context > 0) refuse(fmt::format("--context {}", options.context));
  if (options.min_count > 1) refuse(fmt::format("--min-count {}", options.min_count));
}

}  // namespace truemax
