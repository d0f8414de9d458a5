// Runs one configuration and checks everything that truemax promises of any run.
#pragma once

#include <string>

#include "config.hpp"

namespace truemax::soak {

struct Outcome {
  bool refused = false;   // the options or the data were refused with a message
  bool diverged = false;  // the method reported it, and may
  std::string failure;    // empty: all is well
  std::string message;    // of a refusal
};

// Writes its model into `folder`.
Outcome check(const Config& config, const std::string& folder);

}  // namespace truemax::soak
