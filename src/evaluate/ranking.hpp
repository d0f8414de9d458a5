// Ranks of the true heads and tails of triples among all entities.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "data/triples.hpp"
#include "weights/embedding.hpp"

namespace truemax {

inline constexpr std::array<std::size_t, 3> kHitsAt{1, 3, 10};

// Weighted means over the queries: both ends of every triple.
struct RankingMetrics {
  double mrr = 0;  // mean of 1/rank
  std::array<double, kHitsAt.size()> hits{};
  std::uint64_t queries = 0, candidates = 0;
  std::uint64_t unseen_candidates = 0;  // entities of the test and filter files that training never saw
  bool filtered = false;                // true answers of other files do not count
};

// The rank of an answer, from 1: candidates above it, half of those with the same score, and itself.
constexpr double mean_rank(std::uint64_t above, std::uint64_t equal) {
  return 1 + static_cast<double>(above) + static_cast<double>(equal) / 2;
}

// `vectors`: of entities, relations and inverse relations; those that `share` says, if it is not null: then
// all ranks call this together and get the same result, and none has all vectors. Candidates are all entities
// of the task; other true answers to a query do not count. What training never saw has the vector zero.
// Returns nullopt if `stop` was raised. The result has the same bits for any number of threads and ranks.
std::optional<RankingMetrics> rank_triples(const Embedding& vectors, const RankingTask& task,
                                           std::size_t threads, const std::atomic<bool>* stop = nullptr,
                                           const BlockShare* share = nullptr);
// The rank of each query.
std::optional<std::vector<double>> ranks_of(const Embedding& vectors, const RankingTask& task,
                                            std::size_t threads, const std::atomic<bool>* stop = nullptr,
                                            const BlockShare* share = nullptr);

}  // namespace truemax
