// The gradient of the log-loss of some rows over all classes, in float32: what the lanes of adam and lbfgs
// have in common. Threads share the rows for the scores and the blocks of W for the sums; every sum has one
// order, so the bits do not depend on their number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/huge_pages.hpp"
#include "core/team.hpp"
#include "data/data_view.hpp"
#include "weights/weights.hpp"

namespace truemax {

// The sizes of the features of a problem: the root mean square of their values that are not 0.
struct FeatureUnits {
  FeatureUnits(const DataView& data, std::size_t threads);

  // The largest weight with which no score leaves float32.
  double most_weight(bool intercept) const;

  std::vector<float> inverse;                  // 1/size, by feature; 1 if it is never seen
  std::vector<float> share;                    // of the rows that have the feature; 1 if none has
  double most_inverse = 0;                     // of those that are seen
  double largest = 0, longest = 0;             // |x_f|, sum of |x_f| of a row
  double mean_weight = 1, largest_weight = 1;  // of the rows
};

// Whether sums of gradients, and the length of a row, stay in float32.
bool features_fit(const FeatureUnits& units);
// And whether the bound on all scores leaves room for the weights that the smallest feature needs.
bool features_fit_beside(const FeatureUnits& units, bool intercept);
// Throws DivergenceError if features_fit() does not hold.
void require_features_fit(const FeatureUnits& units, std::string_view method);

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

  static std::uint64_t bytes(const DataView& data, std::size_t most_rows);
  // Threads that are worth their waiting for each other, in steps of so many rows.
  static std::size_t members_for(const DataView& data, std::size_t rows, std::size_t threads);

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
