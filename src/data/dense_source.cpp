// Rows of idx and npy arrays. Zeros are not stored.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.hpp"
#include "core/text.hpp"
#include "data/dense_array.hpp"
#include "data/number.hpp"
#include "data/reading_memory.hpp"
#include "data/sources.hpp"
#include "data/text_piece.hpp"

namespace truemax {
namespace {

constexpr std::size_t kChunkItems = 32 << 10;

// The items of an array in file order.
class ItemReader {
 public:
  ItemReader(Input& input, const DenseHeader& header) : input_(input), header_(header) {
    bytes_.resize(kChunkItems * header.item_bytes);
    items_.resize(kChunkItems);
    left_ = header.rows() * header.columns();
  }

  // The next items, at most `most`. Throws, naming the row, if the file ends before them.
  std::span<const double> read(std::uint64_t most) {
    const std::uint64_t count = std::min<std::uint64_t>({most, left_, kChunkItems});
    const std::size_t got = input_.read(bytes_.data(), count * header_.item_bytes) / header_.item_bytes;
    if (got < count) {
      const std::uint64_t all = header_.rows() * header_.columns();
      throw file_error(input_.name(), 0,
                       fmt::format("ends after {} of the {} numbers of its shape {} (truncated)",
                                   all - left_ + got, all, header_.shape_text()),
                       "check that the file is complete");
    }
    left_ -= count;
    decode_items(header_, bytes_.data(), got, items_.data());
    return {items_.data(), got};
  }

  void check_end() {
    char more = 0;
    if (input_.read(&more, 1) > 0)
      throw file_error(input_.name(), 0, fmt::format("has more data after its {} rows", header_.rows()),
                       "check that the file is one array");
  }

 private:
  Input& input_;
  const DenseHeader& header_;
  std::vector<char> bytes_;
  std::vector<double> items_;
  std::uint64_t left_ = 0;
};

// float(item), checked.
float checked_value(const Input& input, double item, std::uint64_t row, std::uint64_t column) {
  if (!(std::fabs(item) < kFloatOverflow))
    throw file_error(input.name(), 0,
                     fmt::format("row {}, column {}: value {} {}", row + 1, column + 1, item,
                                 std::isfinite(item) ? "is too large for a 32-bit float" : "is not finite"),
                     "save finite numbers");
  return static_cast<float>(item);
}

class DenseSource : public RowSource {
 public:
  DenseSource(Input input, const DenseHeader& header, DenseLabels labels, const StreamOptions& stream)
      : input_(std::move(input)),
        header_(header),
        reader_(input_, header_),
        labels_(std::move(labels)),
        stream_(stream),
        wanted_(stream.max_features > 0 ? stream.max_features : header_.columns()) {}

  void read(RawRows& batch, std::uint64_t most) override {
    batch.features = header_.columns();
    batch.declared = true;
    batch.label_names = labels_.names;
    batch.memory = MemoryCharge(stream_.memory);
    const std::uint64_t first = row_, rows = std::min<std::uint64_t>(most, header_.rows() - row_);
    try {
      for (const std::uint64_t end = row_ + rows; row_ < end; ++row_) {
        if (row_ > first && stream_.batch_bytes > 0 && batch.rows.bytes() >= stream_.batch_bytes) return;
        read_row(batch);
        if (!labels_.label.empty()) {
          grow(batch.label, 1, batch.memory);
          batch.label.push_back(labels_.label[row_]);
        }
        grow(batch.label_begin, 1, batch.memory);
        batch.label_begin.push_back(batch.label.size());
      }
    } catch (const OverBudget& over) {
      throw memory_error(
          over, input_.name(), 0, fmt::format("{} of {}", row_, counted(header_.rows(), "row")),
          fmt::format("read fewer rows (--max-rows){}{}, or raise --memory-limit",
                      stream_.max_features > 0 ? "" : ", keep fewer features (--max-features)", kOrStream));
    }
    if (rows < most) reader_.check_end();
  }

  double progress() const override {
    return static_cast<double>(row_) / static_cast<double>(std::max<std::uint64_t>(1, header_.rows()));
  }

 private:
  void read_row(RawRows& batch) {
    Csr& rows = batch.rows;
    std::uint64_t column = 0;
    while (column < header_.columns()) {
      if (ahead_.empty()) ahead_ = reader_.read(~0ULL);
      const std::size_t count =
          static_cast<std::size_t>(std::min<std::uint64_t>(ahead_.size(), header_.columns() - column));
      grow(rows.index, count, batch.memory);
      grow(rows.value, count, batch.memory);
      for (const double item : ahead_.first(count)) {
        const float value = checked_value(input_, item, row_, column);
        if (value != 0.0F && column >= wanted_) {
          ++batch.cut_features;
        } else if (value != 0.0F) {
          rows.index.push_back(static_cast<FeatureId>(column));
          rows.value.push_back(value);
        }
        ++column;
      }
      ahead_ = ahead_.subspan(count);
    }
    grow(rows.begin, 1, batch.memory);
    rows.begin.push_back(rows.index.size());
  }

  Input input_;
  DenseHeader header_;
  ItemReader reader_;
  DenseLabels labels_;
  StreamOptions stream_;
  std::uint64_t wanted_;           // number of columns to keep
  std::span<const double> ahead_;  // read but not yet delivered
  std::uint64_t row_ = 0;
};

// In a column-major array no row is complete before the last column: read all non-zeros, then transpose.
RawRows read_column_major(Input& input, const DenseHeader& header, const DenseLabels& labels,
                          const StreamOptions& stream) {
  struct Entry {
    std::uint32_t row;
    FeatureId column;
    float value;
  };
  const std::uint64_t wanted = stream.max_features > 0 ? stream.max_features : header.columns();
  HugeVector<Entry> entries;
  MemoryCharge charge(stream.memory);
  RawRows all;
  all.memory = MemoryCharge(stream.memory);
  const auto refusal = [&](const OverBudget& over, std::uint64_t column) {
    return memory_error(over, input.name(), 0,
                        fmt::format("{} of {}", column, counted(header.columns(), "column")),
                        "save the array in C order (numpy.ascontiguousarray) and read fewer rows of it "
                        "(--max-rows), or raise --memory-limit");
  };
  ItemReader reader(input, header);
  std::uint64_t row = 0, column = 0;
  while (column < header.columns()) {
    const std::span<const double> items = reader.read(header.rows() - row);
    try {
      if (column < wanted) grow(entries, items.size(), charge);
    } catch (const OverBudget& over) {
      throw refusal(over, column);
    }
    for (const double item : items) {
      const float value = checked_value(input, item, row, column);
      if (value != 0.0F && column >= wanted)
        ++all.cut_features;
      else if (value != 0.0F)
        entries.push_back({static_cast<std::uint32_t>(row), static_cast<FeatureId>(column), value});
      ++row;
    }
    if (row == header.rows()) row = 0, ++column;
  }
  reader.check_end();
  try {
    all.memory.set(entries.size() * (sizeof(FeatureId) + sizeof(float)) +
                   header.rows() * (3 * sizeof(std::uint64_t) + sizeof(std::uint32_t)));
  } catch (const OverBudget& over) {
    throw refusal(over, header.columns());
  }
  all.features = header.columns();
  all.declared = true;
  all.label_names = labels.names;
  all.rows.begin.assign(header.rows() + 1, 0);
  for (const Entry& entry : entries) ++all.rows.begin[entry.row + 1];
  for (std::size_t i = 0; i < header.rows(); ++i) all.rows.begin[i + 1] += all.rows.begin[i];
  all.rows.index.resize(entries.size());
  all.rows.value.resize(entries.size());
  std::vector<std::uint64_t> next(all.rows.begin.begin(), all.rows.begin.end() - 1);
  for (const Entry& entry : entries) {
    const std::uint64_t at = next[entry.row]++;
    all.rows.index[at] = entry.column;
    all.rows.value[at] = entry.value;
  }
  all.label = labels.label;
  all.label_begin.reserve(header.rows() + 1);
  for (std::size_t i = 0; i < header.rows(); ++i) all.label_begin.push_back(labels.label.empty() ? 0 : i + 1);
  return all;
}

void check_features(const Input& input, const DenseHeader& header) {
  if (header.is_text())
    throw file_error(input.name(), 0, "contains text, not numbers",
                     "give numeric features; labels go to --label-file");
  if (header.columns() >= kMostFeatures)
    throw file_error(input.name(), 0, fmt::format("shape {} has too many features", header.shape_text()),
                     fmt::format("at most {} are possible", kMostFeatures));
  if (header.rows() > kMostRows)
    throw file_error(input.name(), 0, fmt::format("shape {} has too many rows", header.shape_text()),
                     "split the file into parts");
}

}  // namespace

std::unique_ptr<RowSource> open_dense(Input input, Format format, const StreamOptions& stream,
                                      const std::function<std::string()>& find_labels) {
  const DenseHeader header = read_dense_header(input, format);
  check_features(input, header);
  const std::string label_path = find_labels();
  DenseLabels labels;
  if (!label_path.empty()) {
    labels = read_dense_labels(label_path, stream.memory);
    if (labels.label.size() != header.rows())
      throw file_error(input.name(), 0,
                       fmt::format("has {} rows, but {} has {} labels", header.rows(), shown_path(label_path),
                                   labels.label.size()),
                       "give the matching labels with --label-file");
  }
  if (header.column_major && header.columns() > 1)
    return give_out(read_column_major(input, header, labels, stream));
  return std::make_unique<DenseSource>(std::move(input), header, std::move(labels), stream);
}

}  // namespace truemax
