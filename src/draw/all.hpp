// Every class in every step, with weight 1: no randomness.
#pragma once

#include "draw/draw.hpp"

namespace truemax {

class AllDraw final : public Draw {
 public:
  AllDraw(std::size_t classes, bool shared) : Draw(shared), classes_(classes) {}
  std::size_t most_classes() const override { return shared() ? classes_ : classes_ - 1; }
  bool complete() const override { return true; }
  bool always_full() const override { return true; }
  std::size_t words() const override { return 0; }
  std::size_t step(std::span<std::uint64_t> /*words*/, ClassId label, ExampleId /*example*/, ClassId* classes,
                   double* weights) const override {
    std::size_t count = 0;
    for (std::size_t k = 0; k < classes_; ++k) {
      if (k == label) continue;
      classes[count] = static_cast<ClassId>(k);
      weights[count++] = 1;
    }
    return count;
  }
  double inclusion(ClassId /*k*/) const override { return 1; }
  double mean_count(ClassId /*k*/) const override { return 1; }

 private:
  std::size_t classes_;
};

}  // namespace truemax
