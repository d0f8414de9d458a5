#include "data/content_hash.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "core/checksum.hpp"
#include "core/parallel.hpp"

namespace truemax {
namespace {

template <class Value>
std::span<const char> bytes_of(std::span<const Value> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

// The hashes of the added arrays, in order. Chunks have a fixed size, so the number of threads does not
// matter.
class Sums {
 public:
  explicit Sums(std::size_t threads) : threads_(threads) {}

  template <class Value>
  void add(std::span<const Value> array) {
    add_chunks<Value>(array.size(), [&](std::size_t first, std::size_t count, std::vector<Value>&) {
      return array.subspan(first, count);
    });
  }
  // Adds the pieces [begin(i), end(i)) of `from`, i = 0, 1, ..., in sequence; begins[i] is the offset of
  // piece i in a contiguous copy, and the last entry the copy's length.
  template <class Value, class Begin>
  void add_pieces(std::span<const std::uint64_t> begins, const Value* from, const Begin& begin) {
    add_chunks<Value>(begins.back(), [&](std::size_t first, std::size_t count, std::vector<Value>& out) {
      out.clear();
      auto i = static_cast<std::size_t>(std::upper_bound(begins.begin(), begins.end(), first) -
                                        begins.begin() - 1);
      for (std::size_t at = first; at < first + count; ++i) {
        const std::size_t end = std::min<std::size_t>(begins[i + 1], first + count);
        const Value* piece = from + begin(i) + (at - begins[i]);
        out.insert(out.end(), piece, piece + (end - at));
        at = end;
      }
      return std::span<const Value>(out);
    });
  }
  void add_names(const std::vector<std::string>& names) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < names.size(); ++i) sum += xxh64(names[i], i);
    words_.push_back(names.size());
    words_.push_back(sum);
  }
  void add_number(std::uint64_t number) { words_.push_back(number); }
  std::uint64_t total() const { return xxh64(bytes_of(std::span<const std::uint64_t>(words_))); }

 private:
  template <class Value, class Chunk>
  void add_chunks(std::size_t size, const Chunk& chunk) {
    constexpr std::size_t kChunk = (std::size_t{1} << 20) / sizeof(Value);
    const std::size_t chunks = (size + kChunk - 1) / kChunk, first = words_.size() + 1;
    words_.push_back(size * sizeof(Value));  // separates this array from the next
    words_.resize(first + chunks);
    parallel_for(chunks, threads_, [&](std::size_t c) {
      std::vector<Value> copied;
      words_[first + c] = xxh64(bytes_of(chunk(c * kChunk, std::min(kChunk, size - c * kChunk), copied)));
    });
  }

  std::size_t threads_;
  std::vector<std::uint64_t> words_;
};

}  // namespace

// The arrays that a data set of just these rows would have.
class ContentArrays {
 public:
  static void add(const DataView& data, Sums& sums) {
    if (data.is_text()) {
      sums.add(data.store_.words());
      sums.add_number(data.space->width());
      if (data.part_) sums.add(std::span<const RowId>(data.part_->rows));
      add_labels(data, sums);
      sums.add(data.class_weight_);
      return;
    }
    if (data.streamed() != nullptr) {  // the checksums of the blocks stand for their rows
      sums.add_number(data.streamed()->checksum());
      sums.add_number(data.store_.nonzeros());
      if (data.part_) sums.add(std::span<const RowId>(data.part_->rows));
      sums.add(data.example_row_);
      add_labels(data, sums);
      sums.add(data.row_weight_);
      sums.add(data.class_weight_);
      return;
    }
    if (!data.part_) {
      const CsrView rows = data.store_.view();
      sums.add(rows.begin);
      sums.add(std::span(rows.index, rows.nonzeros()));
      sums.add(std::span(rows.value, rows.nonzeros()));
      sums.add(data.example_row_);
      add_labels(data, sums);
      sums.add(data.row_weight_);
      sums.add(data.class_weight_);
      sums.add(data.label_begin_);
      sums.add(data.label_set_);
      return;
    }
    const std::vector<RowId>& chosen = data.part_->rows;
    const CsrView rows = data.store_.view();
    const auto place = [&](std::size_t i) { return std::size_t{number_of(chosen[i])}; };
    const std::vector<std::uint64_t> begins = begins_of(chosen, rows.begin),
                                     label_begins = begins_of(chosen, data.label_begin_);
    const auto begin = [&](std::size_t i) { return rows.begin[place(i)]; };
    sums.add(std::span(begins));
    sums.add_pieces(std::span(begins), rows.index, begin);
    sums.add_pieces(std::span(begins), rows.value, begin);
    sums.add(std::span<const RowId>(renumbered(data)));
    add_labels(data, sums);
    std::vector<double> row_weight;
    if (!data.row_weight_.empty())
      for (std::size_t i = 0; i < chosen.size(); ++i) row_weight.push_back(data.row_weight_[place(i)]);
    sums.add(std::span<const double>(row_weight));
    sums.add(data.class_weight_);
    sums.add(std::span(label_begins));
    sums.add_pieces(std::span(label_begins), data.label_set_.data(),
                    [&](std::size_t i) { return data.label_begin_[place(i)]; });
  }

 private:
  static void add_labels(const DataView& data, Sums& sums) {
    sums.add(data.label_);
    sums.add(data.weight_);
  }
  static std::vector<std::uint64_t> begins_of(const std::vector<RowId>& chosen,
                                              std::span<const std::uint64_t> begin) {
    std::vector<std::uint64_t> out{0};
    out.reserve(chosen.size() + 1);
    for (const RowId r : chosen)
      out.push_back(out.back() + begin[number_of(r) + std::size_t{1}] - begin[number_of(r)]);
    return out;
  }
  // The rows of the examples, as positions among the chosen rows.
  static std::vector<RowId> renumbered(const DataView& data) {
    std::vector<RowId> out;
    if (!data.several_examples_) return out;
    out.reserve(data.size());
    std::uint32_t place = 0;
    for (const ExampleId i : data.examples()) {
      while (data.part_->rows[place] != data.row_of(i)) ++place;
      out.push_back(RowId{place});
    }
    return out;
  }
};

std::uint64_t content_hash(const DataView& data, std::size_t threads) {
  Sums sums(threads);
  sums.add_number(data.space->features);
  ContentArrays::add(data, sums);
  sums.add_names(data.classes->names());
  sums.add_names(data.space->words);
  if (data.space->of_triples()) sums.add_names(data.space->relations);
  return sums.total();
}

}  // namespace truemax
