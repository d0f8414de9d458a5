// The error of a saved state that no run can have written.
#pragma once

#include "core/error.hpp"

namespace truemax {

inline UserError damaged_state() {
  return UserError("the saved state is truncated or damaged");
}

}  // namespace truemax
