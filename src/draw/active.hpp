// The active classes of a row: those of the highest scores that it has seen so far are taken with weight 1,
// and of the other classes m uniformly without replacement, with weight (K-1-|memory|)/m. What is remembered
// is a function of the steps before, so that every class but the label has the mean weight 1 in each step:
// the classes that matter most to the row's softmax are so no part of the noise. Memory: 4 bytes for each row
// and class remembered.
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
  // No fixed probability exists; these are what they would be for a memory of classes at random.
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
  std::vector<ClassId> own_;                // where nobody gives a place
  std::vector<std::uint32_t> order_;        // scratch
};

}  // namespace truemax
