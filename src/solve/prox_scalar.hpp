// The proximal step of solve/prox_blocks.hpp, one class after the other: what a thread of the GPU runs, and
// on the CPU the plain version that the vectors are tested against.
//
// Several threads may share the classes of a step. Then each has some lanes of every block, `Threads` adds up
// what they found, and all of them get the same result.
#pragma once

#include <cstddef>

#include "core/host_device.hpp"
#include "solve/prox_blocks.hpp"
#include "solve/prox_root.hpp"

namespace truemax {

// All classes belong to this thread.
struct OneThread {
  template <class Real>
  TRUEMAX_EVERYWHERE Real sum(Real x) const {
    return x;
  }
  template <class Real>
  TRUEMAX_EVERYWHERE void sum_both(Real& /*x*/, Real& /*y*/) const {}
  template <class Real>
  TRUEMAX_EVERYWHERE Real highest(Real x) const {
    return x;
  }
  TRUEMAX_EVERYWHERE bool any(bool holds) const { return holds; }
};

// w (1 + delta) solves w' + log w' = t + residual, where w + log w = t: relative error quartic in the
// residual.
TRUEMAX_EVERYWHERE float lambert_moved(float w, float residual) {
  const float over = FloatMath::over(1, 1 + w), rho = residual * over;
  const float cubic = over * (0.5F * over - 1.0F / 3.0F);
  return w + w * (rho + rho * rho * (0.5F * over + rho * cubic));
}

// W(x) for x >= 0, with relative error of about 1e-6. Without branches: the threads of a GPU have different
// x. The guess (Iacono and Boyd, 2017) is within 1%.
TRUEMAX_EVERYWHERE float lambert_of(float x) {
  const float log_x = FloatMath::log(1 + x), log_log_x = FloatMath::log(1 + log_x);
  const float guess = log_x * (1 - FloatMath::over(log_log_x, 2 + log_x));
  const float solved = lambert_moved(guess, FloatMath::log(FloatMath::over(x, guess)) - guess);
  const float series = x * (1 - x * (1 - x * (1.5F - x * (8.0F / 3.0F))));
  return x < 0.02F ? series : solved;
}

struct ProxStep {
  float e = 1;                  // step of the row, > 0
  float inverse_rho = 1;        // 1/rho >= 0; 0: u is recomputed from scratch (every class is drawn)
  float u = 0;                  // in: old u; out: new u
  float label_score = 0;        // z_y
  float label_norm = 1;         // s of the label
  float label_coefficient = 0;  // out: c_y = sum of c_j
};

// exp of a larger difference, or numbers made from it, could overflow float32.
inline constexpr float kHighestProxGap = 40.0F, kLowestProxGap = -80.0F;
inline constexpr float kSmallestProxFactor = 1e-18F, kLargestProxFactor = 1e18F;

// `Classes` has blocks(), the number of lanes() of this thread in each of them, weight(b), norm(b), and
// at(b, lane): a float, in: the score, or kNoClass; out: -c_j, 0 for no class. Returns the number of
// evaluations of the sum over classes, or 0 if the numbers are outside the range of float32: then what at()
// refers to is undefined and `p` is unchanged.
template <class Classes, class Threads>
TRUEMAX_EVERYWHERE int solve_prox_scalar(ProxStep& p, const Classes& classes, const Threads& threads) {
  const float over_rho = p.inverse_rho, keep = 1 + over_rho;
  const float base = 1 + FloatMath::exp(-p.u) * over_rho;
  // E_j = exp(z_j - z_y), 0 for unused lanes; S = sum o E and the sum of squares.
  float highest = kLowestProxGap, once = 0, squared = 0, least = kLargestProxFactor, most = 0;
  for (int b = 0; b < classes.blocks(); ++b) {
    const float o = classes.weight(b), factor = p.e * classes.norm(b) * o;
    least = smaller(least, factor), most = larger(most, factor);
    for (int lane = 0; lane < classes.lanes(); ++lane) {
      float& z = classes.at(b, lane);
      const float gap = z - p.label_score;
      highest = larger(highest, gap);
      z = gap > kLowestProxGap ? FloatMath::exp(smaller(gap, kHighestProxGap)) : 0;
      once += o * z;
      squared += o * z * (o * z);
    }
  }
  threads.sum_both(once, squared);
  const float sum = once, squares = squared;  // the squares bound the sum too
  const bool fine = threads.highest(highest) < kHighestProxGap && least >= kSmallestProxFactor &&
                    most <= kLargestProxFactor && magnitude(p.u) < 80 && over_rho < 1e15F && squares < 1e37F;
  const bool none = !(sum > 1e-30F);
  const auto evaluate = [&](float common) {
    float value = 0, slope = 0;
    for (int b = 0; b < classes.blocks(); ++b) {
      const float factor = common * (classes.norm(b) * classes.weight(b)), over_norm = 1 / classes.norm(b);
      float in_block = 0, slope_in_block = 0;
      for (int lane = 0; lane < classes.lanes(); ++lane) {
        const float w = lambert_of(factor * classes.at(b, lane));
        in_block += w, slope_in_block += FloatMath::over(w, 1 + w);
      }
      value += over_norm * in_block, slope += over_norm * slope_in_block;
    }
    threads.sum_both(value, slope);
    return ProxSums<float>{value, slope};
  };
  ProxEquation<float> equation{p.e, over_rho, base, p.label_norm, sum, squares};
  if (!fine || none) equation = {1, 1, 2, 1, 1, 1};
  float last = 0;
  const ProxRoot<float> root = solve_prox_equation<FloatMath>(
      equation,
      [&](float common) {
        last = common;
        return evaluate(common);
      },
      threads, !fine || none);
  float all = 0;
  for (int b = 0; b < classes.blocks(); ++b) {
    const float factor = last * (classes.norm(b) * classes.weight(b)), scale = -1 / classes.norm(b);
    for (int lane = 0; lane < classes.lanes(); ++lane) {
      float& z = classes.at(b, lane);
      // The fourth power of the move is negligible.
      z = none ? 0 : scale * lambert_moved(lambert_of(factor * z), root.move);
      all += z;
    }
  }
  const float total = threads.sum(all);
  if (!fine || (!none && root.evaluations == 0)) return 0;
  p.label_coefficient = none ? 0 : -total;
  p.u = none ? FloatMath::log(keep / base) : -FloatMath::log(root.g);
  return none ? 1 : root.evaluations;
}

}  // namespace truemax
