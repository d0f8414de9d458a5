// The buckets of n-grams in the metadata of a model file.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/options.hpp"

namespace truemax {

// The first bucket, then the distance of each to the one before: mostly one or two digits, however many there
// are.
nlohmann::json bucket_steps(const std::vector<std::uint32_t>& buckets);

// `features`: of the metadata; without `buckets` there are none. Throws UserError unless they ascend and are
// below --ngram-buckets.
std::vector<std::uint32_t> read_bucket_steps(const std::string& path, const nlohmann::json& features,
                                             const PreprocessOptions& preprocess);

}  // namespace truemax
