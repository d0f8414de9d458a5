// What compare and tune share: which options of training may differ between their runs.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace truemax {

// Options that say how long a run is and how it is watched: the same for all runs, set by the command.
inline bool is_of_whole_run(std::string_view option) {
  constexpr std::array<std::string_view, 10> kNames{"epochs",    "seconds",     "steps",    "eval-every",
                                                    "threads",   "valid-share", "patience", "eval",
                                                    "eval-rows", "eval-classes"};
  return std::find(kNames.begin(), kNames.end(), option) != kNames.end();
}

}  // namespace truemax
