// The best classes of rows by an index.
//
// 1. The row meets the centre of every cell, and looks into the cells that promise the highest scores: the
//    centre's score plus what the best of n normal numbers of the cell's spread would add, sqrt(2 log n) of
//    them.
// 2. In these cells it meets every class as bytes. Those that may be among the best are scored in double from
//    the weights themselves: scores, order and ties are those of an exact pass.
// 3. The normaliser is the sum over the cells it looked into, plus an estimate for the others: blocks of 16
//    classes drawn in proportion to what their cells promise, each divided by its probability, which is
//    unbiased. Its error bar comes from the differences of the draws.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "index/class_index.hpp"
#include "index/class_vectors.hpp"
#include "weights/pass.hpp"

namespace truemax {

enum class Normaliser { sampled, exact };

struct IndexSearchOptions {
  std::size_t top = 1;
  std::size_t probes = 1;  // cells of a row
  std::size_t threads = 1;
  Normaliser normaliser = Normaliser::sampled;
  std::uint64_t first_row = 0;  // the number of the first row, for the draws
};

struct IndexResult {
  PassResult pass;
  // Half of the 95% interval of each row's log normaliser; 0 where it is exact.
  std::vector<double> error;
};

class IndexSearch {
 public:
  // All of them outlive it.
  IndexSearch(const ClassIndex& index, const ClassVectors& vectors, const ClassList& classes);

  // A row's result depends on its number and the options, not on other rows or threads. Rows that bytes
  // cannot represent, and those of zeros, are searched exactly.
  IndexResult find(CsrView rows, const IndexSearchOptions& options) const;
  PassResult exact(CsrView rows, std::size_t top, std::size_t threads) const;
  // For each of the best of `exact`: the number of cells before its own, [rows][top].
  std::vector<std::uint32_t> cells_before(CsrView rows, const PassResult& exact, std::size_t threads) const;

  const ClassIndex& index() const { return index_; }

 private:
  struct Chunk;
  void find_chunk(CsrView rows, std::size_t first, std::size_t count, const IndexSearchOptions& options,
                  IndexResult& result) const;
  bool fits_bytes(RowView x) const;
  void choose_cells(Chunk& chunk, const IndexSearchOptions& options) const;
  void draw_blocks(Chunk& chunk, std::size_t r, const float* z, const float* promise, float least) const;
  void finish_row(Chunk& chunk, std::size_t r, RowView x, const IndexSearchOptions& options, std::size_t row,
                  IndexResult& result) const;
  template <class Use>
  void meet_centres(const ByteRows& x, const Use& use) const;

  const ClassIndex& index_;
  const ClassVectors& vectors_;
  std::vector<ClassId> by_name_;
  std::vector<std::uint32_t> rank_;           // of each class in the order of names
  std::vector<float> promise_x_, promise_b_;  // 2 log n times the variances of a cell
  std::vector<float> log_members_;
  float largest_log_members_ = 0;
  double largest_bias_ = 0;
};

}  // namespace truemax
