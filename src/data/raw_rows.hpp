// Rows as in the file: before the label rule, the feature limit and the scaling.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/csr.hpp"
#include "core/error.hpp"
#include "core/memory_budget.hpp"
#include "data/options.hpp"

namespace truemax {

// From row `row` on (counted in these rows), row row + i is on line `line` + i.
struct LineMark {
  std::uint64_t row = 0, line = 0;
};

struct RawRows {
  // Features from 0, ascending, no zeros; fastText: numbers of `words`, then buckets of n-grams
  // (data/text_ngrams.hpp). Triples: the number of the head in label_names, then that of the relation in
  // `words`.
  Csr rows;
  std::vector<std::uint64_t> label_begin{0};
  std::vector<std::uint32_t>
      label;  // of each row, in file order without duplicates: indices into label_names
  std::vector<std::string> label_names;  // by first occurrence
  std::vector<std::string> words;        // fastText, relations of triples: by first occurrence; else empty
  std::vector<double> weight;            // of each row; empty: all 1
  // By label name, of rows from arrays: examples in earlier data (empty: none), and class weights (empty: all
  // 1).
  std::vector<double> name_counts, name_weights;

  std::string path;                // as shown in messages
  std::vector<std::string> files;  // every file opened for these rows, including labels, split and weights
  Format format = Format::automatic;
  std::uint64_t features = 0;      // D: as declared, or the largest feature number + 1 so far
  bool declared = false;           // the format states D
  std::uint64_t first_row = 0;     // rows of the file before these
  std::vector<LineMark> lines;     // text formats: lines of the rows; empty if the format has no lines
  std::uint64_t cut_features = 0;  // values dropped because of ReadOptions::max_features
  MemoryCharge memory;             // the rows' charge to the budget

  std::size_t size() const { return rows.rows(); }
  bool in_place() const { return rows.elsewhere != nullptr; }  // the values are in arrays of the caller
  bool has_label(std::size_t i) const { return label_begin[i + 1] > label_begin[i]; }
  // The line of row i, from 1; 0 if the format has no lines.
  std::uint64_t line_of(std::size_t i) const;
  // Notes that row i, the next row, is on `line`.
  void mark_line(std::uint64_t i, std::uint64_t line);
  // An error about row i, with its line or its number.
  UserError error(std::size_t i, std::string_view found, std::string_view advice) const;
};

// The rows `chosen` of `all`, in that order; names and words are unchanged. Charged to the budget of `all`;
// throws OverBudget.
RawRows gather_rows(const RawRows& all, const std::vector<std::uint64_t>& chosen);

}  // namespace truemax
