// Steps per second of learnt features with few and with many classes and features.
#pragma once

#include <map>
#include <string>

namespace truemax {

// truemax_bench learnt: prints one JSON object; 1 if a check fails.
int bench_learnt(const std::map<std::string, std::string>& settings);

}  // namespace truemax
