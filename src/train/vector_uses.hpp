// The vectors that a step uses, each with all its uses, so that every vector moves once, by the sum of the
// gradients of its uses, in a fixed order: the same bits for any number of threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/team.hpp"
#include "core/types.hpp"
#include "train/learnt_state.hpp"

namespace truemax {

// How far parameters move along a gradient.
struct LearntRate {
  float rate = 0, keep = 0;  // of rms_step
  float ridge = 0;           // gradient of the ridge per unit of a parameter
};

// Moves row r of a table along g. `square` has a running mean of squared gradients for every number of the
// table, or one for every row.
inline void move_row(Embedding& table, HugeVector<float>& square, std::size_t r, const float* g,
                     const LearntRate& rate) {
  const std::size_t h = table.columns;
  if (square.size() == table.rows)
    rms_row_step(table.row(r), &square[r], g, h, rate.rate, rate.keep);
  else
    rms_step(table.row(r), square.data() + r * h, g, h, rate.rate, rate.keep);
}

// Gradients that come from elsewhere: of[i] is a vector with the gradient `rows` [i][h].
struct OtherGradients {
  std::span<const std::uint32_t> of;
  const float* rows = nullptr;
};

class VectorUses {
 public:
  struct Use {
    std::uint32_t row;
    float value;
  };

  // Takes the memory for steps of up to so many uses, of `vectors` vectors of length h.
  void reserve(std::size_t vectors, std::size_t uses, std::size_t h, const Team& team) {
    place_.assign(vectors, kNone);
    added_.reserve(uses);
    uses_.reserve(uses);
    vectors_.reserve(std::min(uses, vectors));
    begin_.reserve(std::min(uses, vectors) + 1);
    gradient_.assign(team.size(), std::vector<float>(h));
  }

  void clear() {
    for (const FeatureId f : vectors_) place_[f] = kNone;
    vectors_.clear();
    added_.clear();
    begin_.assign(1, 0);
  }
  void add(FeatureId f, std::uint32_t row, float value) {
    if (place_[f] == kNone) {
      place_[f] = static_cast<std::uint32_t>(vectors_.size());
      vectors_.push_back(f);
      begin_.push_back(0);
    }
    ++begin_[place_[f] + 1];
    added_.push_back({place_[f], {row, value}});
  }

  // Moves every vector that was added or has a gradient in `others`. add_use(sum, use, vector) adds the
  // gradient of a use of a vector to a sum of length h.
  template <class AddUse>
  void step(Embedding& table, HugeVector<float>& square, const OtherGradients& others, const LearntRate& rate,
            Team& team, const AddUse& add_use) {
    for (std::size_t i = 0; i < others.of.size(); ++i)
      add(others.of[i], kOther + static_cast<std::uint32_t>(i), 0);
    sort_by_vector();
    const std::size_t h = table.columns;
    // Vectors with about equally many uses: those that come first are common, and have most of them. A vector
    // counts as one more use.
    const std::size_t work = uses_.size() + vectors_.size();
    const std::size_t each = std::max<std::size_t>(kWorkAtOnce, work / (kTasksOfMember * team.size()) + 1);
    const auto from = [&](std::size_t task) {
      std::size_t low = 0, high = vectors_.size();
      while (low < high) {
        const std::size_t middle = (low + high) / 2;
        if (begin_[middle] + middle < task * each)
          low = middle + 1;
        else
          high = middle;
      }
      return low;
    };
    const auto move = [&](std::size_t member, std::size_t p) {
      float* const g = gradient_[member].data();
      float* const e = table.row(vectors_[p]);
      std::fill(g, g + h, 0.0F);
      for (std::size_t u = begin_[p]; u < begin_[p + 1]; ++u) {
        const Use use = uses_[u];
        if (use.row < kOther)
          add_use(g, use, static_cast<const float*>(e));
        else
          add_scaled(g, others.rows + std::size_t{use.row - kOther} * h, 1, h);
      }
      if (rate.ridge > 0) add_scaled(g, e, rate.ridge, h);
      move_row(table, square, vectors_[p], g, rate);
    };
    team.share((work + each - 1) / each, [&](std::size_t member, std::size_t task) {
      for (std::size_t p = from(task), end = from(task + 1); p < end; ++p) move(member, p);
    });
  }

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF, kOther = 0x80000000;
  static constexpr std::size_t kWorkAtOnce = 64, kTasksOfMember = 8;
  struct Added {
    std::uint32_t place;
    Use use;
  };
  void sort_by_vector();

  std::vector<std::uint32_t> place_;  // by vector: its place in vectors_, kNone if the step lacks it
  std::vector<FeatureId> vectors_;    // of the step, in order of first use
  std::vector<std::uint32_t> begin_;  // by place: its uses in uses_
  std::vector<Added> added_;
  std::vector<Use> uses_;
  std::vector<std::vector<float>> gradient_;  // by member
};

}  // namespace truemax
