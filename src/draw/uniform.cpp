#include "draw/uniform.hpp"

#include <algorithm>

namespace truemax {

UniformDraw::UniformDraw(std::size_t classes, std::size_t classes_per_step)
    : classes_(classes), per_step_(classes_per_step) {}

std::size_t UniformDraw::most_classes() const {
  return std::min(per_step_, classes_ - 1);
}

std::size_t UniformDraw::merge(std::span<ClassId> numbers, ClassId label, ClassId* classes,
                               double* weights) const {
  const double unit = static_cast<double>(classes_ - 1) / static_cast<double>(numbers.size());
  // Few numbers: look through what is there. Many: sort, so that equal ones are neighbours.
  const bool sorted = numbers.size() > 32;
  if (sorted) std::sort(numbers.begin(), numbers.end());
  std::size_t count = 0;
  for (const ClassId number : numbers) {
    const ClassId k = number + (number >= label ? 1U : 0U);  // skips the label
    const ClassId* first = sorted && count > 0 ? classes + count - 1 : classes;
    const auto at =
        static_cast<std::size_t>(std::find(first, static_cast<const ClassId*>(classes + count), k) - classes);
    if (at == count) {
      classes[count] = k;
      weights[count++] = unit;
    } else {
      weights[at] += unit;
    }
  }
  return count;
}

void UniformDraw::fill(const CounterRandom& random, std::uint64_t first_step, std::span<const ClassId> labels,
                       DrawBuffer& out) const {
  out.shape(labels.size(), most_classes());
  if (per_step_ == 1) {
    const double weight = static_cast<double>(classes_ - 1);
    RandomWords words(random, first_step);
    for (std::size_t t = 0; t < labels.size(); ++t) {
      const auto number = static_cast<ClassId>(uniform_below(words.next(), classes_ - 1));
      out.classes[t] = number + (number >= labels[t] ? 1U : 0U);
      out.weights[t] = weight;
      out.count[t] = 1;
    }
    return;
  }
  std::vector<ClassId> numbers(per_step_);
  RandomWords words(random, first_step * per_step_);
  for (std::size_t t = 0; t < labels.size(); ++t) {
    for (ClassId& number : numbers) number = static_cast<ClassId>(uniform_below(words.next(), classes_ - 1));
    out.count[t] = static_cast<std::uint32_t>(
        merge(numbers, labels[t], &out.classes[t * out.capacity], &out.weights[t * out.capacity]));
  }
}

}  // namespace truemax
