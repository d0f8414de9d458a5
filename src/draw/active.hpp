// The active classes of a row: its highest-scoring classes so far are always taken, with weight 1, and m of
// the other classes uniformly without replacement, with weight (K-1-|memory|)/m. The memory depends only on
// earlier steps, so every class but the label has mean weight 1 in each step, and the classes that matter
// most to the row's softmax add no noise. Memory: 4 bytes per row and remembered class.
#pragma once

#include "draw/draw.hpp"

namespace truemax {

class ActiveDraw final : public Draw {
 public:
  explicit ActiveDraw(const DrawRequest& request);
  std::size_t most_classes() const override { return std::min(others_, active_ + per_step_); }
  std::size_t words() const override { return per_step_; }
  std::size_t step(std::span<std::uint64_t> words, ClassId label, ExampleId example, ClassId* classes,
                   double* weights) const override;
  // There is no fixed probability; these are the values for a memory of random classes.
  double inclusion(ClassId k) const override;
  double mean_count(ClassId k) const override { return inclusion(k); }
  bool learns() const override { return true; }
  void learn(ExampleId example, std::span<const ClassId> classes, const double* score) override;
  void attach(std::vector<ClassId>& memory) override;
  std::uint64_t memory_bytes() const override { return examples_ * active_ * sizeof(ClassId); }

 private:
  std::size_t others_;    // K - 1
  std::size_t examples_;  // N
  std::size_t active_, per_step_;
  std::vector<ClassId>* memory_ = nullptr;  // [N][active_], each row in rising order, then kUnseenClass
  std::vector<ClassId> own_;                // used if no memory is attached
  std::vector<std::uint32_t> order_;        // scratch
};

}  // namespace truemax
