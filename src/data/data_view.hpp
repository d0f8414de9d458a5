// DataView is what training, evaluation and prediction read: a list of examples of rows in a store. A view of
// some rows looks like a view of all rows. Copies are cheap: nothing large is ever copied.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "data/dataset.hpp"
#include "data/row_store.hpp"

namespace truemax {

struct RankingTask;
class RowEncoder;
class RowSlice;

class DataView {
 public:
  DataView() = default;
  // All of a data set: one that the view keeps alive, or one that outlives the view.
  DataView(Dataset&& data);       // NOLINT(google-explicit-constructor)
  DataView(const Dataset& data);  // NOLINT(google-explicit-constructor)

  std::size_t size() const { return label_.size(); }  // N
  IdRange<ExampleId> examples() const { return {0, size()}; }
  RowId row_of(ExampleId i) const {
    return example_row_.empty() ? RowId{number_of(i)} : example_row_[number_of(i)];
  }
  RowView x(ExampleId i) const { return store_.row(row_of(i)); }
  ClassId label(ExampleId i) const { return label_[number_of(i)]; }
  std::span<const ClassId> labels() const { return label_; }  // by example
  double weight(ExampleId i) const { return weight_.empty() ? 1.0 : weight_[number_of(i)]; }
  bool has_example_weights() const { return !weight_.empty(); }
  // Inputs that recur: examples with equal rows have one number.
  bool shares_inputs() const { return !row_input_.empty(); }
  std::size_t inputs() const { return shares_inputs() ? inputs_ : size(); }
  std::size_t input_of(ExampleId i) const {
    return shares_inputs() ? row_input_[number_of(row_of(i))] : number_of(i);
  }
  // By example: its row, if rows of shared inputs have several examples, which are best visited together.
  std::span<const RowId> rows_of_inputs() const {
    return shares_inputs() && several_examples_ ? example_row_ : std::span<const RowId>();
  }
  void prefetch(ExampleId i) const { store_.prefetch(row_of(i)); }

  // The rows of the view, including those without an example.
  std::size_t row_count() const { return part_ ? part_->rows.size() : store_.rows(); }
  std::uint64_t nonzeros() const;   // of the rows in slices
  double nonzeros_per_row() const;  // mean
  // Rows first, first + 1, ... of the view, at most `most`: fewer if they have many non-zeros, none at the
  // end. `scratch` holds the slice if its rows have to be copied.
  RowSlice slice(std::size_t first, std::size_t most, Csr& scratch) const;

  // Calls visit(example, row of features) for all examples in order; of a stream, only this reaches all rows.
  template <class Visitor>
  void each_x(const Visitor& visit) const;

  // Null: the rows are in memory; x() is for any. Otherwise x() is for the blocks that RowWindows holds.
  StreamedRows* streamed() const { return store_.streamed(); }
  const std::shared_ptr<StreamedRows>& shared_stream() const { return store_.shared_stream(); }
  // Of a stream: the first example of each block, and the number of examples.
  std::vector<std::uint32_t> examples_of_blocks() const;
  // The same rows and examples, in memory.
  DataView copied() const;
  std::uint64_t bytes_of_copy() const;  // about

  // The labels and the weight of the row at a place, without its features.
  std::span<const ClassId> labels_at(std::size_t place) const { return labels_of_row(row_at(place)); }
  double weight_at(std::size_t place) const { return weight_of_row(row_at(place)); }

  // The same examples, with rows that slice() encodes; x() is still the row of the data.
  DataView encoded(std::shared_ptr<const RowEncoder> encoder) const;

  std::span<const double> class_weights() const { return class_weight_; }  // empty: all 1
  double weight_of_class(ClassId k) const { return class_weight_.empty() ? 1.0 : class_weight_[k]; }
  bool has_weights() const { return !row_weight_.empty() || !class_weight_.empty(); }  // of rows or classes

  std::size_t own_bytes() const;                              // of its own lists
  std::size_t shared_bytes() const { return shared_bytes_; }  // of what views of the same rows share
  bool is_text() const { return store_.has_windows(); }       // rows are consecutive windows of a text
  bool shares_rows_with(const DataView& other) const { return store_ == other.store_; }

  // The rows of the view for which keep(place) holds, with their examples; and the examples for which
  // keep(example) holds, with their rows.
  template <class Keep>
  DataView rows_where(const Keep& keep) const;
  template <class Keep>
  DataView examples_where(const Keep& keep) const;

  std::shared_ptr<const ClassList> classes;
  std::shared_ptr<const FeatureSpace> space;
  Format format = Format::automatic;  // as read
  DataStatistics statistics;
  std::size_t rows_together = 1;               // as in Dataset; of the places of this view
  std::shared_ptr<const RankingTask> ranking;  // test sets of triples: what evaluation ranks; else null

 private:
  friend class RowSlice;
  friend class ContentArrays;

  // The lists of a view of some rows.
  struct Part {
    std::vector<RowId> rows;  // ascending
    std::vector<RowId> example_row;
    std::vector<ClassId> label;
    std::vector<double> weight;
    mutable std::atomic<std::uint64_t> nonzeros{~std::uint64_t{0}};  // of a stream, once counted
  };

  explicit DataView(const Dataset& data, std::shared_ptr<const Dataset> owner);
  RowId row_at(std::size_t place) const {
    return part_ ? part_->rows[place] : RowId{static_cast<std::uint32_t>(place)};
  }
  double weight_of_row(RowId r) const { return row_weight_.empty() ? 1.0 : row_weight_[number_of(r)]; }
  std::span<const ClassId> labels_of_row(RowId r) const {
    if (label_begin_.empty()) return label_of_row_.subspan(number_of(r), 1);
    const std::uint64_t first = label_begin_[number_of(r)];
    return label_set_.subspan(first, label_begin_[number_of(r) + std::size_t{1}] - first);
  }
  // The first example of this row or a later one.
  std::size_t first_example(RowId r) const;
  DataView with(std::shared_ptr<const Part> part) const;
  CsrView plain_rows(std::size_t first, std::size_t most, Csr& scratch) const;  // of slice(), not encoded
  std::uint64_t about_nonzeros() const;                                         // without reading rows
  std::uint64_t count_streamed() const;
  CsrView streamed_rows(std::size_t first, std::size_t count, Csr& scratch) const;

  RowStore store_;
  std::span<const RowId> example_row_;  // ascending; empty: example i is row i
  std::span<const ClassId> label_;
  std::span<const double> weight_, row_weight_, class_weight_;  // of examples, rows, classes; empty: all 1
  std::span<const std::uint64_t> label_begin_;
  std::span<const ClassId> label_set_;
  std::span<const ClassId> label_of_row_;     // by row of the store; only if label_begin_ is empty
  std::span<const std::uint32_t> row_input_;  // by row of the store; empty: each example is its own input
  std::size_t inputs_ = 0;
  std::shared_ptr<const void> owner_;          // of the arrays above
  std::shared_ptr<const Part> part_;           // null: the view has all rows
  std::shared_ptr<const RowEncoder> encoder_;  // null: rows as they are
  std::size_t shared_bytes_ = 0;
  bool several_examples_ = false;  // some row has several, in the whole data set
};

// Consecutive rows of a view. Row r of the slice is the view's row at place first() + r.
class RowSlice {
 public:
  std::size_t first() const { return first_; }
  std::size_t rows() const { return x_.rows(); }
  CsrView x() const { return x_; }
  RowId id(std::size_t r) const { return data_->row_at(first_ + r); }
  double weight(std::size_t r) const { return data_->weight_of_row(id(r)); }
  std::span<const ClassId> labels(std::size_t r) const { return data_->labels_of_row(id(r)); }
  // The examples of row r, and the first example of row r or a later one.
  std::size_t first_example(std::size_t r) const { return data_->first_example(id(r)); }
  IdRange<ExampleId> examples(std::size_t r, std::size_t first_example) const {
    std::size_t end = first_example;
    while (end < data_->size() && data_->row_of(ExampleId{static_cast<std::uint32_t>(end)}) == id(r)) ++end;
    return {first_example, end};
  }

 private:
  friend class DataView;
  RowSlice(const DataView& data, std::size_t first, CsrView x) : data_(&data), first_(first), x_(x) {}

  const DataView* data_;
  std::size_t first_;
  CsrView x_;
};

template <class Visitor>
void DataView::each_x(const Visitor& visit) const {
  const StreamedRows* const stream = streamed();
  if (stream == nullptr) {
    for (const ExampleId i : examples()) visit(i, x(i));
    return;
  }
  SharedRows block;
  std::size_t end = 0, first = 0;  // rows of the block
  for (const ExampleId i : examples()) {
    const std::size_t row = number_of(row_of(i));
    if (row >= end) {
      const std::size_t b = stream->block_of(row_of(i));
      block = stream->block(b);
      first = stream->first_row(b), end = stream->first_row(b + 1);
    }
    visit(i, block->row(row - first));
  }
}

template <class Keep>
DataView DataView::rows_where(const Keep& keep) const {
  auto part = std::make_shared<Part>();
  std::size_t examples = 0, example = 0;
  for (const bool counting : {true, false}) {
    std::size_t rows = 0;
    example = 0;
    for (std::size_t place = 0; place < row_count(); ++place) {
      const RowId row = row_at(place);
      const bool kept = keep(place);
      if (kept) {
        ++rows;
        if (!counting) part->rows.push_back(row);
      }
      for (; example < size() && row_of(ExampleId{static_cast<std::uint32_t>(example)}) == row; ++example) {
        if (!kept) continue;
        if (counting) {
          ++examples;
          continue;
        }
        part->label.push_back(label_[example]);
        part->example_row.push_back(row);
        if (!weight_.empty()) part->weight.push_back(weight_[example]);
      }
    }
    if (!counting) break;
    part->rows.reserve(rows);
    part->label.reserve(examples);
    part->example_row.reserve(examples);
    if (!weight_.empty()) part->weight.reserve(examples);
  }
  return with(std::move(part));
}

template <class Keep>
DataView DataView::examples_where(const Keep& keep) const {
  auto part = std::make_shared<Part>();
  for (const ExampleId i : examples()) {
    if (!keep(i)) continue;
    const RowId row = row_of(i);
    if (part->rows.empty() || part->rows.back() != row) part->rows.push_back(row);
    part->example_row.push_back(row);
    part->label.push_back(label(i));
    if (!weight_.empty()) part->weight.push_back(weight(i));
  }
  return with(std::move(part));
}

// Memory of several views; rows they share count once.
std::size_t bytes_of(std::span<const DataView* const> views);

}  // namespace truemax
