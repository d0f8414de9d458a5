// The feature loops of a sampled step: a row against single classes. Inlined into the step loop. Products are
// taken in double, where the product of two floats is exact: no feature value can overflow a score, and sums
// differ between machines and loops only by the order of additions.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "core/csr.hpp"
#include "weights/weights.hpp"

namespace truemax {

// z_k = x.w_k (+ intercept), added in feature order: bit for bit the same as the rows x blocks pass.
inline double score(const Weights& w, RowView x, ClassId k) {
  const float* from = w.lane(k);
  const double start = w.has_intercept() ? static_cast<double>(w.intercept()[k]) : 0.0;
  double z = w.scaled() ? 0.0 : start;
  for (std::size_t j = 0; j < x.index.size(); ++j)
    z += static_cast<double>(x.value[j]) * static_cast<double>(from[std::size_t{x.index[j]} * kLanes]);
  return w.scaled() ? w.scale(k) * z + start : z;
}

// Scores of a few classes at once, with four independent partial sums per class.
template <std::size_t kClasses>
inline std::array<double, kClasses> scores(const Weights& w, RowView x,
                                           const std::array<ClassId, kClasses>& k) {
  std::array<const float*, kClasses> from;
  for (std::size_t c = 0; c < kClasses; ++c) from[c] = w.lane(k[c]);
  std::array<double, kClasses> even{}, odd{};
  const std::size_t count = x.index.size();
  const FeatureId* index = x.index.data();
  const float* value = x.value.data();
  std::size_t j = 0;
  for (; j + 1 < count; j += 2) {
    const std::size_t at0 = std::size_t{index[j]} * kLanes, at1 = std::size_t{index[j + 1]} * kLanes;
    const double x0 = static_cast<double>(value[j]), x1 = static_cast<double>(value[j + 1]);
    for (std::size_t c = 0; c < kClasses; ++c) {
      even[c] += x0 * static_cast<double>(from[c][at0]);
      odd[c] += x1 * static_cast<double>(from[c][at1]);
    }
  }
  if (j < count)
    for (std::size_t c = 0; c < kClasses; ++c)
      even[c] += static_cast<double>(value[j]) * static_cast<double>(from[c][std::size_t{index[j]} * kLanes]);
  for (std::size_t c = 0; c < kClasses; ++c) {
    even[c] += odd[c];
    if (w.scaled()) even[c] *= w.scale(k[c]);
    if (w.has_intercept()) even[c] += static_cast<double>(w.intercept()[k[c]]);
  }
  return even;
}

// w_k += c x (and the intercept += c) for a few distinct classes.
template <std::size_t kClasses>
inline void add(Weights& w, RowView x, const std::array<ClassId, kClasses>& k,
                std::array<double, kClasses> c) {
  if (w.has_intercept())
    for (std::size_t i = 0; i < kClasses; ++i)
      w.intercept()[k[i]] = static_cast<float>(static_cast<double>(w.intercept()[k[i]]) + c[i]);
  if (w.scaled())
    for (std::size_t i = 0; i < kClasses; ++i) c[i] /= w.scale(k[i]);
  std::array<float*, kClasses> to;
  for (std::size_t i = 0; i < kClasses; ++i) to[i] = w.lane(k[i]);
  for (std::size_t j = 0; j < x.index.size(); ++j) {
    const std::size_t at = std::size_t{x.index[j]} * kLanes;
    const double value = static_cast<double>(x.value[j]);
    for (std::size_t i = 0; i < kClasses; ++i)
      to[i][at] = static_cast<float>(static_cast<double>(to[i][at]) + c[i] * value);
  }
}

// w_k = 0 at the features of x.
inline void clear_features(Weights& w, RowView x, ClassId k) {
  float* to = w.lane(k);
  for (const FeatureId f : x.index) to[std::size_t{f} * kLanes] = 0;
}

// scores() and add() for any number of classes, four at a time.
inline void scores(const Weights& w, RowView x, std::span<const ClassId> k, double* z) {
  std::size_t i = 0;
  for (; i + 4 <= k.size(); i += 4) {
    const std::array<double, 4> four = scores<4>(w, x, {k[i], k[i + 1], k[i + 2], k[i + 3]});
    std::copy(four.begin(), four.end(), z + i);
  }
  for (; i + 2 <= k.size(); i += 2) {
    const std::array<double, 2> two = scores<2>(w, x, {k[i], k[i + 1]});
    z[i] = two[0], z[i + 1] = two[1];
  }
  for (; i < k.size(); ++i) z[i] = scores<1>(w, x, {k[i]})[0];
}
inline void add(Weights& w, RowView x, std::span<const ClassId> k, const double* c) {
  std::size_t i = 0;
  for (; i + 4 <= k.size(); i += 4)
    add<4>(w, x, {k[i], k[i + 1], k[i + 2], k[i + 3]}, {c[i], c[i + 1], c[i + 2], c[i + 3]});
  for (; i + 2 <= k.size(); i += 2) add<2>(w, x, {k[i], k[i + 1]}, {c[i], c[i + 1]});
  for (; i < k.size(); ++i) add<1>(w, x, {k[i]}, {c[i]});
}

// All classes: z and c hold one number per class, padded to whole blocks. Scores match score() bit for bit.
void scores_of_all(const Weights& w, std::span<const RowView> rows, double* z);
void add_to_all(Weights& w, RowView x, const double* c);

// to += factor x; `to` has a number for each feature.
inline void add_row(RowView x, double factor, double* to) {
  for (std::size_t j = 0; j < x.index.size(); ++j) to[x.index[j]] += factor * static_cast<double>(x.value[j]);
}

// |x|^2, plus one for the intercept: the Gram matrix of one row.
inline double squared_norm(RowView x, bool with_intercept) {
  double sum = with_intercept ? 1.0 : 0.0;
  for (const float v : x.value) sum += static_cast<double>(v) * static_cast<double>(v);
  return sum;
}

// x_i . x_j of some rows, plus one for the intercept. Uses a buffer of D floats that is all zeros before and
// after.
class GramKernel {
 public:
  explicit GramKernel(std::size_t features) : dense_(features) {}
  void fill(std::span<const RowView> rows, bool with_intercept, double* gram /* [n][n] */);

 private:
  std::vector<float> dense_;
};

}  // namespace truemax
