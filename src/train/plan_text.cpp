#include "train/plan_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/files.hpp"
#include "core/text.hpp"
#include "rule/methods.hpp"
#include "train/plan_seconds.hpp"
#include "train/solvers.hpp"
#include "train/step_inputs.hpp"

namespace truemax {
namespace {

// A line of the plan; its name is empty where it goes on.
std::string line(std::string_view name, std::string_view text) {
  return fmt::format("{:<8}{}\n", name, text);
}

std::string number(double value) {
  const bool whole = value == std::round(value) && std::abs(value) < 1e6;
  return whole ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}
std::string whole_span(const Span& span) {
  const double low = std::round(span.low), high = std::round(span.high);
  return low == high ? fmt::format("{:.0f}", low) : fmt::format("{:.0f} to {:.0f}", low, high);
}

std::string value_text(const SoughtValue& v) {
  if (v.range.low == v.range.high) return number(v.from);
  if (v.factor == 0) return fmt::format("{} or {}", number(v.range.low), number(v.range.high));
  const std::string first = v.first_factor > 0 ? fmt::format("{:.3g}, then by ", v.first_factor) : "";
  return fmt::format("from {} by factors of {}{:.3g}, within {} to {}", number(v.from), first, v.factor,
                     number(v.range.low), number(v.range.high));
}

std::string trials_text(const std::vector<Outlook>& all) {
  std::string text;
  for (const Outlook& t : all) {
    const char* name = text.empty() ? "trials" : "";
    const std::string of = t.about.empty() ? "" : t.about + ": ";
    if (!t.why_none.empty()) {
      text += line(name, fmt::format("{}none: {}", of, t.why_none));
    } else if (t.values.empty()) {
      continue;
    } else {
      const std::string part = t.rows < t.of_rows ? fmt::format("{:.0f} of {:.0f} rows", t.rows, t.of_rows)
                                                  : fmt::format("{:.0f} rows", t.of_rows);
      text += line(name, fmt::format("{}{}, on {}, judged on {:.0f} {}", of, whole_span(t.count), part,
                                     t.judges, t.judges_are));
    }
    for (const SoughtValue& v : t.values) text += line("", fmt::format("{:<8}{}", v.name, value_text(v)));
  }
  return text;
}

std::string steps_text(const Plan& plan) {
  if (plan.recipe.newton_alone()) return counted(plan.recipe.newton, "step") + " at most";
  return counted(plan.steps_per_epoch, "step") + " an epoch";
}

std::string seconds_text(const PlanSeconds& s) {
  std::string text = span_text(s.training) + " of training";
  if (s.trials.high > 0)
    text += fmt::format(": trials {}, the fit {}", span_text(s.trials), span_text(s.fit));
  return text + fmt::format("; evaluation {} more", span_text(s.evaluation));
}

// Equal reasons in a line.
std::string not_taken_text(const std::vector<PassedOver>& all) {
  std::string text;
  std::vector<bool> said(all.size(), false);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (said[i]) continue;
    std::vector<std::string> names;
    for (std::size_t j = i; j < all.size(); ++j)
      if (all[j].why == all[i].why) names.push_back(all[j].solver), said[j] = true;
    text += line(text.empty() ? "not" : "", fmt::format("{}: {}", fmt::join(names, ", "), all[i].why));
  }
  return text;
}

}  // namespace

std::string budget_text(const Recipe& o) {
  std::vector<std::string> ends;
  if (o.newton_alone()) return "Newton's method";
  if (o.epochs < kUnlimitedEpochs) ends.push_back(counted(o.epochs, "epoch"));
  if (o.steps > 0) ends.push_back(counted(o.steps, "step"));
  if (o.seconds > 0) ends.push_back(fmt::format("{:g} s", o.seconds));
  if (ends.empty()) return fmt::format("until {} bring no gain", counted(o.patience, "evaluation"));
  return fmt::format("{}", fmt::join(ends, " or "));
}

std::string ridge_text(const Recipe& o) {
  return o.ridge > 0 ? fmt::format(", ridge {:.4g}{}", o.ridge, o.ridge_by_spread ? " by spread" : "") : "";
}

std::string method_text(const Recipe& o) {
  const bool linear = o.schedule == Schedule::linear;
  std::string shape = o.draw == "head-blocks" ? fmt::format(", head {}", o.draws.head) : "";
  if (o.draws.rivals > 0) shape += fmt::format(", rivals {}", o.draws.rivals);
  const std::string classes = find_method(o.method).whole_set
                                  ? "all classes"
                                  : fmt::format("{}, draw {}{}", o.classes_per_step, o.draw, shape);
  const bool newton = o.newton_alone(), all = find_method(o.method).all_rows;
  std::string text = newton ? fmt::format("{}, all rows and classes, seed {}", o.method_name(), o.seed)
                     : all  ? fmt::format("{}, all rows x {}, seed {}", o.method, classes, o.seed)
                            : fmt::format("{}, {} x {}, seed {}", o.method, o.rows_per_step, classes, o.seed);
  if (o.group > 0) text += fmt::format(", groups of {}", o.group);
  if (!o.sought.step && !newton && !all)
    text += fmt::format(", step {:.4g}, {}", o.step, linear ? "falling" : fmt::format("decay {:g}", o.decay));
  if (!o.sought.ridge) text += ridge_text(o);
  if (!o.sought.epochs && !newton) text += ", " + budget_text(o);
  Sought sought = o.sought;
  sought.step &= !all;
  const std::vector<std::string> found = sought.names();
  if (!found.empty()) text += fmt::format("; to be tuned: {}", fmt::join(found, ", "));
  return line("method", text);
}

std::string solver_text(const Plan& plan) {
  const Solver& solver = plan.solver();
  std::string text = fmt::format("{}: {}", solver.name, solver.about);
  if (plan.finish != nullptr && plan.finish != &solver)
    text += fmt::format("; then {}: {}", plan.finish->name, plan.finish->about);
  return line("solver", text);
}

std::string memory_text(const Plan& plan) {
  return line("memory", plan.memory.to_text());
}

std::vector<PassedOver> not_taken(const Plan& plan, const std::vector<PassedOver>& passed_over) {
  std::vector<PassedOver> all;
  const auto add = [&](const PassedOver& one) {
    const bool there =
        std::any_of(all.begin(), all.end(), [&](const auto& o) { return o.solver == one.solver; });
    if (!there && !one.why.empty()) all.push_back(one);
  };
  const bool newton = plan.recipe.newton_alone();
  if (!newton)
    for (const PassedOver& one : passed_over)
      if (one.solver != plan.steps->name) add(one);
  const std::unique_ptr<Draw> draw = draw_for(plan.recipe, plan.problem);
  const Facts facts = plan.facts(draw.get());
  if (plan.finish == nullptr) add({std::string(newton_solver().name), newton_solver().why_not(facts)});
  for (const Solver& solver : solvers()) {
    if (newton || &solver == plan.steps) break;
    add({std::string(solver.name), solver.why_not(facts)});
  }
  return all;
}

std::string plan_text(const Plan& plan, const Reasons& reasons) {
  const PlanSeconds seconds = seconds_of(plan);
  const std::string device = plan.recipe.on_gpu() && plan.machine.card ? plan.machine.card->name : "CPU";
  return method_text(plan.recipe) + solver_text(plan) + not_taken_text(not_taken(plan, reasons.passed_over)) +
         trials_text(seconds.search) + line("steps", steps_text(plan)) +
         line("device", reasons.device.empty() ? device : fmt::format("{}: {}", device, reasons.device)) +
         line("threads", fmt::format("{}", plan.machine.threads)) + memory_text(plan) +
         line("seconds", seconds_text(seconds));
}

}  // namespace truemax
