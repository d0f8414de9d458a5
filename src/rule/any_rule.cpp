#include "rule/any_rule.hpp"

#include <cassert>

#include "rule/methods.hpp"
#include "solve/implicit_batch.hpp"

namespace truemax {
namespace {

template <Rule R>
class Held final : public AnyRule {
 public:
  Held(const RuleOptions& options, const ProblemInfo& problem) : rule_(options, problem) {}

  const MethodInfo& info() const noexcept override { return R::kInfo; }
  void reserve(const StepShape& shape) override { reserve_memory(rule_, shape); }
  void step(const StepView& view, StepResult& out) noexcept override {
    assert(R::kInfo.whole_set || view.weight != nullptr);
    rule_.step(view, out);
  }
  bool takes_pairs() const noexcept override {
    if constexpr (PairRule<R>) return const_cast<R&>(rule_).takes_pairs();
    return false;
  }
  void step_pairs(PairSteps& pairs, std::size_t count, double step) noexcept override {
    if constexpr (PairRule<R>) rule_.step_pairs(pairs, count, step);
  }
  bool takes_blocks() const noexcept override { return BlockRule<R>; }
  bool step_blocks(BlockStepView& view) const noexcept override {
    if constexpr (BlockRule<R>) return rule_.step_blocks(view);
    return false;
  }
  double smoothing(const StepView& view) const noexcept override {
    if constexpr (R::kInfo.has_companion) return rule_.smoothing(view);
    return 1;
  }

 private:
  R rule_;
};

}  // namespace

std::unique_ptr<AnyRule> make_rule(std::string_view method, const RuleOptions& options,
                                   const ProblemInfo& problem) {
  const std::string_view name = find_method(method).name;
  std::unique_ptr<AnyRule> rule;
  for_each_method([&]<class R>() {
    if (R::kInfo.name == name) rule = std::make_unique<Held<R>>(rule_options(method, options), problem);
  });
  return rule;
}

std::uint64_t rule_bytes(const MethodInfo& method, const StepShape& shape) {
  if (!method.needs_gram || shape.rows == 1) return 0;
  return ImplicitBatchSolver::bytes(shape.rows, shape.columns, shape.drawn);
}

}  // namespace truemax
