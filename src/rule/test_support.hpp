// One step for a rule, with everything it may look at, and its answer.
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

#include "rule/rule.hpp"

namespace truemax {

struct StepInput {
  std::size_t rows = 1, columns = 0;
  std::vector<double> score, weight, gram, ridge, free_intercept, row_weight, log_q, smoothed, u;
  std::vector<std::uint32_t> label;
  double step = 1, decayed = 1;

  StepView view() const {
    StepView v;
    v.rows = rows, v.columns = columns;
    v.score = score.data(), v.weight = weight.data(), v.label = label.data(), v.gram = gram.data();
    v.ridge = ridge.empty() ? nullptr : ridge.data();
    v.free_intercept = free_intercept.empty() ? nullptr : free_intercept.data();
    v.row_weight = row_weight.data(), v.log_q = log_q.data();
    v.smoothed = smoothed.empty() ? score.data() : smoothed.data();
    v.step = step, v.decayed = decayed;
    return v;
  }
};

struct StepAnswer {
  std::vector<double> c, u;
  bool operator==(const StepAnswer&) const = default;
  bool finite() const {
    for (const double v : c)
      if (!std::isfinite(v)) return false;
    for (const double v : u)
      if (!std::isfinite(v)) return false;
    return true;
  }
};

template <class R>
StepAnswer take(R& rule, const StepInput& in) {
  StepAnswer out{std::vector<double>(in.score.size(), std::nan("")), in.u};
  StepResult result{out.c.data(), out.u.data()};
  rule.step(in.view(), result);
  return out;
}

// One row: drawn classes, then the label.
inline StepInput one_row(std::vector<double> score, std::vector<double> weight, double u, double step = 1,
                         double squared_norm = 1) {
  StepInput in;
  in.columns = score.size();
  in.score = std::move(score);
  in.weight = std::move(weight);
  in.weight.push_back(0);
  in.label = {static_cast<std::uint32_t>(in.columns - 1)};
  in.gram = {squared_norm};
  in.row_weight = {1};
  in.log_q.assign(in.columns, -1.0);
  in.u = {u};
  in.step = step;
  return in;
}

// The options of a method that its contract is tested with.
inline std::vector<RuleOptions> options_to_try(const MethodInfo& info) {
  std::vector<RuleOptions> list(1);
  RuleOptions other;
  for (const std::string_view user : RuleOptions::users_of("double-sum-alpha"))
    if (user == info.name)
      for (const double alpha : {0.5, 1.0}) other.double_sum_alpha = alpha, list.push_back(other);
  other = {};
  other.log_q = false;
  for (const std::string_view user : RuleOptions::users_of("log-q"))
    if (user == info.name) list.push_back(other);
  other = {};
  other.label_noise = true;
  for (const std::string_view user : RuleOptions::users_of("label-noise"))
    if (user == info.name) list.push_back(other);
  other = {};
  other.softplus_bend = 0.1;
  for (const std::string_view user : RuleOptions::users_of("softplus-bend"))
    if (user == info.name) list.push_back(other);
  return list;
}

inline ProblemInfo no_ridge() {
  ProblemInfo info;
  info.rows = info.total_weight = 100;
  info.classes = 10;
  info.longest_row = 1;
  return info;
}

}  // namespace truemax
