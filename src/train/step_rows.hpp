// The rows of a step of learnt features, and the vectors of E that they use. If the ranks share E out, a
// rank reads vectors that others have sent, and moves only its own.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "data/data_view.hpp"
#include "train/learnt_state.hpp"
#include "weights/shared_vectors.hpp"

namespace truemax {

class StepRows {
 public:
  static constexpr FeatureId kNotOwn = SharedVectors::kNotOwn;

  // `share`: of E; null: every rank has all of it.
  StepRows(const DataView& data, std::shared_ptr<const BlockShare> share, std::size_t h)
      : data_(data), share_(std::move(share)) {
    if (share_ != nullptr) shared_.emplace(data.space->encoder, *share_, h);
  }

  // Takes the memory for steps of so many rows.
  void reserve(std::size_t rows, std::size_t longest_row) {
    if (shared_) shared_->reserve(rows, rows * longest_row);
  }
  void fill(const LearntState& state, std::span<const ExampleId> examples, Ranks& ranks) {
    examples_ = examples;
    vectors_ = &state.tables.features;
    if (!shared_) return;
    shared_->clear();
    for (const ExampleId i : examples) shared_->add(data_.x(i));
    shared_->fetch(ranks, state.tables.features);
    vectors_ = &shared_->vectors();
  }

  std::size_t size() const { return examples_.size(); }
  ExampleId example(std::size_t i) const { return examples_[i]; }
  // Its features are numbered as vectors() is.
  RowView row(std::size_t i) const { return shared_ ? shared_->row(i) : data_.x(examples_[i]); }
  const Embedding& vectors() const { return *vectors_; }
  // The number in LearntState of a vector; kNotOwn if another rank has it.
  FeatureId own(FeatureId v) const { return shared_ ? shared_->own(v) : v; }
  // The same of the vector of class k, if they are tied.
  FeatureId own_class(ClassId k) const {
    if (share_ == nullptr) return k;
    return share_->owns_class(k) ? share_->local_class(k) : kNotOwn;
  }
  // What the encoder makes of the rows is to be added up over the ranks.
  bool adds_up() const { return shared_ && shared_->adds_up(); }
  // Vectors of this rank.
  std::size_t own_vectors() const { return share_ ? share_->classes() : data_.space->features; }

 private:
  const DataView& data_;
  std::shared_ptr<const BlockShare> share_;
  std::optional<SharedVectors> shared_;
  std::span<const ExampleId> examples_;
  const Embedding* vectors_ = nullptr;
};

}  // namespace truemax
