// Draws from {0, ..., n - 1} with probabilities proportional to (i + 1)^-skew, in constant time.
#pragma once

#include <cstdint>
#include <vector>

namespace truemax {

// Walker's alias method, built by Vose's two work lists: each of n equal cells holds a share of its own
// number and the rest of one other, so that a draw is one cell and one comparison.
class ZipfTable {
 public:
  ZipfTable(std::uint64_t n, double skew);

  // `cell` chooses the cell, `share` the number in it: 64 random bits each.
  std::uint32_t draw(std::uint64_t cell, std::uint64_t share) const;
  std::uint64_t size() const { return own_.size(); }

 private:
  std::vector<double> own_;           // the share of its own number in each cell
  std::vector<std::uint32_t> other_;  // whose the rest is
};

}  // namespace truemax
