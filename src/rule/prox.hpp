// The proximal step with a mirror step for u: the argmin over u and W of one row's part of the double sum,
//     e (u + exp(-u) + sum_k o_k exp(x.(w_k - w_y) - u)) + ridge,
// plus half the squared distance of W plus e/rho times the Bregman distance of exp(-u). It is the implicit
// step of the paper (eq:stochastic_f) with the geometry for u of SCENT (arXiv 2602.02877), all drawn classes
// together. W's step uses a u moved by the same draw, so with a fixed rho the fixed point is slightly off the
// softmax optimum. By default rho falls with the step: rho_t = rho step_t/step_0.
#pragma once

#include "rule/mirror_rate.hpp"
#include "rule/row_problem.hpp"
#include "solve/prox_blocks.hpp"
#include "solve/prox_row.hpp"

namespace truemax {

class ProxRule {
 public:
  static constexpr MethodInfo kInfo{
      .name = "prox",
      .description =
          "Proximal step on all drawn classes, mirror step for u; stable at any step size, unbiased in "
          "the limit as rho falls with the step.",
      .biased = false,
      .most_rows = 1,
      .most_classes = kAnyNumber,
      .cost = "m+1 scores, m+1 updates, a scalar root of about 3 evaluations of m logarithms",
      .objective = Objective::double_sum,
      .exact_start = true,
      .u_rate = true};

  ProxRule(const RuleOptions& options, const ProblemInfo& /*problem*/) : rho_(options) {}

  void reserve(const StepShape& shape) { row_problem_.reserve(shape); }

  void step(const StepView& view, StepResult& out) noexcept {
    ProxRow row;
    row.rho = rho_.at(view);
    row_problem_.solve(view, out, row, solve_prox_row);
  }

  bool step_blocks(BlockStepView& view) const noexcept {
    static_assert(kNoScore == kNoClass);
    ProxBlocks blocks;
    blocks.e = view.e;
    blocks.inverse_rho = 1 / rho_.at(view.decayed, view.complete);
    blocks.u = view.u;
    blocks.label_score = view.label_score, blocks.label_norm = view.label_norm;
    blocks.blocks = view.blocks;
    blocks.score = view.score, blocks.norm = view.norm, blocks.weight = view.weight;
    blocks.coefficient = view.coefficient;
    if (solve_prox_blocks(blocks) == 0) return false;
    view.u = blocks.u;
    view.label_coefficient = blocks.label_coefficient;
    return true;
  }

 private:
  MirrorRate rho_;
  RowProblem row_problem_;
};

}  // namespace truemax
