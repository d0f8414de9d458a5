// For tests: one step for a rule with all its input, and the result.
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
  reserve_memory(rule, {in.rows, in.columns, in.columns});
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

// The values of an option to test with: ordinary ones, and the ends of its range, where results must still be
// finite.
struct OptionValues {
  std::string_view option;
  void (*set)(RuleOptions& options, double value);
  std::vector<double> ordinary, ends;
};
inline const std::vector<OptionValues>& option_values() {
  using O = RuleOptions;
  static const std::vector<OptionValues> list{
      {"delta", [](O& o, double v) { o.delta = v; }, {0.1, 3}, {1e-12, 100}},
      {"double-sum-alpha", [](O& o, double v) { o.double_sum_alpha = v; }, {0.5, 1}, {1e-12, 1}},
      {"log-q", [](O& o, double v) { o.log_q = v > 0; }, {0}, {0}},
      {"label-noise", [](O& o, double v) { o.label_noise = v > 0; }, {1}, {1}},
      {"refresh", [](O& o, double v) { o.refresh = static_cast<std::uint64_t>(v); }, {3}, {1e9}},
      {"running-rate", [](O& o, double v) { o.running_rate = v; }, {0.05, 0.9}, {1e-12, 1}},
      {"rho", [](O& o, double v) { o.rho = v; }, {0.1, 5}, {1e-12, 1e6}},
      {"rho-falls", [](O& o, double v) { o.rho_falls = v > 0; }, {0}, {0}},
      {"sox-rate", [](O& o, double v) { o.sox_rate = v; }, {0.05, 0.9}, {1e-12, 1}},
      {"softplus-bend", [](O& o, double v) { o.softplus_bend = v; }, {0.1, 0.5}, {1e-6, 1}}};
  return list;
}

// The options to test a method with: the defaults, and each of its options changed.
inline std::vector<RuleOptions> options_to_try(const MethodInfo& info, bool ends = false) {
  RuleOptions described;
  OptionTable table;
  described.describe(table);
  std::vector<RuleOptions> list(1);
  for (const OptionValues& values : option_values())
    for (const std::string& user : table.find(values.option)->tags.methods)
      if (user == info.name)
        for (const double value : ends ? values.ends : values.ordinary)
          values.set(list.emplace_back(), value);
  return list;
}

enum class Ridge { none, with, without_intercept };
inline constexpr Ridge kRidges[] = {Ridge::none, Ridge::with, Ridge::without_intercept};

inline ProblemInfo no_ridge() {
  ProblemInfo info;
  info.rows = info.total_weight = 100;
  info.classes = 10;
  info.longest_row = 1;
  return info;
}

}  // namespace truemax
