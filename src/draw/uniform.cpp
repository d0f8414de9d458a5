#include "draw/uniform.hpp"

#include <algorithm>

#include "core/distinct.hpp"

namespace truemax {

UniformDraw::UniformDraw(std::size_t classes, std::size_t classes_per_step, bool shared)
    : Draw(shared), among_(shared ? classes : classes - 1), per_step_(std::min(classes_per_step, among_)) {}

std::size_t UniformDraw::step(std::span<std::uint64_t> words, ClassId label, ExampleId /*example*/,
                              ClassId* classes, double* weights) const {
  WordList list{words.data()};
  draw_distinct_again(list, among_, {classes, per_step_});
  for (std::size_t j = 0; j < per_step_; ++j) {
    classes[j] += classes[j] >= label ? 1U : 0U;  // skips the label
    weights[j] = static_cast<double>(among_) / static_cast<double>(per_step_);
  }
  return per_step_;
}

void UniformDraw::fill(const CounterRandom& random, std::uint64_t first_step, std::size_t steps,
                       std::span<const ClassId> labels, std::span<const ExampleId> examples,
                       DrawBuffer& out) const {
  if (per_step_ != 1 || shared()) return Draw::fill(random, first_step, steps, labels, examples, out);
  // Fast path for the paper's step.
  out.shape(steps, 1);
  std::fill(out.weights.begin(), out.weights.end(), static_cast<double>(among_));
  std::fill(out.count.begin(), out.count.end(), 1U);
  RandomWords words(random, first_step);
  for (std::size_t t = 0; t < steps; ++t) {
    const auto number = static_cast<ClassId>(uniform_below(words.next(), among_));
    out.classes[t] = number + (number >= labels[t] ? 1U : 0U);
  }
}

double UniformDraw::inclusion(ClassId /*k*/) const {
  return static_cast<double>(per_step_) / static_cast<double>(among_);
}

std::size_t UniformSkipDraw::step(std::span<std::uint64_t> words, ClassId label, ExampleId example,
                                  ClassId* classes, double* weights) const {
  const std::size_t count = from_all_.step(words, kUnseenClass, example, classes, weights);
  ClassId* end = std::remove(classes, classes + count, label);  // all weights are equal
  return static_cast<std::size_t>(end - classes);
}

}  // namespace truemax
