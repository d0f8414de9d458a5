// Shared by the tests of this folder.
#pragma once

#include <cmath>
#include <memory>
#include <string_view>
#include <vector>

#include "draw/draw.hpp"

namespace truemax {

// Falling, as classes are ordered; some have no mass.
inline std::vector<double> skewed_mass(std::size_t classes) {
  std::vector<double> mass(classes);
  for (std::size_t k = 0; k < classes; ++k)
    mass[k] = k % 7 == 6 ? 0.0 : 10 / std::pow(1.0 + static_cast<double>(k), 1.3);
  return mass;
}

// A draw for skewed labels.
inline std::unique_ptr<Draw> skewed_draw(std::string_view name, std::size_t classes, std::size_t m,
                                         bool shared, const DrawOptions& options = {}) {
  const std::vector<double> mass = skewed_mass(classes);
  return make_draw({.name = name,
                    .classes = classes,
                    .classes_per_step = m,
                    .shared = shared,
                    .label_mass = mass,
                    .examples = 3,
                    .options = options});
}

// Whether class k is in every step of a row with this label.
inline bool with_the_label(const Draw& draw, ClassId k, ClassId label) {
  return draw.takes_label_block() && k / kBlockClasses == label / kBlockClasses;
}

}  // namespace truemax
