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
  TRUEMAX_EVERYWHERE Real highest(Real x) const {
    return x;
  }
};

// w (1 + delta) solves w' + log w' = t + residual, where w + log w = t: relative error quartic in the
// residual.
TRUEMAX_EVERYWHERE float lambert_moved(float w, float residual) {
  const float over = 1 / (1 + w), rho = residual * over;
  const float cubic = over * (0.5F * over - 1.0F / 3.0F);
  return w + w * (rho + rho * rho * (0.5F * over + rho * cubic));
}

// W(x) for x >= 0, with relative error of about 1e-5.
TRUEMAX_EVERYWHERE float lambert_of(float x) {
  if (x < 0.015F) return x * (1 - x * (1 - 1.5F * x));
  float w;
  if (x < 2.7182818F) {
    w = x * (1 + 4.0F / 3.0F * x) / (1 + x * (7.0F / 3.0F + 5.0F / 6.0F * x));
  } else {
    const float t = FloatMath::log(x), beyond = t - 1;
    if (t < 2.5F) {
      w = 1 + beyond * (0.5F + beyond * 0.0625F);
    } else {
      const float log_t = FloatMath::log(t);
      w = t - log_t + log_t / t;
    }
  }
  return lambert_moved(w, FloatMath::log(x / w) - w);  // the guess is within 7%
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
  if (!(threads.highest(highest) < kHighestProxGap) || !(least >= kSmallestProxFactor) ||
      !(most <= kLargestProxFactor) || !(magnitude(p.u) < 80) || !(over_rho < 1e15F))
    return 0;
  const float sum = threads.sum(once), squares = threads.sum(squared);
  if (!(squares < 1e37F)) return 0;  // bounds the sum too
  if (!(sum > 1e-30F)) {
    for (int b = 0; b < classes.blocks(); ++b)
      for (int lane = 0; lane < classes.lanes(); ++lane) classes.at(b, lane) = 0;
    p.u = FloatMath::log(keep / base), p.label_coefficient = 0;
    return 1;
  }
  const auto evaluate = [&](float common) {
    float value = 0, slope = 0;
    for (int b = 0; b < classes.blocks(); ++b) {
      const float factor = common * (classes.norm(b) * classes.weight(b)), over_norm = 1 / classes.norm(b);
      float in_block = 0, slope_in_block = 0;
      for (int lane = 0; lane < classes.lanes(); ++lane) {
        const float w = lambert_of(factor * classes.at(b, lane));
        in_block += w, slope_in_block += w / (1 + w);
      }
      value += over_norm * in_block, slope += over_norm * slope_in_block;
    }
    return ProxSums<float>{threads.sum(value), threads.sum(slope)};
  };
  float last = 0;
  const ProxRoot<float> root =
      solve_prox_equation<FloatMath>({p.e, over_rho, base, p.label_norm, sum, squares}, [&](float common) {
        last = common;
        return evaluate(common);
      });
  if (root.evaluations == 0) return 0;
  float all = 0;
  for (int b = 0; b < classes.blocks(); ++b) {
    const float factor = last * (classes.norm(b) * classes.weight(b)), scale = -1 / classes.norm(b);
    for (int lane = 0; lane < classes.lanes(); ++lane) {
      float& z = classes.at(b, lane);
      z = scale * lambert_moved(lambert_of(factor * z), root.move);  // the fourth power is negligible
      all += z;
    }
  }
  p.label_coefficient = -threads.sum(all);
  p.u = -FloatMath::log(root.g);
  return root.evaluations;
}

}  // namespace truemax
