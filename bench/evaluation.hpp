// The speed of exact evaluation and prediction.
#pragma once

#include <map>
#include <string>

namespace truemax {

// truemax_bench evaluate: prints one JSON object; 1 if a check fails.
int bench_evaluate(const std::string& path, const std::map<std::string, std::string>& settings);

}  // namespace truemax
