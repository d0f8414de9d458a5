// What the one-row solvers need of the sum over a row's classes,
//     v(tau) = sum_j share_j a_j,   a_j = W(exp(log_scale_j - tau)).
#pragma once

#include "core/host_device.hpp"

namespace truemax {

struct RowSums {
  double v, slope, curve;  // v and minus its first and second derivative in tau
};

// a_j after tau has moved by a little: quartic in the move.
TRUEMAX_EVERYWHERE double moved_term(double a, double move) {
  const double over = 1 / (1 + a), rest = -move * over;
  return a + a * (rest + rest * rest * (0.5 * over + rest * over * (0.5 * over - 1.0 / 3.0)));
}

}  // namespace truemax
