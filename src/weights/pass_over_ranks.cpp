#include "weights/pass_over_ranks.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "weights/kernels.hpp"

namespace truemax {
namespace {

struct Candidate {
  double score;
  std::uint32_t rank;  // among equal scores
  ClassId k;
};
static_assert(sizeof(Candidate) == 16);

bool better(const Candidate& a, const Candidate& b) {
  return a.score != b.score ? a.score > b.score : a.rank < b.rank;
}

PassResult pass_own(const Weights& own, CsrView rows, const PassOptions& options) {
  std::vector<std::uint32_t> tie_rank;
  PassOptions here = options;
  if (!options.tie_rank.empty()) {
    tie_rank.reserve(own.classes());
    for (ClassId k = 0; k < own.classes(); ++k)
      tie_rank.push_back(options.tie_rank[own.share()->global_class(k)]);
    here.tie_rank = tie_rank;
  }
  PassResult result;
  if (own.classes() > 0) {
    softmax_pass(own, rows, here, result);
  } else {
    result.highest.assign(rows.rows(), std::numeric_limits<double>::lowest());
    result.excess.assign(rows.rows(), 0.0);
  }
  return result;
}

// The best of all ranks, in pieces: the candidates of many ranks and rows would take much memory.
void merge_best(Ranks& ranks, const Weights& own, const PassOptions& options, const PassResult& here,
                PassResult& result) {
  constexpr std::size_t kPiece = std::size_t{1} << 16;  // candidates of all ranks
  const std::size_t rows = result.highest.size(), top = result.top, each = top * ranks.size();
  if (top == 0) return;
  const std::size_t most = std::clamp<std::size_t>(kPiece / each, 1, std::max<std::size_t>(rows, 1));
  std::vector<Candidate> mine(most * top), all(most * each), of_row(each);
  for (std::size_t first = 0; first < rows; first += most) {
    const std::size_t count = std::min(most, rows - first);
    for (std::size_t r = 0; r < count; ++r)
      for (std::size_t t = 0; t < top; ++t) {
        Candidate& c = mine[r * top + t];
        c = {-std::numeric_limits<double>::infinity(), 0xFFFFFFFFU, kUnseenClass};
        if (t >= here.top) continue;
        const std::size_t at = (first + r) * here.top + t;
        c.k = own.share()->global_class(here.best[at]);
        c.score = here.best_score[at];
        c.rank = options.tie_rank.empty() ? c.k : options.tie_rank[c.k];
      }
    ranks.gather_everywhere(std::as_bytes(std::span(mine.data(), count * top)),
                            std::as_writable_bytes(std::span(all.data(), count * each)));
    for (std::size_t r = 0; r < count; ++r) {
      for (std::size_t p = 0; p < ranks.size(); ++p)
        std::copy_n(&all[(p * count + r) * top], top, &of_row[p * top]);
      std::partial_sort(of_row.begin(), of_row.begin() + static_cast<std::ptrdiff_t>(top), of_row.end(),
                        better);
      for (std::size_t t = 0; t < top; ++t) {
        result.best[(first + r) * top + t] = of_row[t].k;
        result.best_score[(first + r) * top + t] = of_row[t].score;
      }
    }
  }
}

}  // namespace

void pass_over_ranks(Ranks& ranks, const Weights& own, CsrView rows, const PassOptions& options,
                     PassResult& result) {
  const PassResult here = pass_own(own, rows, options);
  result.complete = ranks.max_of(here.complete ? 0 : 1) == 0;
  if (!result.complete) return;
  const std::size_t count = rows.rows();
  result.highest = here.highest;
  ranks.max(result.highest);
  result.excess.resize(count);
  for (std::size_t r = 0; r < count; ++r)
    result.excess[r] = here.excess[r] * std::exp(here.highest[r] - result.highest[r]);
  ranks.sum(result.excess);
  result.top = std::min(options.top, own.share()->all_classes());
  result.best.resize(count * result.top), result.best_score.resize(count * result.top);
  merge_best(ranks, own, options, here, result);
}

std::vector<double> scores_over_ranks(Ranks& ranks, const Weights& own, CsrView rows,
                                      std::span<const std::uint32_t> row, std::span<const ClassId> label) {
  std::vector<double> scores(row.size(), 0.0);
  for (std::size_t i = 0; i < row.size(); ++i)
    if (const auto k = own_number(own, label[i])) scores[i] = score(own, rows.row(row[i]), *k);
  ranks.sum(scores);
  return scores;
}

}  // namespace truemax
