// exp, log and W(e^t) in vectors, as the solvers use them, on every instruction set of this machine.
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#endif
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "solve/vector_math_test.cpp"
#include <hwy/foreach_target.h>
// after foreach_target
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <cstddef>

#include "solve/row_sums_vector.hpp"

HWY_BEFORE_NAMESPACE();
namespace truemax {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// out[i] = f(x[i]), by vectors; the last x fills the last vector.
template <class T, class F>
void map_here(const T* x, std::size_t count, T* out, const F& f) {
  const hn::CappedTag<T, 8> d;
  constexpr std::size_t kWidth = hn::MaxLanes(hn::CappedTag<T, 8>());
  alignas(64) T in[kWidth], result[kWidth];
  for (std::size_t i = 0; i < count; i += kWidth) {
    for (std::size_t k = 0; k < kWidth; ++k) in[k] = x[i + k < count ? i + k : count - 1];
    hn::Store(f(d, hn::Load(d, in)), d, result);
    for (std::size_t k = 0; k < kWidth && i + k < count; ++k) out[i + k] = result[k];
  }
}

struct ExpOf {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return hn::Exp(d, x);
  }
};
struct LogOf {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return hn::Log(d, x);
  }
};
struct GuessOf {
  HWY_INLINE RowV operator()(RowTag d, RowV t) const { return lambert_guess<false>(d, t); }
};
struct RefinedOf {
  HWY_INLINE RowV operator()(RowTag d, RowV t) const {
    return row_refine(t, row_refine(t, lambert_guess<true>(d, t)));
  }
};

void exp_doubles(const double* x, std::size_t count, double* out) {
  map_here(x, count, out, ExpOf());
}
void log_doubles(const double* x, std::size_t count, double* out) {
  map_here(x, count, out, LogOf());
}
void exp_floats(const float* x, std::size_t count, float* out) {
  map_here(x, count, out, ExpOf());
}
void log_floats(const float* x, std::size_t count, float* out) {
  map_here(x, count, out, LogOf());
}
void lambert_guesses(const double* x, std::size_t count, double* out) {
  map_here(x, count, out, GuessOf());
}
void lambert_refined(const double* x, std::size_t count, double* out) {
  map_here(x, count, out, RefinedOf());
}

}  // namespace HWY_NAMESPACE
}  // namespace truemax
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "core/instruction_sets.hpp"
#include "solve/lambert.hpp"

namespace truemax {
namespace {

HWY_EXPORT(exp_doubles);
HWY_EXPORT(log_doubles);
HWY_EXPORT(exp_floats);
HWY_EXPORT(log_floats);
HWY_EXPORT(lambert_guesses);
HWY_EXPORT(lambert_refined);

template <class T>
std::vector<T> numbers(double low, double high, std::vector<T> out) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> between(low, high);
  for (int i = 0; i < 20000; ++i) out.push_back(static_cast<T>(between(random)));
  return out;
}

// The largest relative error of out against f in long double; absolute if |f| is below `small`.
template <class T, class F>
double worst(const std::vector<T>& x, const std::vector<T>& out, double small, const F& f) {
  long double most = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const long double exact = f(static_cast<long double>(x[i]));
    const long double off = std::abs(static_cast<long double>(out[i]) - exact);
    most = std::max(most, off / std::max(std::abs(exact), static_cast<long double>(small)));
  }
  return static_cast<double>(most);
}

const auto exp_of = [](long double v) { return std::exp(v); };
const auto log_of = [](long double v) { return std::log(v); };

TEST(VectorMath, ExpAndLogAreWithinAFewUlps) {
  const std::vector<double> t = numbers<double>(-700, 700, {0.0, -0.0, -1e-300, 1e-18, -690, 709}),
                            p = numbers<double>(0, 1e6, {1e-300, 0.5, 1.0, 1.0 + 1e-12, 1e300});
  const std::vector<float> s = numbers<float>(-80, 80, {0.0F, -1e-30F}),
                           q = numbers<float>(0, 1e4, {1e-37F, 0.5F, 1.0F, 1.0001F, 1e37F});
  for (const std::int64_t target : instruction_sets()) {
    const OnInstructionSet here(target);
    SCOPED_TRACE(instruction_set_name(target));
    std::vector<double> out(t.size());
    HWY_DYNAMIC_DISPATCH(exp_doubles)(t.data(), t.size(), out.data());
    EXPECT_LT(worst(t, out, 0, exp_of), 4.5e-16);
    out.resize(p.size());
    HWY_DYNAMIC_DISPATCH(log_doubles)(p.data(), p.size(), out.data());
    EXPECT_LT(worst(p, out, 1e-16, log_of), 9e-16);
    std::vector<float> floats(s.size());
    HWY_DYNAMIC_DISPATCH(exp_floats)(s.data(), s.size(), floats.data());
    EXPECT_LT(worst(s, floats, 0, exp_of), 1.3e-7);
    floats.resize(q.size());
    HWY_DYNAMIC_DISPATCH(log_floats)(q.data(), q.size(), floats.data());
    EXPECT_LT(worst(q, floats, 1e-7, log_of), 4.8e-7);
  }
}

TEST(VectorMath, LambertIsExactAfterTwoSteps) {
  std::vector<double> t = numbers<double>(-690, 700, {-690, -18, 0, 1, 2.5, 1e3, 1e10, 1e100});
  const std::vector<double> narrow = numbers<double>(-5, 5, {});
  t.insert(t.end(), narrow.begin(), narrow.end());
  for (const double edge : {1.0, 2.5})
    for (const double at : {std::nextafter(edge, 0.0), std::nextafter(edge, 3.0)}) t.push_back(at);
  for (const std::int64_t target : instruction_sets()) {
    const OnInstructionSet here(target);
    SCOPED_TRACE(instruction_set_name(target));
    std::vector<double> guess(t.size()), refined(t.size());
    HWY_DYNAMIC_DISPATCH(lambert_guesses)(t.data(), t.size(), guess.data());
    HWY_DYNAMIC_DISPATCH(lambert_refined)(t.data(), t.size(), refined.data());
    for (std::size_t i = 0; i < t.size(); ++i) {
      const double exact = lambert_w_exp(t[i]);
      ASSERT_NEAR(guess[i] / exact, 1, 0.07) << t[i];
      // t - w - log(w) is accurate to a few ulps of its largest term.
      ASSERT_NEAR(refined[i] / exact, 1, 5e-15 + 5e-16 * std::abs(t[i]) / (1 + exact)) << t[i];
    }
  }
}

}  // namespace
}  // namespace truemax
#endif  // HWY_ONCE
