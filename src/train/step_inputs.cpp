#include "train/step_inputs.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "rule/methods.hpp"
#include "train/x_chunks.hpp"
#include "weights/kernels.hpp"

namespace truemax {
namespace {

// Replaces the value of each class by the sum over its block.
void sum_blocks(std::vector<double>& of_class) {
  for (std::size_t first = 0; first < of_class.size(); first += kBlockClasses) {
    const auto block = of_class.begin() + static_cast<std::ptrdiff_t>(first),
               end = block + static_cast<std::ptrdiff_t>(std::min(kBlockClasses, of_class.size() - first));
    std::fill(block, end, std::accumulate(block, end, 0.0));
  }
}

}  // namespace

std::vector<double> block_loads(const DataView& data, const Draw* draw) {
  std::vector<double> load((data.classes->size() + kBlockClasses - 1) / kBlockClasses, 1.0);
  if (draw == nullptr) return load;
  const std::vector<double> mass = label_mass(data);
  const double total = std::accumulate(mass.begin(), mass.end(), 0.0);
  for (std::size_t b = 0; b < load.size(); ++b) {
    double label = 0;
    for (std::size_t k = b * kBlockClasses; k < std::min(mass.size(), (b + 1) * kBlockClasses); ++k)
      label += mass[k] / total;
    load[b] = label + (1 - label) * draw->inclusion(static_cast<ClassId>(b * kBlockClasses));
  }
  return load;
}

std::unique_ptr<Draw> draw_for(const Recipe& recipe, const Problem& problem) {
  if (find_method(recipe.method).whole_set) return nullptr;
  return make_draw({.name = recipe.draw,
                    .classes = problem.label_mass->size(),
                    .classes_per_step = recipe.classes_per_step,
                    .shared = recipe.rows_per_step > 1,
                    .label_mass = *problem.label_mass,
                    .examples = problem.examples,
                    .options = recipe.draws});
}

std::vector<double> ridge_weights(const DataView& data, const Draw* draw, std::size_t rows) {
  std::vector<double> beta(data.classes->size(), 1.0);
  if (draw == nullptr) return beta;  // every class is in every step
  std::vector<double> labelled(beta.size(), 0.0), mass = label_mass(data);
  for (const ClassId y : data.labels()) labelled[y] += 1;
  const auto all = static_cast<double>(data.size());
  const double mean_weight = std::accumulate(mass.begin(), mass.end(), 0.0) / all;
  if (draw->takes_label_block()) {
    // Rows bring the blocks that they remember as they bring that of their label.
    if (draw->most_rivals() > 0)
      for (const ExampleId i : data.examples())
        for (const ClassId b : draw->rivals_of(i))
          labelled[b * kBlockClasses] += 1, mass[b * kBlockClasses] += data.weight(i);
    sum_blocks(labelled);
    sum_blocks(mass);
  }
  for (ClassId k = 0; k < beta.size(); ++k) {
    double missed = 1;  // probability that no row of the step brings the class
    for (std::size_t j = 0; j < rows; ++j)
      missed *= std::max(0.0, 1 - labelled[k] / (all - static_cast<double>(j)));
    // The rows of such a step are a random choice of those that do not bring the class.
    const double others = all - labelled[k];
    if (others > 0) missed *= (mean_weight * all - mass[k]) / others / mean_weight;
    beta[k] = 1 / (1 - std::min(missed, 1.0) * (1 - draw->inclusion(k)));
  }
  return beta;
}

ProblemInfo rule_problem(const DataView& data, const Recipe& recipe) {
  ProblemInfo info;
  info.rows = static_cast<double>(data.size());
  info.classes = static_cast<double>(data.classes->size());
  info.ridge = recipe.ridge;
  info.free_intercept = recipe.intercept && !recipe.ridge_intercept;
  for (const ExampleId i : data.examples()) info.total_weight += static_cast<double>(data.weight(i));
  const bool in_ridge = recipe.intercept && recipe.ridge_intercept;
  std::vector<double> largest(x_chunks(data), 0.0);  // squared norm
  each_x_of_chunks(data, recipe.thread_count(), [&](std::size_t chunk, ExampleId /*i*/, const RowView& x) {
    const double square = squared_norm(x, in_ridge);
    if (square > largest[chunk]) largest[chunk] = square;  // chunks share cache lines
  });
  for (const double square : largest) info.longest_row = std::max(info.longest_row, std::sqrt(square));
  return info;
}

}  // namespace truemax
