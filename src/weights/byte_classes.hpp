// W and rows as bytes, for a first look at many classes: a quarter of the memory of float32 and, where the
// processor multiplies bytes, a quarter of the time. The products are summed in integers, so a score has the
// same bits on every machine up to its last multiplication.
//
// w_kf ~ scale_k (u_kf - 128) with u from 1 to 255, and x_f ~ scale q_f with q from -127 to 127, so
//     z_k ~ scale_k scale (sum_f u_kf q_f - 128 sum_f q_f) + bias_k.
// Each rounding is off by at most half a scale; error_of_bytes() gives the standard deviation of the score.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/csr.hpp"
#include "core/huge_pages.hpp"
#include "weights/weights.hpp"

namespace truemax {

inline constexpr std::size_t kByteGroup = 4;  // features that one instruction multiplies
inline constexpr float kPaddingScore = -std::numeric_limits<float>::infinity();  // bias of padding lanes

// Classes in blocks of 16: codes [blocks][groups of 4 features][16 classes][4 features].
class ByteClasses {
 public:
  ByteClasses() = default;
  ByteClasses(std::size_t blocks, std::size_t features);

  std::size_t blocks() const { return blocks_; }
  std::size_t features() const { return features_; }
  std::size_t groups() const { return groups_; }
  const std::uint8_t* block(std::size_t b) const { return codes_.data() + b * groups_ * kLanes * kByteGroup; }
  const float* scale(std::size_t b) const { return scale_.data() + b * kLanes; }
  const float* bias(std::size_t b) const { return bias_.data() + b * kLanes; }

  // Sets place `at`: its block is at / 16. w: [features]. Different blocks may be set by different threads.
  void set(std::size_t at, std::span<const float> w, float bias);

  // For the file: all numbers.
  HugeVector<std::uint8_t>& codes() { return codes_; }
  std::vector<float>& scales() { return scale_; }
  std::vector<float>& biases() { return bias_; }
  const HugeVector<std::uint8_t>& codes() const { return codes_; }
  const std::vector<float>& scales() const { return scale_; }
  const std::vector<float>& biases() const { return bias_; }
  std::uint64_t bytes() const { return codes_.size() + (scale_.size() + bias_.size()) * sizeof(float); }

 private:
  std::size_t blocks_ = 0, features_ = 0, groups_ = 0;
  HugeVector<std::uint8_t> codes_;
  std::vector<float> scale_, bias_;  // [blocks * 16]
};

// Rows as bytes: the groups of four features in which a row has a non-zero.
struct ByteRows {
  ByteRows(CsrView rows, std::size_t features);

  std::size_t rows() const { return scale.size(); }

  bool dense = true;                 // every row has all groups in order; `group` is empty
  std::size_t groups = 0;            // of a dense row
  std::vector<std::uint64_t> begin;  // rows + 1
  std::vector<std::uint32_t> group;  // which groups
  std::vector<std::int32_t> packed;  // their four bytes
  std::vector<float> scale;          // 0 for a row of zeros
  std::vector<std::int32_t> sum;     // 128 times the sum of the bytes
  std::vector<double> squared;       // |x|^2
};
// Rows whose sum could leave 32 bits are not for bytes.
inline constexpr std::size_t kByteNonzeros = 60000;

// The standard deviation of a score from bytes, if roundings are independent.
double error_of_bytes(double squared_x, double scale_x, double squared_w, double scale_w);

// Scores of rows against blocks: z [count][kLanes] for each of the `count` <= kByteTile rows.
inline constexpr std::size_t kByteTile = 8;
void byte_scores(const ByteClasses& classes, std::size_t block, const ByteRows& x, const std::uint32_t* rows,
                 std::size_t count, float* z);
// Of the classes of cells, given that of their centre: the variance of a score is |x|^2 of_x + of_b, both
// times how far the best of them is expected above it, squared. [blocks][kLanes].
struct CellSpread {
  const float *of_x, *of_b;
};
// Scores of rows against the centres of all cells, and with what the best class of a cell may add to them:
// z and promise [count][blocks][kLanes], promise = z + sqrt(|x|^2 of_x + of_b).
void byte_promises(const ByteClasses& centres, const ByteRows& x, const std::uint32_t* rows,
                   std::size_t count, const CellSpread& spread, float* z, float* promise);

// What a scan finds, by row.
class ByteScan {
 public:
  ByteScan() = default;
  // The best `most` of each of the rows, ties by `rank` of the place.
  ByteScan(std::size_t rows, std::size_t most, std::span<const std::uint32_t> rank);

  struct Found {
    float score;
    std::uint32_t at;  // place among the classes
  };
  // By falling score.
  std::span<const Found> best(std::size_t row);
  // log of the sum of exp(z) over all places that were scanned: highest + log(sum).
  float highest(std::size_t row) const { return highest_[row]; }
  double sum(std::size_t row) const { return sum_[row]; }

  // For the kernel. hits: bit i is set if place block * 16 + i scores at least the threshold.
  void offer(std::size_t row, std::size_t block, std::uint32_t hits, const float* z);
  float* highest() { return highest_.data(); }
  double* sum() { return sum_.data(); }
  const float* threshold() const { return threshold_.data(); }

 private:
  bool better(const Found& a, const Found& b) const {
    return a.score > b.score || (a.score == b.score && rank_[a.at] < rank_[b.at]);
  }
  std::size_t most_ = 0;
  std::span<const std::uint32_t> rank_;
  std::vector<float> highest_, threshold_;
  std::vector<double> sum_;
  std::vector<std::uint32_t> size_;
  std::vector<Found> found_;  // [rows][most], a heap with the worst at its root
};

// Adds blocks first ... first + blocks - 1 to what is known of these rows. A row's result depends on the
// order of the blocks, not on the rows beside it.
void scan_blocks(const ByteClasses& classes, std::size_t first, std::size_t blocks, const ByteRows& x,
                 std::span<const std::uint32_t> rows, ByteScan& scan);

// log of the sum of exp(z) over one block, in two parts as above.
struct BlockSum {
  float highest;
  double sum;
};
BlockSum sum_of_block(const ByteClasses& classes, std::size_t block, const ByteRows& x, std::uint32_t row);

// The place with the highest score of each row, the first of equal ones.
void best_places(const ByteClasses& classes, const ByteRows& x, std::uint32_t* out);

// What the exp of the scores of cells may sum to, for draws: of cell i with the mean score z_i, n_i classes
// and the variance v = square a_i + b_i, it is n exp(z + v/2), or where v > 2 log n, exp of `promise_i`,
// which is z + sqrt(2 v log n). Divided by exp(base), to 6%, at least kLeastShare, and 0 where promise_i >=
// least. parts: the sum of each kSharePart of them. base >= least + log n for all cells.
inline constexpr std::size_t kSharePart = 64;
inline constexpr float kLeastShare = 1e-36F;
struct CellScores {
  const float *z, *promise;
  const float *of_x, *of_b, *log_n;
  std::size_t cells;
};
void cell_shares(const CellScores& scores, float square, float least, float base, float* share,
                 double* parts);

// The place of the largest z_i - less_i, the first of equal ones; none of the numbers is NaN, n >= 1.
std::size_t place_of_largest(const float* z, const float* less, std::size_t n);

// A row against one class in float64, in feature order: bit for bit as score() in weights/kernels.hpp.
double score_of(RowView x, std::span<const float> w, double intercept);

}  // namespace truemax
