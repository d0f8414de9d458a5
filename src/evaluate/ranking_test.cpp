// Ranks against the obvious way: all candidates in double, sorted.
#include "evaluate/ranking.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <random>
#include <set>

#include "ranks/thread_ranks.hpp"

namespace truemax {
namespace {

// Vectors of small whole numbers, so that float32 is exact; few of them, so that scores tie.
Embedding whole_numbers(std::size_t rows, std::size_t h, int most, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Embedding out(rows, h);
  for (float& v : out.numbers)
    v = static_cast<float>(static_cast<int>(random() % (2 * static_cast<unsigned>(most) + 1)) - most);
  return out;
}

RankingTask random_task(std::uint32_t entities, std::uint32_t relations, std::uint32_t unseen,
                        std::size_t triples, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  RankingTask task;
  task.entities = entities, task.all_entities = entities + unseen;
  task.relations = relations, task.all_relations = relations + 1;
  for (std::size_t i = 0; i < 4 * triples; ++i) {
    const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
    const std::uint32_t head = below(8) == 0 ? below(task.all_entities) : below(std::min(entities, 5U)),
                        r = below(task.all_relations), tail = below(task.all_entities);
    const TripleQuery forward{head, r, tail}, backward{tail, r + task.all_relations, head};
    if (i < triples) task.queries.insert(task.queries.end(), {forward, backward});
    task.known.insert(task.known.end(), {forward, backward});
  }
  std::sort(task.known.begin(), task.known.end());
  task.known.erase(std::unique(task.known.begin(), task.known.end()), task.known.end());
  return task;
}

double slow_score(const Embedding& e, const RankingTask& task, const TripleQuery& q, std::uint32_t entity) {
  const bool backward = q.relation >= task.all_relations;
  const std::uint32_t r = q.relation - (backward ? task.all_relations : 0);
  if (q.entity >= task.entities || r >= task.relations || entity >= task.entities) return 0;
  const float *head = e.row(q.entity), *tail = e.row(entity);
  const float* relation = e.row(task.entities + r + (backward ? task.relations : 0));
  const std::size_t half = e.columns / 2;
  const auto number = [half](const float* v, std::size_t c) {
    return std::complex<double>(static_cast<double>(v[c]), static_cast<double>(v[half + c]));
  };
  std::complex<double> sum = 0;
  for (std::size_t c = 0; c < half; ++c)
    sum += number(head, c) * number(relation, c) * std::conj(number(tail, c));
  return sum.real();
}

// The mean place of the answer among all orders of candidates with the same score.
double slow_rank(const Embedding& e, const RankingTask& task, const TripleQuery& q) {
  std::set<std::uint32_t> true_answers;
  for (const TripleQuery& k : task.known)
    if (k.entity == q.entity && k.relation == q.relation) true_answers.insert(k.answer);
  std::vector<double> scores;
  for (std::uint32_t k = 0; k < task.all_entities; ++k)
    if (k == q.answer || !true_answers.contains(k)) scores.push_back(slow_score(e, task, q, k));
  std::sort(scores.begin(), scores.end(), std::greater<>());
  const double own = slow_score(e, task, q, q.answer);
  const auto first = std::find(scores.begin(), scores.end(), own) - scores.begin();
  const auto last = scores.rend() - std::find(scores.rbegin(), scores.rend(), own);
  return 0.5 * (static_cast<double>(first + 1) + static_cast<double>(last));
}

struct RankedShape {
  std::uint32_t entities, unseen;
  std::size_t h, triples;
  int most;  // of the numbers: few make ties
};

TEST(Ranking, AgreesWithSortingAllCandidates) {
  for (const RankedShape s :
       {RankedShape{3, 0, 2, 5, 1}, RankedShape{40, 0, 8, 60, 1}, RankedShape{40, 9, 8, 60, 2},
        RankedShape{300, 20, 34, 150, 3}, RankedShape{2100, 3, 6, 40, 5}, RankedShape{17, 2, 4, 30, 0}}) {
    const Embedding e = whole_numbers(s.entities + 2 * 3, s.h, s.most, s.h);
    const RankingTask task = random_task(s.entities, 3, s.unseen, s.triples, s.triples);
    const std::vector<double> ranks = ranks_of(e, task, 2).value();
    ASSERT_EQ(ranks.size(), task.queries.size());
    for (std::size_t i = 0; i < ranks.size(); ++i)
      ASSERT_EQ(ranks[i], slow_rank(e, task, task.queries[i])) << i << " of " << s.entities;
  }
}

// Each rank has a part of the vectors, and some may have none.
TEST(Ranking, HasTheSameBitsOnAnyNumberOfRanks) {
  for (const RankedShape s : {RankedShape{3, 0, 2, 5, 1}, RankedShape{40, 9, 8, 60, 2},
                              RankedShape{300, 20, 34, 150, 3}, RankedShape{6000, 7, 4, 2200, 5}}) {
    const Embedding e = whole_numbers(s.entities + 2 * 3, s.h, s.most, s.h);
    const RankingTask task = random_task(s.entities, 3, s.unseen, s.triples, s.triples);
    const std::vector<double> alone = ranks_of(e, task, 1).value();
    for (const std::size_t size : {1U, 2U, 3U, 4U})
      run_thread_ranks(size, [&](Ranks& ranks) {
        std::vector<double> mass(e.rows, 0.0);
        for (std::uint32_t k = 0; k < s.entities; ++k) mass[k] = 1.0 / (1 + k);
        const BlockShare share(mass, ranks.rank(), ranks.size());
        Embedding own(share.classes(), e.columns);
        for (ClassId v = 0; v < own.rows; ++v)
          std::copy_n(e.row(share.global_class(v)), e.columns, own.row(v));
        EXPECT_EQ(ranks_of(own, task, 2, nullptr, &share).value(), alone) << size << " ranks";
        const std::atomic<bool> stop{ranks.rank() == size - 1};  // one is enough
        EXPECT_FALSE(ranks_of(own, task, 1, &stop, &share).has_value());
      });
  }
}

TEST(Ranking, MetricsAreMeansOfTheRanks) {
  const Embedding e = whole_numbers(40 + 6, 8, 2, 1);
  RankingTask task = random_task(40, 3, 5, 50, 2);
  for (const bool weighted : {false, true}) {
    if (weighted)
      for (std::size_t i = 0; i < 50; ++i) task.weight.push_back(static_cast<double>(i % 3) + 0.5);
    double weight = 0, mrr = 0, hits = 0;
    for (std::size_t i = 0; i < task.queries.size(); ++i) {
      const double w = weighted ? task.weight[i / 2] : 1.0, rank = slow_rank(e, task, task.queries[i]);
      weight += w, mrr += w / rank, hits += rank <= 3 ? w : 0;
    }
    const RankingMetrics found = rank_triples(e, task, 1).value();
    EXPECT_NEAR(found.mrr, mrr / weight, 1e-12);
    EXPECT_NEAR(found.hits[1], hits / weight, 1e-12);
    EXPECT_LE(found.hits[0], found.hits[1]);
    EXPECT_LE(found.hits[1], found.hits[2]);
    EXPECT_EQ(found.candidates, 45U);
    EXPECT_EQ(found.unseen_candidates, 5U);
  }
}

TEST(Ranking, HasTheSameBitsForAnyNumberOfThreads) {
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  Embedding e(500 + 6, 20);
  for (float& v : e.numbers) v = normal(random);
  const RankingTask task = random_task(500, 3, 7, 700, 3);
  const auto one = ranks_of(e, task, 1), many = ranks_of(e, task, 4);
  EXPECT_EQ(one, many);
  EXPECT_EQ(rank_triples(e, task, 1)->mrr, rank_triples(e, task, 3)->mrr);
}

TEST(Ranking, EqualVectorsTieWhereverTheyStand) {
  std::mt19937_64 random(2);
  std::normal_distribution<float> normal;
  Embedding e(4100 + 2, 30);
  for (float& v : e.numbers) v = normal(random);
  for (std::size_t k = 1; k < 4100; ++k) std::copy_n(e.row(0), 30, e.row(k));
  RankingTask task;
  task.entities = task.all_entities = 4100, task.relations = task.all_relations = 1;
  for (const std::uint32_t k : {0U, 31U, 2047U, 2048U, 4099U}) task.queries.push_back({7, 0, k});
  task.known = task.queries;
  const std::vector<double> ranks = ranks_of(e, task, 1).value();
  for (const double rank : ranks) EXPECT_EQ(rank, 1 + (4100.0 - 5) / 2);
}

TEST(Ranking, StopsWhenAsked) {
  const std::atomic<bool> stop = true;
  EXPECT_FALSE(rank_triples(whole_numbers(10, 4, 1, 1), random_task(4, 3, 0, 3, 1), 1, &stop).has_value());
}

}  // namespace
}  // namespace truemax
