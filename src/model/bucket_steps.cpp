#include "model/bucket_steps.hpp"

#include <fmt/format.h>

#include "core/error.hpp"

namespace truemax {

nlohmann::json bucket_steps(const std::vector<std::uint32_t>& buckets) {
  nlohmann::json steps = nlohmann::json::array();
  std::uint32_t before = 0;
  for (const std::uint32_t bucket : buckets) {
    steps.push_back(bucket - before);
    before = bucket;
  }
  return steps;
}

std::vector<std::uint32_t> read_bucket_steps(const std::string& path, const nlohmann::json& features,
                                             const PreprocessOptions& preprocess) {
  std::vector<std::uint32_t> buckets;
  const auto steps = features.find("buckets");
  if (steps == features.end()) return buckets;
  const auto bad = [&](const std::string& what) {
    return file_error(path, 0, fmt::format("its metadata has no valid 'buckets' ({})", what),
                      "this is not a truemax model: train one with 'truemax train'");
  };
  const NgramRule rule = preprocess.ngrams();
  if (!steps->is_array()) throw bad("not a list");
  if (!rule.any() || preprocess.hash_features > 0) throw bad("its preprocessing has no n-grams to number");
  std::uint64_t at = 0;
  buckets.reserve(steps->size());
  for (const auto& step : *steps) {
    if (!step.is_number_unsigned()) throw bad("not whole numbers");
    const auto more = step.get<std::uint64_t>();
    if ((more == 0 && !buckets.empty()) || more >= rule.buckets || (at += more) >= rule.buckets)
      throw bad(fmt::format("they do not ascend to below {}", rule.buckets));
    buckets.push_back(static_cast<std::uint32_t>(at));
  }
  return buckets;
}

}  // namespace truemax
