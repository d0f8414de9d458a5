// The cost of the solvers of a step alone.
#pragma once

#include <map>
#include <string>

namespace truemax {

// truemax_bench solvers: prints one JSON object; 1 if a check fails.
int bench_solvers(const std::map<std::string, std::string>& settings);

}  // namespace truemax
