// What the general and the all-classes lane share: the arrays of a step, what a rule is told, its growth.
#pragma once

#include <span>

#include "train/lane.hpp"
#include "train/step_arrays.hpp"
#include "weights/kernels.hpp"

namespace truemax {

class StepWork {
 public:
  StepWork(const LaneSetup& setup, const StepShape& shape);

  // Its examples. Then classes and scores are put into `a`.
  void start(std::span<const ExampleId> examples);
  // All that the rule is told besides: rows, weights, Gram matrix, ridge. `with_gram`: also of several rows.
  void fill_view(const RunState& state, const Batch& batch, bool with_gram);
  // Coefficients and the new u; the state is as it was.
  Growth solve(const RunState& state);
  // Divides the classes of the step by their ridge factor, after the update.
  void apply_ridge(RunState& state) const;
  void apply_u(RunState& state) const;

  std::span<const ExampleId> examples() const { return examples_; }
  std::size_t columns() const { return view.columns; }
  std::span<const double> coefficients(std::size_t row) const {
    return std::span(a.coefficient).subspan(row * columns(), columns());
  }

  StepArrays a;
  StepView view;  // into a

 private:
  void fill_ridge(const RunState& state, double step);
  Growth growth_of(const RunState& state) const;

  const LaneSetup& setup_;
  std::span<const ExampleId> examples_;
  GramKernel gram_;
};

}  // namespace truemax
