// The examples of a batch of steps, their labels and the classes drawn for each step.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "train/lane.hpp"

namespace truemax {

class DrawnBatch {
 public:
  explicit DrawnBatch(const LaneSetup& setup)
      : data_(&setup.data),
        draw_(setup.draw),
        together_(setup.recipe.rows_per_step),
        examples_(setup.plan.steps_ahead * together_),
        labels_(setup.plan.steps_ahead * together_) {
    if (draw_ == nullptr) return;
    drawn_.shape(setup.plan.steps_ahead, draw_->most_classes());
    drawn_.words.reserve(draw_->words());
  }

  void fill(const Batch& batch) {
    const std::uint64_t first = batch.first * together_;
    visited_ = std::min<std::uint64_t>(batch.count * together_, data_->size() - first);
    batch.order.fill(first, {examples_.data(), visited_});
    for (std::size_t t = 0; t < visited_; ++t) {
      labels_[t] = data_->label(examples_[t]);
      data_->prefetch(examples_[t]);
    }
    if (draw_ != nullptr)
      draw_->fill(batch.random, batch.first, batch.count, {labels_.data(), visited_},
                  {examples_.data(), visited_}, drawn_);
  }

  // For step t of the batch. The last step of an epoch may have fewer rows.
  std::span<const ExampleId> examples(std::size_t t) const { return part(examples_, t); }
  std::span<const ClassId> labels(std::size_t t) const { return part(labels_, t); }
  std::span<const ClassId> classes(std::size_t t) const {
    return {&drawn_.classes[t * drawn_.capacity], drawn_.count[t]};
  }
  const double* weights(std::size_t t) const { return &drawn_.weights[t * drawn_.capacity]; }
  // For all steps, concatenated.
  std::span<const ExampleId> all_examples() const { return {examples_.data(), visited_}; }
  std::span<const ClassId> all_labels() const { return {labels_.data(), visited_}; }

  // Prefetches the examples that come a few rows after those of step t.
  void prefetch_after(std::size_t t, const RunState& state) const {
    constexpr std::size_t kAhead = 4;
    const std::size_t from = t * together_ + kAhead;
    for (std::size_t p = from; p < std::min(from + together_, visited_); ++p)
      prefetch_example(*data_, state, examples_[p]);
  }

  // Without what the draw itself has.
  static std::uint64_t bytes(std::size_t steps, std::size_t rows, const Draw& draw) {
    return steps * (draw.most_classes() * (sizeof(ClassId) + sizeof(double)) +
                    rows * (sizeof(ExampleId) + sizeof(ClassId))) +
           draw.words() * sizeof(std::uint64_t);
  }

 private:
  template <class T>
  std::span<const T> part(const std::vector<T>& all, std::size_t t) const {
    const std::size_t from = t * together_;
    return {&all[from], std::min(together_, visited_ - from)};
  }

  const DataView* data_;
  Draw* draw_;
  std::size_t together_;
  std::vector<ExampleId> examples_;
  std::vector<ClassId> labels_;
  DrawBuffer drawn_;
  std::size_t visited_ = 0;
};

}  // namespace truemax
