// Steps per second of a method and of a kernel that touches the same lines.
#pragma once

#include <map>
#include <string>

namespace truemax {

// truemax_bench steps: prints one JSON object; 1 if a check fails. `path`: a data file; empty: generated
// rows.
int bench_steps(const std::string& path, const std::map<std::string, std::string>& settings);

}  // namespace truemax
