// A user's error over several ranks: what one rank finds, all throw, so that none is left waiting for it.
#pragma once

#include <functional>

#include "ranks/ranks.hpp"

namespace truemax {

// Only the first rank works, such as on a file that all share. `work` must not call the other ranks.
void on_first(Ranks& ranks, const std::function<void()>& work);

// Every rank works by itself: `work` must not call the other ranks.
void together(Ranks& ranks, const std::function<void()>& work);

}  // namespace truemax
