// Dropout: each number of a step's rows is kept with probability 1 - rate and then divided by that, so its
// mean stays. Which are kept is a function of the seed, the step and the place alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/random.hpp"
#include "core/team.hpp"

namespace truemax {

class Dropout {
 public:
  // `salt` tells two dropouts of a run apart.
  Dropout(double rate, std::uint64_t seed, std::uint64_t salt)
      : rate_(rate), seed_(seed), salt_(salt), factor_(static_cast<float>(1 / (1 - rate))) {}

  double rate() const { return rate_; }
  bool none() const { return rate_ == 0; }
  void reserve(std::size_t rows, std::size_t columns) {
    if (!none()) kept_.resize(rows * columns);
  }
  // Draws what step number `step` of the run keeps, and applies it to x [rows][columns].
  void draw(std::uint64_t step, float* x, std::size_t rows, std::size_t columns, Team& team);
  // Applies the last draw.
  void apply(float* x, std::size_t rows, std::size_t columns, Team& team) const;
  // To rows first ... end only.
  void apply_to(float* x, std::size_t first, std::size_t end, std::size_t columns) const;

 private:
  double rate_;
  std::uint64_t seed_, salt_;
  float factor_;
  std::vector<std::uint8_t> kept_;
};

}  // namespace truemax
