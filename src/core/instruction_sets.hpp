// The vector instruction sets that kernels are dispatched to at run time.
#pragma once

#include <cstdint>
#include <vector>

namespace truemax {

// Those that this build and this machine support, best first.
std::vector<std::int64_t> instruction_sets();
const char* instruction_set_name(std::int64_t set);
// From now on this process uses no others. Call before the first kernel.
void use_only_instruction_sets(std::int64_t sets);  // their sum

// Forces one instruction set while it lives. For tests, on one thread at a time.
class OnInstructionSet {
 public:
  explicit OnInstructionSet(std::int64_t set);
  ~OnInstructionSet();
  OnInstructionSet(const OnInstructionSet&) = delete;
  OnInstructionSet& operator=(const OnInstructionSet&) = delete;
};

}  // namespace truemax
