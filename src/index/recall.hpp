// How much of the best an index finds, and how many cells rows must look into for that.
#pragma once

#include <cstddef>
#include <span>

#include "index/search.hpp"

namespace truemax {

// Rows that are searched exactly where recall is measured: at most, when an index is built, and in a batch of
// rows to predict.
inline constexpr std::size_t kRecallRows = 1024, kRecallRowsOfBatch = 64;

// The share of each row's best that was found, and its mean over rows.
class RecallSum {
 public:
  // Both have the same top. A class with the score of the last of the best counts as one of them.
  void add(const PassResult& found, const PassResult& exact);
  std::size_t rows() const { return rows_; }
  double recall() const { return rows_ > 0 ? sum_ / static_cast<double>(rows_) : 0; }
  double error() const;  // half of the 95% interval

 private:
  std::size_t rows_ = 0, top_ = 1;
  double sum_ = 0, squares_ = 0;
};

// The fewest cells with which these rows find the share `target` of their best, by one standard error.
std::size_t probes_for(const IndexSearch& search, CsrView rows, const PassResult& exact, double target,
                       std::size_t threads);

// Chooses the effort on half of the rows and measures its recall on the other half.
IndexEffort find_effort(const IndexSearch& search, CsrView rows, std::size_t top, double target,
                        std::size_t threads);

// Every n-th row, `most` at most; and the place of the i-th of them among so many rows.
std::size_t place_of_some(std::size_t i, std::size_t most, std::size_t rows);
Csr some_rows(CsrView rows, std::size_t most);

}  // namespace truemax
