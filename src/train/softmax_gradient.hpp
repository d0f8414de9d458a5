// The gradient of the log-loss of some rows over all classes, in float32: what the lanes of adam and lbfgs
// have in common. Threads share the rows for the scores and the blocks of W for the sums; every sum has one
// order, so the bits do not depend on their number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/huge_pages.hpp"
#include "core/team.hpp"
#include "data/data_view.hpp"
#include "train/problem.hpp"
#include "weights/weights.hpp"

namespace truemax {

class SoftmaxGradient {
 public:
  // For up to so many rows at a time.
  SoftmaxGradient(const DataView& data, std::size_t most_rows, Team& team);

  std::size_t blocks() const { return blocks_; }
  std::size_t rows() const { return x_.size(); }

  void clear();
  void add(const RowView& x, ClassId label, double e);  // e: what the row counts
  // C[i,k] = e (1[k = y] - p_k) of all rows.
  void find(const Weights& weights);
  double row_weight() const;  // sum of e
  double loss() const;        // sum of e times the log-loss of a row

  // Blocks `first` ... of a task: one or two, so that the members end together. The result does not depend on
  // it.
  struct Blocks {
    std::size_t first, count;
  };
  std::size_t tasks() const { return pairs_ + (blocks_ - 2 * pairs_); }
  Blocks task(std::size_t t) const {
    return t < pairs_ ? Blocks{2 * t, 2} : Blocks{2 * pairs_ + (t - pairs_), 1};
  }
  static constexpr std::size_t kMostBlocks = 2;  // of a task
  // With few blocks there would be too few of them for the threads: their rows are summed in parts.
  std::size_t parts() const { return parts_; }
  static std::size_t parts_of(std::size_t blocks);

  // sum[block][feature][kLanes] += C x, for the blocks of a task; or of one block and a part of the rows.
  void add_to(const Blocks& blocks, float* sum) const;
  void add_part(std::size_t block, std::size_t part, float* sum) const;
  // sum[kLanes] += C, of a block.
  void add_intercepts(std::size_t block, float* sum) const;

  static std::uint64_t bytes(const Problem& problem, std::size_t most_rows);
  // Threads that are worth their waiting for each other, in steps of so many rows.
  static std::size_t members_for(const Problem& problem, std::size_t rows, std::size_t threads);

 private:
  void find_some(const Weights& weights, std::size_t first, std::size_t count);
  void finish_row(const Weights& weights, std::size_t i);

  Team& team_;
  std::size_t classes_, features_, blocks_, columns_, parts_, pairs_;
  std::vector<std::uint32_t> all_blocks_;
  std::vector<float> no_intercept_;
  std::vector<RowView> x_;
  std::vector<ClassId> label_;
  std::vector<double> e_, loss_;   // of a row; its loss is times e
  HugeVector<float> coefficient_;  // [rows][columns]: scores, then C
};

}  // namespace truemax
