// For tests: random steps for the proximal rules, and the same steps for the oracle.
#pragma once

#include <cmath>
#include <cstddef>
#include <random>

#include "rule/test_support.hpp"
#include "solve/proximal_oracle.hpp"

namespace truemax {

// The shape of a random step.
struct Kind {
  std::size_t n, m;
  bool ridge = false, free_intercept = false, equal_rows = false;
  double decades = 1;
};

// m classes drawn for every row except those that have them as label; some labels are among them.
inline oracle::Step random_step(std::mt19937_64& random, const Kind& kind) {
  std::uniform_real_distribution<double> sym(-1, 1), unit(0, 1);
  oracle::Step s;
  const std::size_t columns = kind.m + (kind.n + 1) / 2, d = 2 + (kind.free_intercept ? 1 : 0);
  const double step = std::pow(10.0, kind.decades * sym(random)),
               length = std::pow(10.0, kind.decades / 3 * sym(random));
  for (std::size_t i = 0; i < kind.n; ++i) {
    s.e.push_back(step * (i % 2 == 0 ? 1 : 0.5));  // row weights 1 and 1/2
    s.u.push_back(10 * unit(random) * unit(random));
    s.x.emplace_back();
    for (std::size_t f = 0; f < d; ++f) s.x[i].push_back(length * sym(random));
    if (kind.equal_rows && i > 0) s.x[i] = s.x[0];
    if (kind.free_intercept) s.x[i].back() = 1;
    s.label.push_back(kind.n > 2 && i == 1 ? 0 : kind.m + i / 2);
    s.o.emplace_back(columns, 0.0);
    for (std::size_t k = 0; k < kind.m; ++k)
      if (k != s.label[i]) s.o[i][k] = 1 + 500 * unit(random);
  }
  for (std::size_t k = 0; k < columns; ++k) {
    s.w.emplace_back();
    for (std::size_t f = 0; f < d; ++f) s.w[k].push_back(3 * sym(random) / length);
    s.r.push_back(kind.ridge ? 1 + std::pow(10.0, 2 * sym(random)) : 1);
  }
  s.free_last = kind.free_intercept;
  return s;
}

inline StepInput input_of(const oracle::Step& s, bool say_ridge) {
  StepInput in;
  in.rows = s.rows(), in.columns = s.columns(), in.step = s.e[0];
  for (std::size_t i = 0; i < s.rows(); ++i) {
    in.label.push_back(static_cast<std::uint32_t>(s.label[i]));
    in.row_weight.push_back(s.e[i] / s.e[0]);
    in.u.push_back(s.u[i]);
    for (std::size_t k = 0; k < s.columns(); ++k) {
      in.score.push_back(oracle::inner(s.x[i], s.w[k]));
      in.weight.push_back(s.o[i][k]);
    }
    for (std::size_t j = 0; j < s.rows(); ++j) in.gram.push_back(oracle::inner(s.x[i], s.x[j]));
  }
  in.log_q.assign(s.columns(), 0.0);
  if (say_ridge) {
    in.ridge = s.r;
    if (s.free_last)
      for (const auto& w : s.w) in.free_intercept.push_back(w.back());
  }
  return in;
}

}  // namespace truemax
