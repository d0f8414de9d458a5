#include "index/recall.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace truemax {

void RecallSum::add(const PassResult& found, const PassResult& exact) {
  const std::size_t top = exact.top;
  if (top == 0) return;
  top_ = top;
  for (std::size_t r = 0; r < exact.highest.size(); ++r) {
    const double last = exact.best_score[(r + 1) * top - 1];
    const double* const scores = &found.best_score[r * top];
    const auto hits = std::count_if(scores, scores + top, [&](double z) { return z >= last; });
    const double share = static_cast<double>(hits) / static_cast<double>(top);
    ++rows_, sum_ += share, squares_ += share * share;
  }
}

double RecallSum::error() const {
  constexpr double kInterval = 1.96, kNoneSeen = 3;  // without a miss, fewer than 3 of n with 95%
  if (rows_ == 0) return 1;
  const auto n = static_cast<double>(rows_);
  const double variance = std::max(0.0, squares_ / n - recall() * recall());
  return std::min(1.0,
                  std::max(kInterval * std::sqrt(variance / n), kNoneSeen / (n * static_cast<double>(top_))));
}

std::size_t place_of_some(std::size_t i, std::size_t most, std::size_t rows) {
  return i * rows / std::min(most, rows);
}

Csr some_rows(CsrView rows, std::size_t most) {
  Csr out;
  const std::size_t count = std::min(most, rows.rows());
  for (std::size_t i = 0; i < count; ++i) out.add(rows.row(place_of_some(i, most, rows.rows())));
  return out;
}

std::size_t probes_for(const IndexSearch& search, CsrView rows, const PassResult& exact, double target,
                       std::size_t threads) {
  const std::vector<std::uint32_t> before = search.cells_before(rows, exact, threads);
  const std::size_t cells = search.index().cells(), top = exact.top;
  const auto enough = [&](std::size_t probes) {
    double sum = 0, squares = 0;
    for (std::size_t r = 0; r < rows.rows(); ++r) {
      double hits = 0;
      for (std::size_t t = 0; t < top; ++t) hits += before[r * top + t] < probes ? 1 : 0;
      const double share = hits / static_cast<double>(top);
      sum += share, squares += share * share;
    }
    const auto n = static_cast<double>(rows.rows());
    const double recall = sum / n, variance = std::max(0.0, squares / n - recall * recall);
    return recall - std::sqrt(variance / n) >= target;
  };
  std::size_t low = 1, high = cells;  // recall grows with the cells
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (enough(middle))
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

IndexEffort find_effort(const IndexSearch& search, CsrView rows, std::size_t top, double target,
                        std::size_t threads) {
  IndexEffort effort;
  effort.target = target;
  if (rows.rows() == 0) return effort;
  Csr half[2];
  for (std::size_t r = 0; r < rows.rows(); ++r) half[r % 2].add(rows.row(r));
  const Csr& measured = rows.rows() > 1 ? half[1] : half[0];
  const PassResult chosen_by = search.exact(half[0].view(), top, threads);
  effort.top = chosen_by.top;
  effort.probes = probes_for(search, half[0].view(), chosen_by, target, threads);
  RecallSum sum;
  sum.add(search.find(measured.view(), {.top = top, .probes = effort.probes, .threads = threads}).pass,
          search.exact(measured.view(), top, threads));
  effort.rows = sum.rows(), effort.recall = sum.recall(), effort.error = sum.error();
  return effort;
}

nlohmann::ordered_json IndexEffort::to_json() const {
  nlohmann::ordered_json json{{"probes", probes}, {"target", target}};
  if (rows > 0) json.update({{"top", top}, {"rows", rows}, {"recall", recall}, {"recall_error", error}});
  return json;
}

}  // namespace truemax
