// exp and log for the scalar solvers, which are compiled for the CPU and the GPU, in double and in float32.
#pragma once

#include <cmath>

#include "core/host_device.hpp"
#include "solve/quick_math.hpp"

namespace truemax {

// In double, with nine digits; what the CPU's solvers use.
struct DoubleMath {
  using Real = double;
  static constexpr double kClosest = 1e-12;  // relative width of a bracket that holds one number
  TRUEMAX_EVERYWHERE static double exp(double t) { return quick_exp(t); }
  TRUEMAX_EVERYWHERE static double log(double x) { return quick_log(x); }
  TRUEMAX_EVERYWHERE static double over(double a, double b) { return a / b; }
  // log(1 + r), r > -1.
  TRUEMAX_EVERYWHERE static double log1p(double r) {
    return r > -0.125 && r < 0.125 ? quick_log1p(r) : std::log1p(r);
  }
};

// In float32; on the GPU with its own instructions for exp2 and log2, whose results differ from the CPU's in
// the last two bits.
struct FloatMath {
  using Real = float;
  static constexpr float kClosest = 2e-7F;
  TRUEMAX_EVERYWHERE static float exp(float t) {
#ifdef __CUDA_ARCH__
    return __expf(t);
#else
    return std::exp(t);
#endif
  }
  TRUEMAX_EVERYWHERE static float log(float x) {
#ifdef __CUDA_ARCH__
    return __logf(x);
#else
    return std::log(x);
#endif
  }
  // a/b for b below 1e37.
  TRUEMAX_EVERYWHERE static float over(float a, float b) {
#ifdef __CUDA_ARCH__
    return __fdividef(a, b);
#else
    return a / b;
#endif
  }
  TRUEMAX_EVERYWHERE static float log1p(float r) {
#ifdef __CUDA_ARCH__
    const float series = r * (1 - r * (0.5F - r * (1.0F / 3 - r * (0.25F - r * 0.2F))));
    return r > -0.06F && r < 0.06F ? series : __logf(1 + r);
#else
    return log1pf(r);
#endif
  }
};

template <class Real>
TRUEMAX_EVERYWHERE Real clamped(Real x, Real low, Real high) {
  return x < low ? low : high < x ? high : x;
}
template <class Real>
TRUEMAX_EVERYWHERE Real smaller(Real a, Real b) {
  return b < a ? b : a;
}
template <class Real>
TRUEMAX_EVERYWHERE Real larger(Real a, Real b) {
  return a < b ? b : a;
}
template <class Real>
TRUEMAX_EVERYWHERE Real magnitude(Real x) {
  return x < 0 ? -x : x;
}

}  // namespace truemax
