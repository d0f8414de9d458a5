// From the products of a row with a block to the scores that a rule wants: with the intercepts, and if it
// asks for that, of the weights after the ridge.
#pragma once

#include <cstddef>
#include <cstdint>

#include "train/group_rule.hpp"
#include "train/lane.hpp"
#include "weights/weights.hpp"

namespace truemax {

class GroupScores {
 public:
  GroupScores(const LaneSetup& setup, const GroupRule& rule)
      : shrunken_(setup.ridge.on() && rule.wants_shrunken()), free_(setup.ridge.leaves_intercept()) {}

  // z: [16], of one row and block. `factor`: by which its ridge multiplies the weights.
  void finish(const Weights& w, std::uint32_t block, double factor, float* z) const {
    const auto inverse = static_cast<float>(factor);
    if (!w.has_intercept()) {
      for (std::size_t lane = 0; shrunken_ && lane < kLanes; ++lane) z[lane] = shrunk_score(z[lane], inverse);
      return;
    }
    const float* const b = w.intercept().data() + std::size_t{block} * kLanes;
    for (std::size_t lane = 0; lane < kLanes; ++lane) z[lane] += b[lane];
    if (!shrunken_) return;
    if (free_)
      for (std::size_t lane = 0; lane < kLanes; ++lane) z[lane] = shrunk_score(z[lane], inverse, b[lane]);
    else
      for (std::size_t lane = 0; lane < kLanes; ++lane) z[lane] = shrunk_score(z[lane], inverse);
  }

 private:
  bool shrunken_, free_;
};

}  // namespace truemax
