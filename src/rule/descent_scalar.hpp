// The steps of scent and umax for one row, one class after the other: what a thread of the GPU runs. Classes
// and Threads as in solve/prox_scalar.hpp; rule/scent.hpp and rule/umax.hpp say what they do.
#pragma once

#include <algorithm>
#include <cmath>

#include "core/host_device.hpp"
#include "solve/log_sum.hpp"
#include "solve/mirror.hpp"
#include "solve/row_scalar.hpp"

namespace truemax {

// Calls visit(weight, at) for every class.
template <class Classes, class Visit>
TRUEMAX_EVERYWHERE void each_class(const Classes& classes, Visit&& visit) {
  for (int b = 0; b < classes.blocks(); ++b)
    for (int lane = 0; lane < classes.lanes(); ++lane) {
      float& at = classes.at(b, lane);
      if (at > 0.5F * kNoClass) visit(static_cast<double>(classes.weight(b)), at);
    }
}

// The logarithm of sum exp(top); below -1e299 if there is no class.
TRUEMAX_EVERYWHERE double log_of_sum(double sum, double top) {
  return sum > 0 ? top + std::log(sum) : -1e300;
}

// log of the sum of weight(o) exp(z - z_y); below -1e299 if there is no class.
template <class Classes, class Threads, class Weight>
TRUEMAX_EVERYWHERE double log_sum_of(const RowStep& p, const Classes& classes, const Threads& threads,
                                     const Weight& weight) {
  double highest = -1e300;
  each_class(classes, [&](double /*o*/, float& at) {
    highest = std::max(highest, static_cast<double>(at) - p.label_score);
  });
  highest = threads.highest(highest);
  double sum = 0;
  each_class(classes, [&](double o, float& at) {
    sum += weight(o) * std::exp(static_cast<double>(at) - p.label_score - highest);
  });
  return log_of_sum(threads.sum(sum), highest);
}

// The gradient step of W at u: scores become what is added to the classes, c_y is their sum.
template <class Classes, class Threads>
TRUEMAX_EVERYWHERE void descend_scalar(RowStep& p, const Classes& classes, const Threads& threads, double u,
                                       double most) {
  double sum = 0;
  for (int b = 0; b < classes.blocks(); ++b)
    for (int lane = 0; lane < classes.lanes(); ++lane) {
      float& at = classes.at(b, lane);
      double c = 0;
      if (at > 0.5F * kNoClass)
        c = p.e * static_cast<double>(classes.weight(b)) *
            std::exp(std::min(static_cast<double>(at) - (p.label_score + u), most));
      at = static_cast<float>(-c);
      sum += c;
    }
  p.label_coefficient = threads.sum(sum);
}

// The new u of scent, and the bound on the exponents of W's step at it. least: the smallest weight of a
// class.
struct ScentMove {
  double u, most;
};
TRUEMAX_EVERYWHERE ScentMove scent_move(double u, double rho, double log_sum, double least) {
  const double log_most = softplus(-u - std::log(rho));
  const Mirror mirror(u, rho);
  if (log_sum > -1e299) return {std::max(mirror.from_log_sum(log_sum), 0.0), log_most - std::log(least)};
  return {std::max(mirror.from_pull(0), 0.0), log_most};
}

// u of umax before W's step, and after it: c_y is what W's step adds to the label.
TRUEMAX_EVERYWHERE double umax_raised(double u, double log_sum, double delta) {
  const double bound = softplus(log_sum);
  return u < bound - delta ? bound : u;
}
TRUEMAX_EVERYWHERE double umax_u(double u, double label_coefficient, double e, double delta, double most_u) {
  const double rest = -e * std::expm1(std::min(-u, delta));
  return std::min(std::max(u + (label_coefficient - rest), 0.0), most_u);
}

template <class Classes, class Threads>
TRUEMAX_EVERYWHERE void step_scent_scalar(RowStep& p, const Classes& classes, const Threads& threads) {
  const double log_sum = log_sum_of(p, classes, threads, [](double o) { return o; });
  double least = 1e300;
  each_class(classes, [&](double o, float& /*at*/) { least = std::min(least, o); });
  least = -threads.highest(-least);
  const ScentMove move = scent_move(p.u, p.rho, log_sum, least);
  p.u = move.u;
  descend_scalar(p, classes, threads, p.u, move.most);
}

// u stays in [0, most_u].
template <class Classes, class Threads>
TRUEMAX_EVERYWHERE void step_umax_scalar(RowStep& p, const Classes& classes, const Threads& threads,
                                         double delta, double most_u) {
  const double log_sum = log_sum_of(p, classes, threads, [](double /*o*/) { return 1.0; });
  const double u = umax_raised(p.u, log_sum, delta);
  descend_scalar(p, classes, threads, u, delta);
  p.u = umax_u(u, p.label_coefficient, p.e, delta, most_u);
}

}  // namespace truemax
