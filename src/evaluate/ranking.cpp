#include "evaluate/ranking.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "core/parallel.hpp"
#include "core/team.hpp"
#include "weights/complex.hpp"
#include "weights/dense.hpp"

namespace truemax {
namespace {

// Memory of a batch: its scores of some entities at a time.
constexpr std::size_t kQueries = 256, kEntities = 2048;

// Ranks some queries. All scores come from one matrix product, whose bits depend only on the two vectors:
// equal vectors tie.
class QueryBatch {
 public:
  QueryBatch(const Embedding& vectors, const RankingTask& task, std::size_t first, std::size_t count)
      : vectors_(vectors),
        task_(task),
        queries_(std::span(task.queries).subspan(first, count)),
        x_(count * vectors.columns),
        target_(count),
        above_(count),
        equal_(count),
        filter_(count) {}

  void rank(double* out) {
    encode();
    find_targets();
    for (std::size_t first = 0; first < task_.entities; first += kEntities)
      count_entities(first, std::min<std::size_t>(kEntities, task_.entities - first));
    for (std::size_t i = 0; i < queries_.size(); ++i) {
      count_unseen(i);
      out[i] = mean_rank(above_[i], equal_[i] - 1);  // the answer is equal to itself
    }
  }

 private:
  void encode() {
    const std::uint32_t inverse = task_.all_relations;
    const ComplexRows rows(vectors_);
    for (std::size_t i = 0; i < queries_.size(); ++i) {
      const TripleQuery& q = queries_[i];
      const bool backward = q.relation >= inverse;
      const std::uint32_t r = q.relation - (backward ? inverse : 0);
      const FeatureId features[2] = {q.entity, task_.entities + r + (backward ? task_.relations : 0)};
      const float values[2] = {1, 1};
      const bool known = q.entity < task_.entities && r < task_.relations;
      rows.encode_row({std::span(features, known ? 2U : 0U), std::span(values, known ? 2U : 0U)},
                      x_.data() + i * vectors_.columns);
      filter_[i] = task_.answers(q);
    }
  }

  // out [entities][queries]
  void scores_of(const std::uint32_t* entities, std::size_t first, std::size_t count) {
    const std::size_t h = vectors_.columns, n = queries_.size();
    scores_.resize(count * n);
    product_.multiply({{vectors_.numbers.data() + first * h, count, h, h, entities}, false},
                      {{x_.data(), n, h, h}, true}, scores_.data(), n, team_);
  }

  void find_targets() {
    std::vector<std::uint32_t> answer(queries_.size());
    for (std::size_t i = 0; i < answer.size(); ++i)
      answer[i] = queries_[i].answer < task_.entities ? queries_[i].answer : 0;
    scores_of(answer.data(), 0, answer.size());
    for (std::size_t i = 0; i < answer.size(); ++i)
      target_[i] = queries_[i].answer < task_.entities ? scores_[i * answer.size() + i] : 0.0F;
  }

  void count_entities(std::size_t first, std::size_t count) {
    const std::size_t n = queries_.size();
    scores_of(nullptr, first, count);
    for (std::size_t e = 0; e < count; ++e)
      count_above(scores_.data() + e * n, target_.data(), n, above_.data(), equal_.data());
    for (std::size_t i = 0; i < n; ++i) {
      std::span<const TripleQuery>& rest = filter_[i];
      for (; !rest.empty() && rest.front().answer < first + count; rest = rest.subspan(1))
        leave_out(i, rest.front().answer, scores_[(rest.front().answer - first) * n + i]);
    }
  }

  // A true answer that was counted as a candidate.
  void leave_out(std::size_t i, std::uint32_t entity, float score) {
    if (entity == queries_[i].answer) return;
    above_[i] -= score > target_[i] ? 1U : 0U;
    equal_[i] -= score == target_[i] ? 1U : 0U;
  }

  void count_unseen(std::size_t i) {
    const std::uint32_t unseen = task_.all_entities - task_.entities;
    if (target_[i] < 0) above_[i] += unseen;
    if (target_[i] == 0) equal_[i] += unseen;
    for (const TripleQuery& known : filter_[i]) leave_out(i, known.answer, 0.0F);
  }

  const Embedding& vectors_;
  const RankingTask& task_;
  std::span<const TripleQuery> queries_;
  Team team_{1};
  DenseProduct product_;
  std::vector<float> x_, target_, scores_;
  std::vector<std::uint32_t> above_, equal_;
  std::vector<std::span<const TripleQuery>> filter_;  // of each query: the true answers not looked at yet
};

}  // namespace

std::optional<std::vector<double>> ranks_of(const Embedding& vectors, const RankingTask& task,
                                            std::size_t threads, const std::atomic<bool>* stop) {
  std::vector<double> ranks(task.queries.size());
  parallel_for((ranks.size() + kQueries - 1) / kQueries, threads, [&](std::size_t batch) {
    if (stop != nullptr && *stop) return;
    const std::size_t first = batch * kQueries;
    QueryBatch(vectors, task, first, std::min(kQueries, ranks.size() - first)).rank(ranks.data() + first);
  });
  if (stop != nullptr && *stop) return std::nullopt;
  return ranks;
}

std::optional<RankingMetrics> rank_triples(const Embedding& vectors, const RankingTask& task,
                                           std::size_t threads, const std::atomic<bool>* stop) {
  const auto ranks = ranks_of(vectors, task, threads, stop);
  if (!ranks) return std::nullopt;
  RankingMetrics out;
  double total = 0;
  for (std::size_t i = 0; i < ranks->size(); ++i) {
    const double weight = task.weight.empty() ? 1.0 : task.weight[i / 2], rank = (*ranks)[i];
    total += weight;
    out.mrr += weight / rank;
    for (std::size_t k = 0; k < kHitsAt.size(); ++k)
      if (rank <= static_cast<double>(kHitsAt[k])) out.hits[k] += weight;
  }
  if (total > 0) {
    out.mrr /= total;
    for (double& hits : out.hits) hits /= total;
  }
  out.queries = ranks->size();
  out.candidates = task.all_entities;
  out.unseen_candidates = task.all_entities - task.entities;
  out.filtered = task.filtered;
  return out;
}

}  // namespace truemax
