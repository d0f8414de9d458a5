// Whole blocks of 16 classes: a block's weights share cache lines, so its other 15 classes cost little more
// than one. B = ceil(m/16) blocks are drawn with replacement by label mass, with weight times/(B q_b). The
// blocks of the head, the most frequent classes, are always taken instead, with weight 1.
//
// For one row the label's block is always taken too, with weight 1: its cache lines are touched anyway, so
// its other 15 classes are free. Drawing it as well has no effect. Given the label, a class of its block has
// weight 1 and any other class mean weight 1.
//
// With rivals, a row remembers the blocks that held its best classes when all classes were last scored, and
// takes them with weight 1 too. What it remembers does not depend on what a step draws, so the mean weight of
// a class is still 1, and the classes that matter most to the row's softmax add no noise.
#pragma once

#include "draw/alias.hpp"
#include "draw/draw.hpp"

namespace truemax {

class BlockDraw final : public Draw {
 public:
  BlockDraw(const DrawRequest& request, std::uint64_t head_classes);
  std::size_t most_classes() const override { return std::min(most_blocks() * kBlockClasses, classes_); }
  std::size_t words() const override { return tail_.draws(); }
  std::size_t step(std::span<std::uint64_t> words, ClassId label, ExampleId example, ClassId* classes,
                   double* weights) const override;
  double inclusion(ClassId k) const override;
  double mean_count(ClassId k) const override;
  bool whole_blocks() const override { return true; }
  bool complete() const override { return head_ == blocks_; }
  std::size_t most_blocks() const override;
  void fill_blocks(const CounterRandom& random, std::uint64_t first_step, std::size_t steps,
                   std::span<const ClassId> labels, std::span<const ExampleId> examples,
                   BlockBuffer& out) const override;
  std::size_t most_rivals() const override { return rivals_; }
  void remember(ExampleId example, ClassId label, std::span<const ClassId> best) override;
  std::span<const ClassId> rivals_of(ExampleId example) const override;
  void attach(std::vector<ClassId>& memory) override;
  std::size_t head_blocks() const override { return head_; }
  // Of a step, if no block came twice.
  std::size_t places() const { return head_ + 1 + rivals_ + tail_.draws(); }
  const WeightedDraws& tail() const { return tail_; }
  std::uint64_t memory_bytes() const override {
    return tail_.memory_bytes() + label_share_.size() * sizeof(double) +
           examples_ * rivals_ * sizeof(ClassId);
  }

 private:
  // Calls take(block, weight) once for every block of a step: the head, the label's, rivals, those drawn.
  template <class Take>
  void visit(std::span<std::uint64_t> words, ClassId label, std::span<const ClassId> rivals,
             Take&& take) const;

  std::size_t classes_, blocks_, head_;  // head_ in blocks
  std::size_t examples_, rivals_;
  WeightedDraws tail_;
  std::vector<double> label_share_;         // of each tail block: how often it contains the label
  std::vector<ClassId>* memory_ = nullptr;  // [N][rivals_] blocks of the tail, then kUnseenClass
};

}  // namespace truemax
