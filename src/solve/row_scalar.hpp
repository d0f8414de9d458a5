// The proximal and the implicit step of one row in double, one class after the other, for any numbers: what a
// thread of the GPU runs where float32 does not reach (solve/prox_scalar.hpp), and on the CPU the plain
// version that the vectors are tested against. The equations are in solve/prox_row.hpp and
// solve/implicit_row.hpp.
#pragma once

#include <cmath>

#include "core/host_device.hpp"
#include "solve/implicit_row_root.hpp"
#include "solve/lambert.hpp"
#include "solve/prox_row_root.hpp"
#include "solve/prox_scalar.hpp"

namespace truemax {

struct RowStep {
  double e = 1;                  // step of the row, > 0
  double rho = 1;                // mirror strength, > 0; not for implicit
  double u = 0;                  // in: old u; out: new u
  double label_score = 0;        // z_y
  double label_norm = 1;         // s of the label
  double label_coefficient = 0;  // out: c_y = sum of c_j
};

// Classes as in solve_prox_scalar, for one step in double.
template <class Classes, class Threads>
class ScalarRow {
 public:
  TRUEMAX_EVERYWHERE ScalarRow(const RowStep& step, const Classes& classes, const Threads& threads,
                               double log_step)
      : step_(step), classes_(classes), threads_(threads), log_step_(log_step) {
    double highest = kNothing, largest = 0;
    each([&](double log_scale, double /*share*/, float& /*at*/) {
      highest = std::max(highest, log_scale);
      largest = std::max(largest, std::abs(log_scale));
    });
    top = threads.highest(highest), size = threads.highest(largest);
    double once = 0, squared = 0;
    each([&](double log_scale, double share, float& /*at*/) {
      const double part = std::exp(log_scale - top);
      once += share * part, squared += share * part * part;
    });
    sum = threads.sum(once), squares = threads.sum(squared);
  }

  TRUEMAX_EVERYWHERE bool empty() const { return top == kNothing; }

  // Calls visit(A_j, share_j, at) for every class of this thread, and unused(at) for lanes without one; A_j
  // counts from log_step.
  template <class Visit, class Unused>
  TRUEMAX_EVERYWHERE void each(Visit&& visit, Unused&& unused) const {
    for (int b = 0; b < classes_.blocks(); ++b) {
      // A row without features has no norms to compare.
      const double share =
          step_.label_norm > 0 ? step_.label_norm / static_cast<double>(classes_.norm(b)) : 1;
      const double log_scale = log_step_ + std::log(static_cast<double>(classes_.weight(b)) / share);
      for (int lane = 0; lane < classes_.lanes(); ++lane) {
        float& at = classes_.at(b, lane);
        if (at <= 0.5F * kNoClass)
          unused(at);
        else
          visit(log_scale + (static_cast<double>(at) - step_.label_score), share, at);
      }
    }
  }

  template <class Visit>
  TRUEMAX_EVERYWHERE void each(Visit&& visit) const {
    each(visit, [](float& /*at*/) {});
  }

  TRUEMAX_EVERYWHERE RowSums at(double tau) const {
    RowSums here{0, 0, 0};
    each([&](double log_scale, double share, float& /*at*/) {
      const double a = term(log_scale - tau), over = 1 / (1 + a), first = share * a * over;
      here.v += share * a, here.slope += first, here.curve += first * over * over;
    });
    return {threads_.sum(here.v), threads_.sum(here.slope), threads_.sum(here.curve)};
  }

  // Replaces scores by -c_j, or 0 without a class; returns the sum of share_j a_j.
  TRUEMAX_EVERYWHERE double finish(double tau, double move, double scale, double& label_coefficient) const {
    double v = 0, total = 0;
    each(
        [&](double log_scale, double share, float& at) {
          const double part = share * moved_term(term(log_scale - tau), move);
          v += part, total += scale * part;
          at = static_cast<float>(-scale * part);
        },
        [](float& at) { at = 0; });
    label_coefficient = threads_.sum(total);
    return threads_.sum(v);
  }

  double top, size, sum, squares;

 private:
  static constexpr double kNothing = -1e300;
  // exp(t) below this is denormal, and so is the term.
  TRUEMAX_EVERYWHERE static double term(double t) { return lambert_w_exp(std::max(t, -690.0)); }

  const RowStep& step_;
  const Classes& classes_;
  const Threads& threads_;
  double log_step_;
};

template <class Classes, class Threads>
TRUEMAX_EVERYWHERE int solve_prox_row_scalar(RowStep& p, const Classes& classes, const Threads& threads) {
  const ProxRowEquation equation(p.e, p.label_norm, p.u, p.rho);
  const ScalarRow<Classes, Threads> row(p, classes, threads, equation.log_step);
  p.label_coefficient = 0;
  if (row.empty()) {
    p.u = equation.lowest;
    row.finish(0, 0, 0, p.label_coefficient);
    return 0;
  }
  const double top = row.top;
  const ProxRowRoot root = solve_prox_row_equation(
      equation, top, row.sum, [&](double x, double /*move*/) { return row.at(top + x); });
  const double v = row.finish(top + root.x, root.move, equation.scale, p.label_coefficient);
  p.u = prox_row_u(equation, root, top, v);
  return root.evaluations;
}

template <class Classes, class Threads>
TRUEMAX_EVERYWHERE int solve_implicit_row_scalar(RowStep& p, const Classes& classes, const Threads& threads) {
  const ScalarRow<Classes, Threads> row(p, classes, threads, std::log(p.e) + std::log(p.label_norm));
  const double kappa = 1 / p.label_norm;  // c_y = kappa v
  p.label_coefficient = 0;
  if (row.empty()) {
    p.u = solve_without_class(p.e, p.u);
    row.finish(0, 0, 0, p.label_coefficient);
    return 0;
  }
  OneClassModel model{p.e, p.u, kappa, 1, 2, 0};
  merge_classes(model, row.top, row.sum, row.squares);
  double tau = 0;
  const ImplicitRowRoot root =
      solve_implicit_row_equation(model, row.size, -1, [&](double at, double /*move*/) {
        tau = at;
        return row.at(at);
      });
  row.finish(tau, root.move, kappa, p.label_coefficient);
  p.u = root.u;
  return root.evaluations;
}

}  // namespace truemax
