#include "data/data_view.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/row_encoder.hpp"

namespace truemax {
namespace {
constexpr std::uint64_t kCopiedNonzeros = 1 << 19;  // most of a slice that has to be copied
}

DataView::DataView(const Dataset& data, std::shared_ptr<const Dataset> owner)
    : classes(data.classes),
      space(data.space),
      format(data.format),
      statistics(data.statistics),
      rows_together(data.rows_together),
      store_(data.streamed ? RowStore(data.streamed)
             : data.ones.empty()
                 ? RowStore(data.rows.view(), owner)
                 : RowStore(data.words, data.ones,
                            data.example_row.empty() ? data.label.size() : data.words.size(), owner)),
      example_row_(data.example_row),
      label_(data.label),
      weight_(data.weight),
      row_weight_(data.row_weight),
      class_weight_(data.class_weight),
      label_begin_(data.label_begin),
      label_set_(data.label_set.empty() && !data.label_begin.empty() ? data.label : data.label_set),
      label_of_row_(data.label),
      row_input_(data.space && data.space->encoder == EncoderKind::skipgram ? std::span(data.words)
                                                                            : std::span(data.row_input)),
      inputs_(data.inputs),
      owner_(std::move(owner)),
      shared_bytes_(store_.bytes() + example_row_.size_bytes() + label_.size_bytes() + weight_.size_bytes() +
                    row_weight_.size_bytes() + class_weight_.size_bytes() + label_begin_.size_bytes() +
                    data.label_set.size() * sizeof(ClassId) + data.row_input.size() * sizeof(std::uint32_t)),
      several_examples_(!example_row_.empty()) {}

DataView::DataView(const Dataset& data) : DataView(data, nullptr) {}

DataView::DataView(Dataset&& data) {
  const auto kept = std::make_shared<const Dataset>(std::move(data));
  *this = DataView(*kept, kept);
}

std::uint64_t DataView::nonzeros() const {
  if (encoder_ != nullptr) return row_count() * encoder_->columns();
  if (!part_) return store_.nonzeros();
  if (streamed() != nullptr) return count_streamed();
  std::uint64_t count = 0;
  for (const RowId r : part_->rows) count += store_.row(r).index.size();
  return count;
}

std::uint64_t DataView::about_nonzeros() const {
  const double share =
      static_cast<double>(row_count()) / static_cast<double>(std::max<std::size_t>(store_.rows(), 1));
  return static_cast<std::uint64_t>(static_cast<double>(store_.nonzeros()) * share);
}

// Reads all blocks, once for a part.
std::uint64_t DataView::count_streamed() const {
  std::uint64_t count = part_->nonzeros.load();
  if (count != ~std::uint64_t{0}) return count;
  const StreamedRows& stream = *streamed();
  SharedRows block;
  std::size_t begin = 0, end = 0;  // rows of the block
  count = 0;
  for (const RowId row : part_->rows) {
    if (number_of(row) >= end) {
      const std::size_t b = stream.block_of(row);
      block = stream.block(b);
      begin = stream.first_row(b), end = stream.first_row(b + 1);
    }
    const std::size_t r = number_of(row) - begin;
    count += block->begin[r + 1] - block->begin[r];
  }
  part_->nonzeros.store(count);
  return count;
}

double DataView::nonzeros_per_row() const {
  return static_cast<double>(nonzeros()) / static_cast<double>(std::max<std::size_t>(row_count(), 1));
}

RowSlice DataView::slice(std::size_t first, std::size_t most, Csr& scratch) const {
  if (encoder_ == nullptr) return {*this, first, plain_rows(first, most, scratch)};
  Csr plain;
  const std::size_t count = std::min<std::size_t>(most, kCopiedNonzeros / encoder_->columns() + 1);
  try {
    encode_rows(*encoder_, plain_rows(first, count, plain), scratch);
  } catch (const RowBeyondFloat& error) {
    // Rows that were left out have no number.
    throw error.named(fmt::format("row {} of those that count", number_of(row_at(first + error.row())) + 1));
  }
  return {*this, first, scratch.view()};
}

CsrView DataView::plain_rows(std::size_t first, std::size_t most, Csr& scratch) const {
  const std::size_t count = std::min(most, row_count() - first);
  if (streamed() != nullptr) return streamed_rows(first, count, scratch);
  if (!part_ && !store_.has_windows()) return store_.view().slice(first, count);
  scratch.begin.assign(1, 0);
  scratch.index.clear();
  scratch.value.clear();
  for (std::size_t r = 0; r < count && scratch.nonzeros() < kCopiedNonzeros; ++r)
    scratch.add(store_.row(row_at(first + r)));
  return scratch.view();
}

CsrView DataView::streamed_rows(std::size_t first, std::size_t count, Csr& scratch) const {
  scratch.begin.assign(1, 0);
  scratch.index.clear();
  scratch.value.clear();
  const StreamedRows& stream = *streamed();
  SharedRows block;
  std::size_t begin = 0, end = 0;  // rows of the block
  for (std::size_t r = 0; r < count && scratch.nonzeros() < kCopiedNonzeros; ++r) {
    const RowId row = row_at(first + r);
    if (number_of(row) >= end) {
      const std::size_t b = stream.block_of(row);
      block = stream.block(b);
      begin = stream.first_row(b), end = stream.first_row(b + 1);
    }
    scratch.add(block->row(number_of(row) - begin));
  }
  return scratch.view();
}

std::vector<std::uint32_t> DataView::examples_of_blocks() const {
  const StreamedRows& stream = *streamed();
  std::vector<std::uint32_t> begin;
  begin.reserve(stream.blocks() + 1);
  for (std::size_t b = 0; b < stream.blocks(); ++b)
    begin.push_back(static_cast<std::uint32_t>(first_example(RowId{stream.first_row(b)})));
  begin.push_back(static_cast<std::uint32_t>(size()));
  return begin;
}

std::uint64_t DataView::bytes_of_copy() const {
  constexpr std::uint64_t kRowBytes = 2 * sizeof(std::uint64_t) + 3 * sizeof(RowId) + 2 * sizeof(double);
  return about_nonzeros() * (sizeof(FeatureId) + sizeof(float)) + (row_count() + size()) * kRowBytes;
}

DataView DataView::copied() const {
  Dataset data;
  Csr scratch;
  data.rows.begin.reserve(row_count() + 1);
  for (std::size_t first = 0; first < row_count();) {
    const CsrView some = plain_rows(first, row_count() - first, scratch);
    for (std::size_t r = 0; r < some.rows(); ++r) data.rows.add(some.row(r));
    first += some.rows();
  }
  std::size_t example = 0;
  data.label.assign(label_.begin(), label_.end());
  data.weight.assign(weight_.begin(), weight_.end());
  for (std::size_t place = 0; place < row_count(); ++place) {
    const RowId row = row_at(place);
    const std::span<const ClassId> labels = labels_of_row(row);
    data.label_set.insert(data.label_set.end(), labels.begin(), labels.end());
    data.label_begin.push_back(data.label_set.size());
    if (!row_weight_.empty()) data.row_weight.push_back(weight_of_row(row));
    for (; example < size() && row_of(ExampleId{static_cast<std::uint32_t>(example)}) == row; ++example)
      data.example_row.push_back(RowId{static_cast<std::uint32_t>(place)});
  }
  data.class_weight.assign(class_weight_.begin(), class_weight_.end());
  data.classes = classes, data.space = space, data.format = format;
  data.statistics = statistics, data.rows_together = rows_together;
  DataView out(std::move(data));
  out.ranking = ranking, out.encoder_ = encoder_;
  return out;
}

DataView DataView::encoded(std::shared_ptr<const RowEncoder> encoder) const {
  DataView out = *this;
  out.encoder_ = std::move(encoder);
  return out;
}

std::size_t DataView::first_example(RowId r) const {
  if (example_row_.empty()) return std::min<std::size_t>(number_of(r), size());
  return static_cast<std::size_t>(std::lower_bound(example_row_.begin(), example_row_.end(), r) -
                                  example_row_.begin());
}

DataView DataView::with(std::shared_ptr<const Part> part) const {
  DataView out = *this;
  out.statistics = {};
  out.ranking = nullptr;
  out.example_row_ = part->example_row;
  out.label_ = part->label;
  out.weight_ = part->weight;
  out.part_ = std::move(part);
  return out;
}

std::size_t DataView::own_bytes() const {
  if (!part_) return 0;
  return part_->rows.size() * sizeof(RowId) + example_row_.size_bytes() + label_.size_bytes() +
         weight_.size_bytes();
}

std::size_t bytes_of(std::span<const DataView* const> views) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < views.size(); ++i) {
    bytes += views[i]->own_bytes();
    const auto earlier = views.first(i);
    if (std::none_of(earlier.begin(), earlier.end(),
                     [&](const DataView* other) { return other->shares_rows_with(*views[i]); }))
      bytes += views[i]->shared_bytes();
  }
  return bytes;
}

}  // namespace truemax
