// Single classes by label frequency, m draws with replacement: weight times/(m q_k). In a step of one row,
// the label is drawn like any other class and then left out, which does not affect the others; such a step
// may have no classes.
#pragma once

#include "draw/alias.hpp"
#include "draw/draw.hpp"

namespace truemax {

class FrequencyDraw final : public Draw {
 public:
  explicit FrequencyDraw(const DrawRequest& request)
      : Draw(request.shared),
        draws_(mixed_probabilities(request.label_mass, request.options.power, request.options.uniform_share),
               request.classes_per_step) {}
  std::size_t most_classes() const override { return std::min(draws_.draws(), draws_.outcomes()); }
  std::size_t words() const override { return draws_.draws(); }
  std::size_t step(std::span<std::uint64_t> words, ClassId label, ExampleId /*example*/, ClassId* classes,
                   double* weights) const override {
    std::size_t count = 0;
    draws_.each(words, [&](ClassId k, double weight) {
      if (k == label) return;
      classes[count] = k;
      weights[count++] = weight;
    });
    return count;
  }
  double inclusion(ClassId k) const override { return draws_.inclusion(k); }
  double mean_count(ClassId k) const override { return draws_.mean_count(k); }
  std::uint64_t memory_bytes() const override { return draws_.memory_bytes(); }

 private:
  WeightedDraws draws_;
};

}  // namespace truemax
