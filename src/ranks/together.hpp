// A user's error over several ranks: what one rank finds, all throw, so that none is left waiting for it.
#pragma once

#include <functional>

#include "ranks/ranks.hpp"

namespace truemax {

// Every rank works by itself: `work` must not call the other ranks. For work of the first one alone there is
// Ranks::only_first.
void together(Ranks& ranks, const std::function<void()>& work);

}  // namespace truemax
