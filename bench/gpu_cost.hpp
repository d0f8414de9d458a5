// Steps per second of a GPU beside a kernel that makes the same accesses to memory, and exact evaluation.
#pragma once

#include <map>
#include <string>

namespace truemax {

// Exit code 0; 77 if there is no GPU.
int bench_gpu(const std::string& path, const std::map<std::string, std::string>& settings);

}  // namespace truemax
