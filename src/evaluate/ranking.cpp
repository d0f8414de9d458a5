#include "evaluate/ranking.hpp"

#include <algorithm>
#include <deque>
#include <numeric>
#include <vector>

#include "core/parallel.hpp"
#include "core/team.hpp"
#include "weights/complex.hpp"
#include "weights/dense.hpp"
#include "weights/shared_vectors.hpp"

namespace truemax {
namespace {

// Memory of a batch: its scores of some entities at a time.
constexpr std::size_t kQueries = 256, kEntities = 2048;

// Ranks some queries among the entities of this rank. All scores come from one matrix product, whose bits
// depend only on the two vectors: equal vectors tie, on any ranks.
class QueryBatch {
 public:
  QueryBatch(const Embedding& vectors, const RankingTask& task, const BlockShare* share, std::size_t first,
             std::size_t count)
      : vectors_(vectors),
        task_(task),
        share_(share),
        queries_(std::span(task.queries).subspan(first, count)),
        x_(count * vectors.columns),
        target_(count),
        above_(count),
        equal_(count) {
    entities_ = task.entities;
    if (share == nullptr) return;
    for (entities_ = 0; entities_ < vectors.rows && entity(entities_) < task.entities;) ++entities_;
  }

  // The features of query i: none if training never saw one of them.
  std::span<const FeatureId> features(std::size_t i, std::array<FeatureId, 2>& of) const {
    const TripleQuery& q = queries_[i];
    const std::uint32_t inverse = task_.all_relations;
    const bool backward = q.relation >= inverse;
    const std::uint32_t r = q.relation - (backward ? inverse : 0);
    of = {q.entity, task_.entities + r + (backward ? task_.relations : 0)};
    const bool known = q.entity < task_.entities && r < task_.relations;
    return std::span(of).first(known ? 2 : 0);
  }

  std::size_t size() const { return queries_.size(); }
  float* x(std::size_t i) { return x_.data() + i * vectors_.columns; }

  void encode() {
    const ComplexRows rows(vectors_);
    std::array<FeatureId, 2> of{};
    for (std::size_t i = 0; i < queries_.size(); ++i) rows.encode_row({features(i, of), kOnes}, x(i));
  }

  // The scores of the answers that this rank has; 0 for others.
  std::span<float> find_targets() {
    std::vector<std::uint32_t> answer(queries_.size());
    for (std::size_t i = 0; i < answer.size(); ++i) answer[i] = own(queries_[i].answer).value_or(0);
    if (entities_ > 0) scores_of(answer.data(), 0, answer.size());
    for (std::size_t i = 0; i < answer.size(); ++i)
      target_[i] = own(queries_[i].answer) ? scores_[i * answer.size() + i] : 0.0F;
    return target_;
  }

  void set_targets(const float* scores) { std::copy_n(scores, target_.size(), target_.begin()); }

  void count() {
    filter_.clear();
    for (const TripleQuery& q : queries_) filter_.push_back(task_.answers(q));
    for (std::size_t first = 0; first < entities_; first += kEntities)
      count_entities(first, std::min(kEntities, entities_ - first));
  }

  // What count() has found, as numbers to be added up over the ranks.
  void put_counts(double* out) const {
    for (std::size_t i = 0; i < queries_.size(); ++i) out[2 * i] = above_[i], out[2 * i + 1] = equal_[i];
  }
  void take_counts(const double* sums) {
    for (std::size_t i = 0; i < queries_.size(); ++i) {
      above_[i] = static_cast<std::uint32_t>(sums[2 * i]);
      equal_[i] = static_cast<std::uint32_t>(sums[2 * i + 1]);
    }
  }

  void finish(double* out) {
    for (std::size_t i = 0; i < queries_.size(); ++i) {
      count_unseen(i);
      out[i] = mean_rank(above_[i], equal_[i] - 1);  // the answer is equal to itself
    }
  }

 private:
  static constexpr std::array<float, 2> kOnes{1, 1};

  // Between the numbers of an entity here and in the task.
  std::uint32_t entity(std::size_t own) const {
    const auto k = static_cast<ClassId>(own);
    return share_ != nullptr ? share_->global_class(k) : k;
  }
  std::optional<std::uint32_t> own(std::uint32_t entity) const {
    if (entity >= task_.entities || (share_ != nullptr && !share_->owns_class(entity))) return std::nullopt;
    return share_ != nullptr ? share_->local_class(entity) : entity;
  }

  // out [entities][queries]
  void scores_of(const std::uint32_t* entities, std::size_t first, std::size_t count) {
    const std::size_t h = vectors_.columns, n = queries_.size();
    scores_.resize(count * n);
    product_.multiply({{vectors_.numbers.data() + first * h, count, h, h, entities}, false},
                      {{x_.data(), n, h, h}, true}, scores_.data(), n, team_);
  }

  void count_entities(std::size_t first, std::size_t count) {
    const std::size_t n = queries_.size();
    scores_of(nullptr, first, count);
    for (std::size_t e = 0; e < count; ++e)
      count_above(scores_.data() + e * n, target_.data(), n, above_.data(), equal_.data());
    const std::uint32_t last = entity(first + count - 1);
    for (std::size_t i = 0; i < n; ++i) {
      std::span<const TripleQuery>& rest = filter_[i];
      for (; !rest.empty() && rest.front().answer <= last; rest = rest.subspan(1))
        if (const auto e = own(rest.front().answer))
          leave_out(i, rest.front().answer, scores_[(*e - first) * n + i]);
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
    for (const TripleQuery& known : filter_[i])
      if (known.answer >= task_.entities) leave_out(i, known.answer, 0.0F);
  }

  const Embedding& vectors_;
  const RankingTask& task_;
  const BlockShare* share_;
  std::span<const TripleQuery> queries_;
  std::size_t entities_ = 0;  // of this rank
  DenseProduct product_;
  std::vector<float> x_, target_, scores_;
  std::vector<std::uint32_t> above_, equal_;
  std::vector<std::span<const TripleQuery>> filter_;  // of each query: the true answers not looked at yet
  Team team_{1};
};

// The x of all queries of some batches, whose vectors come from all ranks.
void encode_over_ranks(const Embedding& vectors, const BlockShare& share, std::deque<QueryBatch>& batches) {
  SharedVectors shared(EncoderKind::complex, share, vectors.columns);
  std::array<FeatureId, 2> of{};
  const std::array<float, 2> ones{1, 1};
  for (const QueryBatch& batch : batches)
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const auto features = batch.features(i, of);
      shared.add({features, std::span(ones).first(features.size())});
    }
  shared.fetch(ranks(), vectors);
  const ComplexRows rows(shared.vectors());
  std::size_t row = 0;
  for (QueryBatch& batch : batches)
    for (std::size_t i = 0; i < batch.size(); ++i, ++row) rows.encode_row(shared.row(row), batch.x(i));
}

// All ranks rank the same queries, each among its own entities. False if `stop` was raised on any.
bool rank_over_ranks(const Embedding& vectors, const RankingTask& task, const BlockShare& share,
                     std::size_t threads, const std::atomic<bool>* stop, std::vector<double>& out) {
  constexpr std::size_t kPiece = 16;  // batches
  const std::size_t piece = kQueries * kPiece;
  std::vector<double> counts(2 * piece);
  std::vector<float> target(piece);
  for (std::size_t first = 0; first < out.size(); first += piece) {
    if (ranks().max_of(stop != nullptr && *stop ? 1 : 0) > 0) return false;
    const std::size_t count = std::min(piece, out.size() - first);
    std::deque<QueryBatch> batches;
    for (std::size_t at = 0; at < count; at += kQueries)
      batches.emplace_back(vectors, task, &share, first + at, std::min(kQueries, count - at));
    encode_over_ranks(vectors, share, batches);
    parallel_for(batches.size(), threads, [&](std::size_t b) {
      const std::span<float> of = batches[b].find_targets();
      std::copy(of.begin(), of.end(), target.begin() + static_cast<std::ptrdiff_t>(b * kQueries));
    });
    ranks().sum(std::span(target).first(count));
    parallel_for(batches.size(), threads, [&](std::size_t b) {
      batches[b].set_targets(target.data() + b * kQueries);
      batches[b].count();
      batches[b].put_counts(&counts[2 * b * kQueries]);
    });
    ranks().sum(std::span(counts).first(2 * count));
    for (std::size_t b = 0; b < batches.size(); ++b) {
      batches[b].take_counts(&counts[2 * b * kQueries]);
      batches[b].finish(&out[first + b * kQueries]);
    }
  }
  return true;
}

}  // namespace

std::optional<std::vector<double>> ranks_of(const Embedding& vectors, const RankingTask& task,
                                            std::size_t threads, const std::atomic<bool>* stop,
                                            const BlockShare* share) {
  std::vector<double> ranks(task.queries.size());
  if (share != nullptr) {
    if (!rank_over_ranks(vectors, task, *share, threads, stop, ranks)) return std::nullopt;
    return ranks;
  }
  parallel_for((ranks.size() + kQueries - 1) / kQueries, threads, [&](std::size_t batch) {
    if (stop != nullptr && *stop) return;
    const std::size_t first = batch * kQueries;
    QueryBatch queries(vectors, task, nullptr, first, std::min(kQueries, ranks.size() - first));
    queries.encode();
    queries.find_targets();
    queries.count();
    queries.finish(ranks.data() + first);
  });
  if (stop != nullptr && *stop) return std::nullopt;
  return ranks;
}

std::optional<RankingMetrics> rank_triples(const Embedding& vectors, const RankingTask& task,
                                           std::size_t threads, const std::atomic<bool>* stop,
                                           const BlockShare* share) {
  const auto ranks = ranks_of(vectors, task, threads, stop, share);
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
