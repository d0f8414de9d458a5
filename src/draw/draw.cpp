#include "draw/draw.hpp"

#include <array>

#include "core/error.hpp"
#include "draw/uniform.hpp"

namespace truemax {
namespace {
constexpr std::array<DrawInfo, 1> kDraws{{
    {"uniform",
     "classes uniformly without replacement; for one row from all but its label, for several rows, which "
     "share them, "
     "from all"},
}};
}

void DrawBuffer::shape(std::size_t steps, std::size_t most_classes) {
  capacity = most_classes;
  classes.resize(steps * most_classes);
  weights.resize(steps * most_classes);
  count.resize(steps);
}

std::span<const DrawInfo> draws() {
  return kDraws;
}

std::unique_ptr<Draw> make_draw(std::string_view name, std::size_t classes, std::size_t classes_per_step,
                                bool shared) {
  if (name == "uniform") return std::make_unique<UniformDraw>(classes, classes_per_step, shared);
  throw UserError("--draw " + std::string(name) + ": there is no such draw; see 'truemax train --help'");
}

}  // namespace truemax
