#include "oracle.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace truemax::soak {
namespace {

constexpr double kFloat = 0x1p-23;  // twice the relative rounding of float32

double number(float v) {
  return static_cast<double>(v);
}

// Sum over the numbers of a row of `term(j, c)` for every column c, with a bound on its rounding.
template <class Term>
Oracle::Encoded sum_of(std::size_t terms, std::size_t columns, const Term& term) {
  Oracle::Encoded out{std::vector<double>(columns), std::vector<double>(columns)};
  for (std::size_t c = 0; c < columns; ++c) {
    double absolute = 0;
    for (std::size_t j = 0; j < terms; ++j) {
      const double t = term(j, c);
      out.x[c] += t;
      absolute += std::abs(t);
    }
    // The smallest float32 is lost in each term as well.
    out.error[c] = static_cast<double>(terms + 3) * (kFloat * absolute + 2e-38);
  }
  return out;
}

}  // namespace

Oracle::Oracle(const Model& model) : model_(model) {
  const Weights& weights = model.weights;
  for (ClassId k = 0; k < weights.classes(); ++k) {
    of_class_.emplace_back(weights.features());
    weights.copy_class(k, of_class_.back());
    for (const float w : of_class_.back()) largest_weight_ = std::max(largest_weight_, std::abs(number(w)));
    largest_intercept_ = std::max(largest_intercept_, std::abs(weights.intercept_of(k)));
  }
}

RowOracle Oracle::row(RowView x) const {
  RowOracle out;
  double length = 0;
  for (const float v : x.value) length += std::abs(number(v));
  for (ClassId k = 0; k < of_class_.size(); ++k) {
    double z = model_.weights.intercept_of(k);
    for (std::size_t j = 0; j < x.index.size(); ++j)
      z += number(x.value[j]) * number(of_class_[k][x.index[j]]);
    out.score.push_back(z);
  }
  const double most = *std::max_element(out.score.begin(), out.score.end());
  double sum = 0;
  for (const double z : out.score) sum += std::exp(z - most);
  out.log_sum = most + std::log(sum);
  for (const double z : out.score) out.probability.push_back(std::exp(z - most) / sum);
  // weights/fast_pass.hpp: a row passes in float32 if E is at most 2^-6, and its loss is then within
  // 2 E + 2e-6. c partial sums: n/c + c is below n + 5 for the c that it takes.
  const double terms = static_cast<double>(x.index.size()) + 13,
               size = length * largest_weight_ + largest_intercept_;
  const double e = 1.01 * terms * 0x1p-24 * size;
  // The oracle's weights are rounded to float32, but not those in a running state's memory times their scale.
  out.score_error = 4 * terms * 0x1p-52 * size + (model_.weights.scaled() ? kFloat * size : 0);
  out.loss_error = 2 * std::min(e, 0x1p-6) + 3e-6 + 2 * out.score_error;
  return out;
}

Oracle::Encoded Oracle::encoded(RowView row) const {
  const EncoderTables& tables = model_.encoder;
  const Embedding& e = tables.features;
  const std::size_t h = e.columns;
  const EncoderKind kind = model_.space->encoder;
  const auto of = [&](std::size_t j, std::size_t c) { return number(e.row(row.index[j])[c]); };
  if (kind == EncoderKind::complex) {  // the first half of a vector is the real parts
    if (row.index.size() != 2) return {std::vector<double>(h), std::vector<double>(h)};
    const std::size_t half = h / 2;
    return sum_of(2, h, [&](std::size_t j, std::size_t c) {
      const std::size_t i = c % half;
      if (c < half) return j == 0 ? of(0, i) * of(1, i) : -of(0, i + half) * of(1, i + half);
      return j == 0 ? of(0, i) * of(1, i + half) : of(0, i + half) * of(1, i);
    });
  }
  if (mixes_places(kind) && tables.layers == 0)
    return sum_of(row.index.size(), h,
                  [&](std::size_t j, std::size_t c) { return of(j, c) * number(tables.mixing.row(j)[c]); });
  if (mixes_places(kind)) {
    const std::size_t wide = tables.mixing.rows - 1;
    Encoded out = sum_of(wide + 1, h, [&](std::size_t j, std::size_t c) {
      return (j == wide ? 1.0 : of(j / h, j % h)) * number(tables.mixing.row(j)[c]);
    });
    for (double& x : out.x) x = std::tanh(x);
    for (double& error : out.error) error = std::min(2.0, error + 1e-6);  // the slope of tanh is at most 1
    return out;
  }
  return sum_of(row.index.size(), h,
                [&](std::size_t j, std::size_t c) { return number(row.value[j]) * of(j, c); });
}

std::string Oracle::compare(const Metrics& metrics, const DataView& data) const {
  const DataView rows = model_.rows_of(data);
  double loss = 0, error_bound = 0, weight = 0, surely_wrong = 0, maybe_wrong = 0;
  Csr scratch;
  for (std::size_t first = 0; first < rows.row_count();) {
    const RowSlice slice = rows.slice(first, 64, scratch);
    for (std::size_t r = 0; r < slice.rows(); ++r) {
      const RowOracle oracle = row(slice.x().row(r));
      const double top = *std::max_element(oracle.score.begin(), oracle.score.end());
      for (const ExampleId i : slice.examples(r, slice.first_example(r))) {
        const double w = rows.weight(i), behind = top - oracle.score[rows.label(i)];
        const double rounding = oracle.score_error;  // the order of classes is that of double
        loss += w * oracle.loss(rows.label(i));
        error_bound += w * oracle.loss_error;
        weight += w;
        surely_wrong += behind > rounding ? w : 0;
        // Of equal scores any may come first here.
        const bool alone = std::count_if(oracle.score.begin(), oracle.score.end(), [&](double z) {
                             return z >= oracle.score[rows.label(i)] - rounding;
                           }) == 1;
        maybe_wrong += alone ? 0 : w;
      }
    }
    first += slice.rows();
  }
  loss /= weight, error_bound = error_bound / weight + 1e-12 * std::abs(loss);
  if (!(std::abs(metrics.log_loss - loss) <= error_bound))
    return fmt::format("evaluate says log-loss {:.17g}, the oracle {:.17g} +- {:.3g}", metrics.log_loss, loss,
                       error_bound);
  if (!(metrics.error >= surely_wrong / weight - 1e-9 && metrics.error <= maybe_wrong / weight + 1e-9))
    return fmt::format("evaluate says error {:.17g}, the oracle {:.17g} to {:.17g}", metrics.error,
                       surely_wrong / weight, maybe_wrong / weight);
  return "";
}

}  // namespace truemax::soak
