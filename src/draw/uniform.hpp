// The paper's draw: m classes uniformly from all but the label, with replacement (Algorithms 1 and 2).
#pragma once

#include "draw/draw.hpp"

namespace truemax {

class UniformDraw final : public Draw {
 public:
  UniformDraw(std::size_t classes, std::size_t classes_per_step);
  std::size_t most_classes() const override;
  void fill(const CounterRandom& random, std::uint64_t first_step, std::span<const ClassId> labels,
            DrawBuffer& out) const override;

  // The classes that m numbers in [0, K - 1) stand for, equal ones merged: a class drawn c times has weight
  // c (K - 1)/m. May reorder the numbers. Returns how many distinct classes there are.
  std::size_t merge(std::span<ClassId> numbers, ClassId label, ClassId* classes, double* weights) const;

 private:
  std::size_t classes_, per_step_;
};

}  // namespace truemax
