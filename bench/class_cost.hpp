// The cost of a step against the number of classes.
#pragma once

#include <map>
#include <string>

namespace truemax {

// truemax_bench classes: prints one JSON object; 1 if a check fails.
int bench_classes(const std::map<std::string, std::string>& settings);

}  // namespace truemax
