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
  sum = threads.sum(sum);
  return sum > 0 ? highest + std::log(sum) : -1e300;
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

template <class Classes, class Threads>
TRUEMAX_EVERYWHERE void step_scent_scalar(RowStep& p, const Classes& classes, const Threads& threads) {
  const double log_sum = log_sum_of(p, classes, threads, [](double o) { return o; });
  double least = 1e300;
  each_class(classes, [&](double o, float& /*at*/) { least = std::min(least, o); });
  least = -threads.highest(-least);
  const double log_most = softplus(-p.u - std::log(p.rho));
  if (log_sum > -1e299) {
    p.u = std::max(Mirror(p.u, p.rho).from_log_sum(log_sum), 0.0);
  } else {
    p.u = std::max(Mirror(p.u, p.rho).from_pull(0), 0.0);
    least = 1;
  }
  descend_scalar(p, classes, threads, p.u, log_most - std::log(least));
}

// u stays in [0, most_u].
template <class Classes, class Threads>
TRUEMAX_EVERYWHERE void step_umax_scalar(RowStep& p, const Classes& classes, const Threads& threads,
                                         double delta, double most_u) {
  const double bound = softplus(log_sum_of(p, classes, threads, [](double /*o*/) { return 1.0; }));
  const double u = p.u < bound - delta ? bound : p.u;
  descend_scalar(p, classes, threads, u, delta);
  const double rest = -p.e * std::expm1(std::min(-u, delta));
  p.u = std::min(std::max(u + (p.label_coefficient - rest), 0.0), most_u);
}

}  // namespace truemax
