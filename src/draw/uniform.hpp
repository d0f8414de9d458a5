// The paper's draws: m classes uniformly without replacement. For one row from all but its label (Appendix
// D.3: weight (K-1)/m each), shared by several rows from all (Appendix D.4: K/m). m is limited to the number
// of classes.
#pragma once

#include "draw/draw.hpp"

namespace truemax {

class UniformDraw final : public Draw {
 public:
  UniformDraw(std::size_t classes, std::size_t classes_per_step, bool shared);
  std::size_t most_classes() const override { return per_step_; }
  bool always_full() const override { return true; }
  std::size_t words() const override { return per_step_; }
  std::size_t step(std::span<std::uint64_t> words, ClassId label, ExampleId example, ClassId* classes,
                   double* weights) const override;
  void fill(const CounterRandom& random, std::uint64_t first_step, std::size_t steps,
            std::span<const ClassId> labels, std::span<const ExampleId> examples,
            DrawBuffer& out) const override;
  double inclusion(ClassId k) const override;
  double mean_count(ClassId k) const override { return inclusion(k); }

 private:
  std::size_t among_, per_step_;  // classes to draw from, and how many
};

// The draws of the paper's own runs: from all classes for one row too; the label, if drawn, is left out. The
// others keep weight K/m, so that the mean stays 1; with m = 1 one step in K has no class.
class UniformSkipDraw final : public Draw {
 public:
  UniformSkipDraw(std::size_t classes, std::size_t classes_per_step, bool shared)
      : Draw(shared), from_all_(classes, classes_per_step, true) {}
  std::size_t most_classes() const override { return from_all_.most_classes(); }
  std::size_t words() const override { return from_all_.words(); }
  std::size_t step(std::span<std::uint64_t> words, ClassId label, ExampleId example, ClassId* classes,
                   double* weights) const override;
  double inclusion(ClassId k) const override { return from_all_.inclusion(k); }
  double mean_count(ClassId k) const override { return from_all_.mean_count(k); }

 private:
  UniformDraw from_all_;
};

}  // namespace truemax
