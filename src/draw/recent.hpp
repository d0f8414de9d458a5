// Classes by how often they were labels lately. A ring holds the last labels, so the label at a random place
// of it is a class drawn by its count: drawing and counting take constant time, for any number of classes.
// Part of the draws is uniform, so that every class can be drawn. m draws with replacement give each class
// once, with weight times/(m q); the ring depends on earlier steps only, so every class has mean weight 1.
//
// The arrays belong to the caller, who keeps them from step to step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/types.hpp"

namespace truemax {

struct RecentLabels {
  std::span<std::int32_t> ring;
  std::span<std::int32_t> count;  // [K]: how often each class is in the ring
  std::uint64_t seen = 0;         // labels so far

  std::uint64_t held() const { return seen < ring.size() ? seen : ring.size(); }

  // Words that `draws` draws use.
  static std::size_t words(std::size_t draws) { return 2 * draws; }
  // Writes at most draws = words.size()/2 classes in rising order and their weights; returns their number.
  // Overwrites the words. Throws UserError if ring and counts do not belong together.
  std::size_t draw(std::span<std::uint64_t> words, double uniform_share, ClassId* classes,
                   double* weights) const;
  // A label takes the place of the oldest one.
  void add(ClassId label);
};

}  // namespace truemax
