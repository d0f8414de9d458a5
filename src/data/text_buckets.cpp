#include "data/text_buckets.hpp"

#include "core/text.hpp"
#include "data/reading_memory.hpp"
#include "data/text_ngrams.hpp"

namespace truemax {

BucketNumbers::BucketNumbers(std::uint64_t buckets, FeatureId first, std::span<const std::uint32_t> members)
    : words_((buckets + 63) / 64) {
  for (const std::uint32_t bucket : members) add(bucket);
  count(first);
}

void BucketNumbers::count(FeatureId first) {
  for (Word& word : words_) {
    word.before = first;
    first += static_cast<FeatureId>(std::popcount(word.bits));
  }
}

std::vector<std::uint32_t> BucketNumbers::members() const {
  std::vector<std::uint32_t> out;
  for (std::size_t w = 0; w < words_.size(); ++w)
    for (std::uint64_t left = words_[w].bits; left != 0; left &= left - 1)
      out.push_back(static_cast<std::uint32_t>(64 * w + static_cast<std::size_t>(std::countr_zero(left))));
  return out;
}

BucketNumbers used_buckets(RawRows& raw, const NgramRule& rule, FeatureId first) {
  if (!rule.any()) return {};
  try {
    // The set, the list of its members, and the set again where test rows are prepared.
    raw.memory.add(2 * BucketNumbers::bytes(rule.buckets) +
                   std::min<std::uint64_t>(rule.buckets, raw.rows.nonzeros()) * sizeof(std::uint32_t));
  } catch (const OverBudget& over) {
    throw memory_error(over, raw.path, 0, counted(raw.size(), "row"),
                       "give fewer --ngram-buckets, or raise --memory-limit");
  }
  BucketNumbers used(rule.buckets, first, {});
  for (const FeatureId f : raw.rows.index)
    if (f >= kFirstBucket) used.add(f - kFirstBucket);
  used.count(first);
  return used;
}

}  // namespace truemax
