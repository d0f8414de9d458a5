// The cost of a random cache line.
#pragma once

#include <map>
#include <string>

namespace truemax {

// truemax_bench lines: prints one JSON object.
int bench_lines(const std::map<std::string, std::string>& settings);

}  // namespace truemax
