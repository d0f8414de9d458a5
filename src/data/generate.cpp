#include "data/generate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/files.hpp"
#include "core/parallel.hpp"
#include "core/random.hpp"
#include "data/formats.hpp"
#include "data/input.hpp"
#include "data/sniff.hpp"
#include "data/zipf.hpp"

namespace truemax {
namespace {

constexpr std::uint64_t kChunkRows = 4096;
constexpr double kBackgroundSkew = 1.0;  // of the common features: that of words in text
constexpr std::uint64_t kValueSteps = 10000;

// Each use has its own epoch, so that no two draw the same numbers of a stream.
enum Use : std::uint32_t { kTrain = 0, kTest = 1, kPrototype = 2, kShuffle = 3 };

struct Entry {
  std::uint32_t feature;
  std::uint32_t value;  // in steps of 1 / kValueSteps, 1 to kValueSteps; fastText: a count
};

// The set of features of one row, with open addressing.
class FeatureSet {
 public:
  void begin_row(std::size_t most) {
    std::size_t size = 16;
    while (size < 2 * most) size *= 2;
    slots_.assign(size, kNone);
  }
  bool insert(std::uint32_t feature) {
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = std::uint32_t{feature * 0x9E3779B1U} & mask;
    while (slots_[at] != kNone) {
      if (slots_[at] == feature) return false;
      at = (at + 1) & mask;
    }
    slots_[at] = feature;
    return true;
  }

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFFU;
  std::vector<std::uint32_t> slots_;
};

// Formats rows as text.
class RowWriter {
 public:
  explicit RowWriter(Format format) : format_(format) {}

  void write(std::uint32_t label, const std::vector<Entry>& row, fmt::memory_buffer& out) const {
    if (format_ == Format::fasttext) append(out, kLabelPrefix);
    append(out, fmt::format_int(label));
    for (const Entry& entry : row) {
      if (format_ == Format::fasttext)
        write_word(entry, out);
      else
        write_pair(entry, out);
    }
    out.push_back('\n');
  }

 private:
  static void append(fmt::memory_buffer& out, std::string_view text) {
    out.append(text.data(), text.data() + text.size());
  }
  static void append(fmt::memory_buffer& out, const fmt::format_int& number) {
    out.append(number.data(), number.data() + number.size());
  }

  static void write_word(const Entry& entry, fmt::memory_buffer& out) {
    for (std::uint32_t i = 0; i < entry.value; ++i) {
      append(out, " w");
      append(out, fmt::format_int(entry.feature));
    }
  }

  void write_pair(const Entry& entry, fmt::memory_buffer& out) const {
    out.push_back(' ');
    append(out, fmt::format_int(std::uint64_t{entry.feature} + (format_ == Format::libsvm ? 1 : 0)));
    if (entry.value == kValueSteps) return append(out, ":1");
    append(out, ":0.");
    for (std::uint32_t unit = kValueSteps / 10, rest = entry.value; rest > 0; rest %= unit, unit /= 10)
      out.push_back(static_cast<char>('0' + rest / unit));
  }

  Format format_;
};

class Generator {
 public:
  Generator(const GenerateOptions& options, Part part)
      : options_(options),
        rows_(part == Part::train ? options.rows : options.test_rows),
        label_bits_(options.seed, Stream::generate_label, part == Part::train ? kTrain : kTest),
        row_bits_(options.seed, Stream::generate_row, part == Part::train ? kTrain : kTest),
        prototype_bits_(options.seed, Stream::generate_row, kPrototype),
        class_draw_(options.classes, options.skew),
        background_draw_(options.features, kBackgroundSkew),
        prototypes_(std::clamp<std::uint64_t>(static_cast<std::uint64_t>(std::llround(2 * options.nonzeros)),
                                              1, options.features)) {
    if (part == Part::train && rows_ >= options.classes) place_each_class_once();
  }

  std::uint64_t rows() const { return rows_; }

  std::uint32_t label(std::uint64_t i) const {
    if (!first_of_.empty() && first_of_[i] != kNone) return first_of_[i];
    const auto bits = label_bits_.at(i);
    return class_draw_.draw(bits.first, bits.second);
  }

  // The features of row i, ascending. `seen` is scratch.
  void draw_row(std::uint64_t i, std::uint32_t label, FeatureSet& seen, std::vector<Entry>& row) const {
    row.clear();
    std::uint32_t word = 0;
    const std::uint64_t length = row_length(row_bits_.at(i, word++).first);
    seen.begin_row(length);
    // A duplicate is drawn again, unless nearly all features are taken, where that would take forever.
    const std::uint64_t tries = 8 * length + 8;
    for (std::uint64_t t = 0; t < tries && row.size() < length; ++t) {
      const auto kind = row_bits_.at(i, word++), which = row_bits_.at(i, word++);
      const bool own = uniform_unit(kind.first) < options_.separability;
      const std::uint32_t feature =
          own ? prototype(label, which.first) : background_draw_.draw(which.first, which.second);
      if (seen.insert(feature)) row.push_back({feature, value(kind.second)});
    }
    for (std::uint32_t feature = 0; row.size() < length; ++feature)
      if (seen.insert(feature)) row.push_back({feature, value(row_bits_.at(i, word++).first)});
    std::sort(row.begin(), row.end(), [](const Entry& a, const Entry& b) { return a.feature < b.feature; });
  }

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFFU;

  // Each class gets one row, at places chosen by a shuffle; the other rows are drawn.
  void place_each_class_once() {
    first_of_.assign(rows_, kNone);
    std::iota(first_of_.begin(), first_of_.begin() + static_cast<std::ptrdiff_t>(options_.classes), 0U);
    const CounterRandom bits(options_.seed, Stream::generate_label, kShuffle);
    for (std::uint64_t i = rows_ - 1; i > 0; --i)
      std::swap(first_of_[i], first_of_[uniform_below(bits.at(i).first, i + 1)]);
  }

  // Uniform from half the mean to one and a half times the mean; at least 1, at most all features.
  std::uint64_t row_length(std::uint64_t bits) const {
    const double mean = options_.nonzeros, u = uniform_unit(bits);
    const double length = std::floor(mean * (0.5 + u) + 0.5);
    return std::clamp<std::uint64_t>(static_cast<std::uint64_t>(length), 1, options_.features);
  }

  // One of the class's own features: the list is never stored, each entry is a pure function of its place.
  std::uint32_t prototype(std::uint32_t label, std::uint64_t bits) const {
    const auto place = static_cast<std::uint32_t>(uniform_below(bits, prototypes_));
    return static_cast<std::uint32_t>(
        uniform_below(prototype_bits_.at(label, place).first, options_.features));
  }

  std::uint32_t value(std::uint64_t bits) const {
    const std::uint64_t most = options_.format == Format::fasttext ? 3 : kValueSteps;
    return static_cast<std::uint32_t>(1 + uniform_below(bits, most));
  }

  const GenerateOptions& options_;
  std::uint64_t rows_;
  CounterRandom label_bits_, row_bits_, prototype_bits_;
  ZipfTable class_draw_, background_draw_;
  std::uint64_t prototypes_;
  std::vector<std::uint32_t> first_of_;  // the class whose guaranteed row this is, or kNone
};

void check(const GenerateOptions& options) {
  if (options.format == Format::automatic || !find_format(options.format).can_be_generated)
    throw UserError(
        fmt::format("--format {}: only text can be generated; choose xmlrepository, lshtc, libsvm or "
                    "fasttext",
                    format_name(options.format)));
  if (options.nonzeros > static_cast<double>(options.features))
    throw UserError(fmt::format("--nonzeros {}: more than the {} features of --features; give fewer",
                                options.nonzeros, options.features));
  // The tables for drawing classes and features take 12 bytes per cell, and the larger one as much again
  // while it is built; guaranteed rows of classes take 4 bytes per row.
  const std::uint64_t needed =
      12 * (options.features + options.classes + std::max(options.features, options.classes)) +
      (options.rows >= options.classes ? 4 * options.rows : 0);
  if (const std::uint64_t there = available_memory(); needed > there)
    throw UserError(fmt::format(
        "the tables for {} features, {} classes and {} rows need {} of memory, {} available; give fewer "
        "--features, --classes or --rows",
        options.features, options.classes, options.rows, size_text(needed), size_text(there)));
}

struct Chunk {
  fmt::memory_buffer text;
  std::uint64_t nonzeros = 0;
  std::vector<std::uint32_t> labels;
};

}  // namespace

void GenerateOptions::describe(OptionTable& table) {
  constexpr double kMost = 4294967294.0;  // ids have 32 bits
  table.group("Rows");
  table.count("rows", &rows, {.low = 1, .high = kMost}, "Training rows.");
  table.count("test-rows", &test_rows, {.low = 0, .high = kMost},
              "Test rows, drawn from the same classes and features.");
  table.count("features", &features, {.low = 1, .high = kMost}, "Number of features (fastText: of words).");
  table.count("classes", &classes, {.low = 2, .high = kMost},
              "Number of classes; each has at least one training row if there are enough rows.");
  table.number("nonzeros", &nonzeros, {.low = 1, .high = 1e6}, "Mean number of features in a row.");
  table.number(
      "skew", &skew, {.low = 0, .high = 10},
      "How uneven the classes are: class c is drawn in proportion to 1 / (c + 1)^skew; 0 makes them equal.");
  table.number(
      "separability", &separability, {.low = 0, .high = 1},
      "Share of a row's features that come from the features of its class; the rest is common to all.");
  table.count("seed", &seed, {.low = 0}, "The same seed gives the same bytes.");
  describe_format(table, &format, true, "Format of the files written.");
}

namespace {

using Sink = std::function<void(std::string_view)>;

GenerateSummary write_rows(const Generator& generator, const GenerateOptions& options, std::size_t threads,
                           const Sink& sink, const std::atomic<bool>* stop) {
  const RowWriter writer(options.format);
  GenerateSummary summary;
  const auto give = [&](std::string_view text) {
    summary.bytes += text.size();
    sink(text);
  };
  summary.rows = generator.rows();
  if (options.format == Format::xmlrepository)
    give(fmt::format("{} {} {}\n", generator.rows(), options.features, options.classes));
  std::vector<bool> has_row(options.classes, false);
  std::vector<Chunk> chunks(std::max<std::size_t>(1, 4 * threads));
  const auto stopped = [stop] { return stop != nullptr && stop->load(std::memory_order_relaxed); };
  for (std::uint64_t first = 0; first < generator.rows(); first += kChunkRows * chunks.size()) {
    parallel_for(chunks.size(), threads, [&](std::size_t c) {
      Chunk& chunk = chunks[c];
      chunk.text.clear();
      chunk.labels.clear();
      chunk.nonzeros = 0;
      FeatureSet seen;
      std::vector<Entry> row;
      const std::uint64_t begin = first + c * kChunkRows,
                          end = std::min(generator.rows(), begin + kChunkRows);
      for (std::uint64_t i = begin; i < end && !stopped(); ++i) {
        const std::uint32_t label = generator.label(i);
        generator.draw_row(i, label, seen, row);
        writer.write(label, row, chunk.text);
        chunk.labels.push_back(label);
        chunk.nonzeros += row.size();
      }
    });
    summary.stopped = stopped();
    if (summary.stopped) break;
    for (const Chunk& chunk : chunks) {
      if (chunk.labels.empty()) break;
      give({chunk.text.data(), chunk.text.size()});
      summary.nonzeros += chunk.nonzeros;
      for (const std::uint32_t label : chunk.labels) has_row[label] = true;
    }
  }
  summary.classes = static_cast<std::uint64_t>(std::count(has_row.begin(), has_row.end(), true));
  return summary;
}

// Writes directly to "-", a pipe or a device.
GenerateSummary write_stream(const Generator& generator, const GenerateOptions& options, std::size_t threads,
                             const std::string& path, const std::atomic<bool>* stop) {
  const bool to_stdout = path == "-";
  const auto fail = [&] {
    throw file_error(to_stdout ? "standard output" : path, 0,
                     fmt::format("cannot be written ({})", std::strerror(errno)),
                     "check the path and the space on the disk");
  };
  const auto close = [](std::FILE* file) { std::fclose(file); };
  std::unique_ptr<std::FILE, decltype(close)> owned(to_stdout ? nullptr : std::fopen(path.c_str(), "wb"),
                                                    close);
  if (!to_stdout && !owned) fail();
  std::FILE* const file = to_stdout ? stdout : owned.get();
  const auto sink = [&](std::string_view text) {
    if (std::fwrite(text.data(), 1, text.size(), file) != text.size()) fail();
  };
  const GenerateSummary summary = write_rows(generator, options, threads, sink, stop);
  if (std::fflush(file) != 0) fail();
  if (owned && std::fclose(owned.release()) != 0) fail();
  return summary;
}

}  // namespace

GenerateSummary generate_rows(const GenerateOptions& options, Part part, std::size_t threads,
                              const Sink& sink) {
  check(options);
  return write_rows(Generator(options, part), options, threads, sink, nullptr);
}

GenerateSummary generate_file(const GenerateOptions& options, Part part, std::size_t threads,
                              const std::string& path, const BeginWriting& begin) {
  check(options);
  const bool streams = path == "-" || is_stream(path);
  if (!streams) require_writable(path, 0, "");
  const Generator generator(options, part);
  const std::atomic<bool>* const stop = begin ? begin() : nullptr;
  if (streams) return write_stream(generator, options, threads, path, stop);
  AtomicFile file(path);
  std::uint64_t at = 0;
  const auto sink = [&](std::string_view text) {
    file.write_at(at, text);
    at += text.size();
  };
  const GenerateSummary summary = write_rows(generator, options, threads, sink, stop);
  if (!summary.stopped) file.commit();
  return summary;
}

}  // namespace truemax
