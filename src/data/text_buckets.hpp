// The buckets of n-grams that occur in the training data, numbered densely: only they take weights.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "core/types.hpp"
#include "data/raw_rows.hpp"

namespace truemax {

inline constexpr FeatureId kDropFeature = 0xFFFFFFFFU;

// A set of buckets; its members become features in ascending order. A bit for each possible bucket and a
// count for every 64 of them, so a look-up touches two cache lines.
class BucketNumbers {
 public:
  BucketNumbers() = default;  // no bucket is a member
  // `first`: the feature of the first member; `members`: ascending, below `buckets`.
  BucketNumbers(std::uint64_t buckets, FeatureId first, std::span<const std::uint32_t> members);

  FeatureId find(std::uint32_t bucket) const {  // kDropFeature if not a member
    if (bucket / 64 >= words_.size()) return kDropFeature;
    const Word& word = words_[bucket / 64];
    const std::uint64_t bit = std::uint64_t{1} << (bucket % 64);
    if ((word.bits & bit) == 0) return kDropFeature;
    return word.before + static_cast<FeatureId>(std::popcount(word.bits & (bit - 1)));
  }
  // Adds a member; find() is right again after count().
  void add(std::uint32_t bucket) { words_[bucket / 64].bits |= std::uint64_t{1} << (bucket % 64); }
  void count(FeatureId first);
  std::vector<std::uint32_t> members() const;
  static std::uint64_t bytes(std::uint64_t buckets) { return (buckets + 63) / 64 * sizeof(Word); }

 private:
  struct Word {
    std::uint64_t bits = 0;
    FeatureId before = 0;  // the feature of its first member
  };
  std::vector<Word> words_;
};

// The buckets in the rows. Their memory is charged to that of the rows; throws UserError if it is short.
BucketNumbers used_buckets(RawRows& raw, const NgramRule& rule, FeatureId first);

}  // namespace truemax
