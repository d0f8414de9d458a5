// Why a run is done so and not otherwise.
#pragma once

#include <string>
#include <vector>

namespace truemax {

// A solver that a run without a method might have taken, and why it does not.
struct PassedOver {
  std::string solver, why;
};

struct Reasons {
  std::vector<PassedOver> passed_over;
  std::string device;  // why there; empty: it was said
};

}  // namespace truemax
