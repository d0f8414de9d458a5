// Draws from {0, ..., n - 1} with probabilities proportional to (i + 1)^-skew, in constant time.
#pragma once

#include <cstdint>
#include <vector>

namespace truemax {

// Walker's alias method with Vose's construction: each of n equal cells holds a share of its own number and
// the rest of one other, so a draw takes one cell and one comparison.
class ZipfTable {
 public:
  ZipfTable(std::uint64_t n, double skew);

  // `cell` selects the cell, `share` the number in it: 64 random bits each.
  std::uint32_t draw(std::uint64_t cell, std::uint64_t share) const;
  std::uint64_t size() const { return own_.size(); }

 private:
  std::vector<double> own_;           // the share of its own number in each cell
  std::vector<std::uint32_t> other_;  // the number that has the rest of the cell
};

}  // namespace truemax
