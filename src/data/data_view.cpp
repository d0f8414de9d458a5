#include "data/data_view.hpp"

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
      store_(data.ones.empty()
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
  std::uint64_t count = 0;
  for (const RowId r : part_->rows) count += store_.row(r).index.size();
  return count;
}

double DataView::nonzeros_per_row() const {
  return static_cast<double>(nonzeros()) / static_cast<double>(std::max<std::size_t>(row_count(), 1));
}

RowSlice DataView::slice(std::size_t first, std::size_t most, Csr& scratch) const {
  if (encoder_ == nullptr) return {*this, first, plain_rows(first, most, scratch)};
  Csr plain;
  const std::size_t count = std::min<std::size_t>(most, kCopiedNonzeros / encoder_->columns() + 1);
  encode_rows(*encoder_, plain_rows(first, count, plain), scratch);
  return {*this, first, scratch.view()};
}

CsrView DataView::plain_rows(std::size_t first, std::size_t most, Csr& scratch) const {
  const std::size_t count = std::min(most, row_count() - first);
  if (!part_ && !store_.has_windows()) return store_.view().slice(first, count);
  scratch.begin.assign(1, 0);
  scratch.index.clear();
  scratch.value.clear();
  for (std::size_t r = 0; r < count && scratch.nonzeros() < kCopiedNonzeros; ++r)
    scratch.add(store_.row(row_at(first + r)));
  return scratch.view();
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
