// A rule of the table behind virtual calls, so that the step loop is compiled once and not once a method. A
// call a step, or a group of steps, costs nothing that can be measured beside the step.
#pragma once

#include <memory>
#include <string_view>

#include "rule/rule.hpp"

namespace truemax {

class AnyRule {
 public:
  AnyRule() = default;
  virtual ~AnyRule() = default;
  AnyRule(const AnyRule&) = delete;
  AnyRule& operator=(const AnyRule&) = delete;

  virtual const MethodInfo& info() const noexcept = 0;
  virtual void reserve(const StepShape& shape) = 0;  // as reserve_memory
  virtual void step(const StepView& view, StepResult& out) noexcept = 0;
  // As PairRule and BlockRule have them; what a rule does not have it does not take.
  virtual bool takes_pairs() const noexcept = 0;
  virtual void step_pairs(PairSteps& pairs, std::size_t count, double step) noexcept = 0;
  virtual bool takes_blocks() const noexcept = 0;
  virtual bool step_blocks(BlockStepView& view) const noexcept = 0;
  // Of methods with a companion: the rate of the smoothed weights.
  virtual double smoothing(const StepView& view) const noexcept = 0;
};

// Throws UserError where there is no such method.
std::unique_ptr<AnyRule> make_rule(std::string_view method, const RuleOptions& options,
                                   const ProblemInfo& problem);

// What the largest step takes of the rule's own memory.
std::uint64_t rule_bytes(const MethodInfo& method, const StepShape& shape);

}  // namespace truemax
