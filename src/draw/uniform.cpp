#include "draw/uniform.hpp"

#include <algorithm>

namespace truemax {

UniformDraw::UniformDraw(std::size_t classes, std::size_t classes_per_step, bool shared)
    : shared_(shared),
      among_(shared ? classes : classes - 1),
      per_step_(std::min(classes_per_step, among_)) {}

void UniformDraw::fill(const CounterRandom& random, std::uint64_t first_step, std::size_t steps,
                       std::span<const ClassId> labels, DrawBuffer& out) const {
  out.shape(steps, per_step_);
  std::fill(out.weights.begin(), out.weights.end(),
            static_cast<double>(among_) / static_cast<double>(per_step_));
  std::fill(out.count.begin(), out.count.end(), static_cast<std::uint32_t>(per_step_));
  RandomWords words(random, first_step * per_step_);
  if (per_step_ == 1 && !shared_) {  // the paper's step, where every nanosecond counts
    for (std::size_t t = 0; t < steps; ++t) {
      const auto number = static_cast<ClassId>(uniform_below(words.next(), among_));
      out.classes[t] = number + (number >= labels[t] ? 1U : 0U);
    }
    return;
  }
  for (std::size_t t = 0; t < steps; ++t) {
    const std::span<ClassId> classes(&out.classes[t * per_step_], per_step_);
    draw_distinct(words, among_, classes);
    if (shared_) continue;
    for (ClassId& k : classes) k += k >= labels[t] ? 1U : 0U;  // skips the label
  }
}

double UniformDraw::inclusion(ClassId /*k*/) const {
  return static_cast<double>(per_step_) / static_cast<double>(among_);
}

}  // namespace truemax
