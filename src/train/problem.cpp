#include "train/problem.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "rule/methods.hpp"
#include "weights/kernels.hpp"

namespace truemax {

std::vector<double> label_mass(const Dataset& data) {
  std::vector<double> mass(data.classes->size(), 0.0);
  for (std::size_t i = 0; i < data.size(); ++i) mass[data.label[i]] += data.example_weight(i);
  return mass;
}

std::unique_ptr<Draw> draw_for(const Dataset& data, const TrainOptions& options) {
  if (find_method(options.method).whole_set) return nullptr;
  const std::vector<double> mass = label_mass(data);
  return make_draw({.name = options.draw,
                    .classes = mass.size(),
                    .classes_per_step = options.classes_per_step,
                    .shared = options.rows_per_step > 1,
                    .label_mass = mass,
                    .examples = data.size(),
                    .options = options.draws});
}

std::vector<double> ridge_weights(const Dataset& data, const TrainOptions& options, const Draw* draw) {
  std::vector<double> beta(data.classes->size(), 1.0);
  if (draw == nullptr) return beta;  // all classes are
  std::vector<double> rows(beta.size(), 0.0);
  for (const ClassId y : data.label) rows[y] += 1;
  if (draw->takes_label_block())
    for (std::size_t first = 0; first < rows.size(); first += kBlockClasses) {
      const auto block = rows.begin() + static_cast<std::ptrdiff_t>(first),
                 end = block + static_cast<std::ptrdiff_t>(std::min(kBlockClasses, rows.size() - first));
      std::fill(block, end, std::accumulate(block, end, 0.0));
    }
  const auto all = static_cast<double>(data.size());
  for (ClassId k = 0; k < beta.size(); ++k) {
    double missed = 1;  // the probability that no row of the step brings the class
    for (std::uint64_t j = 0; j < options.rows_per_step; ++j)
      missed *= std::max(0.0, 1 - rows[k] / (all - static_cast<double>(j)));
    beta[k] = 1 / (1 - missed * (1 - draw->inclusion(k)));
  }
  return beta;
}

ProblemInfo problem_of(const Dataset& data, const TrainOptions& options) {
  ProblemInfo info;
  info.rows = static_cast<double>(data.size());
  info.classes = static_cast<double>(data.classes->size());
  info.ridge = options.ridge;
  info.free_intercept = options.intercept && !options.ridge_intercept;
  const bool in_ridge = options.intercept && options.ridge_intercept;
  for (std::size_t i = 0; i < data.size(); ++i) {
    info.total_weight += static_cast<double>(data.example_weight(i));
    info.longest_row = std::max(info.longest_row, std::sqrt(squared_norm(data.x(i), in_ridge)));
  }
  return info;
}

}  // namespace truemax
