#include "rule/rule.hpp"

namespace truemax {

void RuleOptions::describe(OptionTable& table) {
  table.number(
      "delta", &delta, {0, 100, true},
      "umax: u jumps to its lower bound once it lies this far below; small values keep gradients small.");
}

}  // namespace truemax
