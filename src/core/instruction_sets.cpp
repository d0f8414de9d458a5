#include "core/instruction_sets.hpp"

#include <hwy/targets.h>

namespace truemax {

std::vector<std::int64_t> instruction_sets() {
  return hwy::SupportedAndGeneratedTargets();
}

const char* instruction_set_name(std::int64_t set) {
  return hwy::TargetName(set);
}

void use_only_instruction_sets(std::int64_t sets) {
  hwy::DisableTargets(~sets);
}

OnInstructionSet::OnInstructionSet(std::int64_t set) {
  hwy::SetSupportedTargetsForTest(set);
}

OnInstructionSet::~OnInstructionSet() {
  hwy::SetSupportedTargetsForTest(0);
}

}  // namespace truemax
