#include "index/class_vectors.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <utility>

#include "core/parallel.hpp"
#include "model/tensor_rows.hpp"
#include "weights/byte_classes.hpp"
#include "weights/kernels.hpp"

namespace truemax {
namespace {

class InMemory final : public ClassVectors {
 public:
  InMemory(const Weights& weights, const ClassList& classes) : weights_(weights), classes_(classes) {}

  std::size_t classes() const override { return weights_.classes(); }
  std::size_t features() const override { return weights_.features(); }
  void read(ClassId k, std::span<float> w) const override { weights_.copy_class(k, w); }
  float intercept(ClassId k) const override {
    return weights_.has_intercept() ? weights_.intercept()[k] : 0.0F;
  }
  double score(RowView x, ClassId k, std::vector<float>& /*scratch*/) const override {
    return truemax::score(weights_, x, k);
  }
  PassResult pass(CsrView rows, const PassOptions& options) const override {
    PassOptions all = options;
    all.refine = true;
    return softmax_pass(weights_, rows, all);
  }
  WeightsMark mark(std::size_t threads) const override {
    const std::vector<ClassId> order = classes_.by_name();
    std::atomic<std::uint64_t> sum{0};
    constexpr std::size_t kRows = 1024;  // per chunk
    parallel_for((order.size() + kRows - 1) / kRows, threads, [&](std::size_t chunk) {
      std::vector<float> row(features());
      std::uint64_t here = 0;
      for (std::size_t r = chunk * kRows; r < std::min(order.size(), (chunk + 1) * kRows); ++r) {
        weights_.copy_class(order[r], row);
        here += row_checksum(row, r);
      }
      sum.fetch_add(here, std::memory_order_relaxed);
    });
    WeightsMark mark{classes(), features(), sum.load(), 0};
    if (weights_.has_intercept()) {
      std::vector<float> by_name;
      by_name.reserve(order.size());
      for (const ClassId k : order) by_name.push_back(weights_.intercept()[k]);
      mark.intercept = row_checksum(by_name, 0);
    }
    return mark;
  }

 private:
  const Weights& weights_;
  const ClassList& classes_;
};

// Results of passes over parts of the classes, as one of all of them.
class MergedPass {
 public:
  MergedPass(std::size_t rows, std::size_t top, std::span<const std::uint32_t> rank) : rank_(rank) {
    all_.top = top;
    all_.highest.assign(rows, -HUGE_VAL);
    all_.excess.assign(rows, 0.0);
    found_.resize(rows);
  }
  // class_of: of the classes of the part.
  void add(const PassResult& part, std::span<const ClassId> class_of) {
    all_.complete = all_.complete && part.complete;
    if (!part.complete) return;
    for (std::size_t r = 0; r < found_.size(); ++r) {
      const double highest = std::max(all_.highest[r], part.highest[r]);
      all_.excess[r] = all_.excess[r] * std::exp(all_.highest[r] - highest) +
                       part.excess[r] * std::exp(part.highest[r] - highest);
      all_.highest[r] = highest;
      for (std::size_t i = 0; i < part.top; ++i)
        found_[r].emplace_back(part.best_score[r * part.top + i], class_of[part.best[r * part.top + i]]);
      std::sort(found_[r].begin(), found_[r].end(), [this](const auto& a, const auto& b) {
        return a.first > b.first || (a.first == b.first && rank_[a.second] < rank_[b.second]);
      });
      if (found_[r].size() > all_.top) found_[r].resize(all_.top);
    }
  }
  PassResult result() {
    for (const auto& row : found_)
      for (const auto& [score, k] : row) all_.best.push_back(k), all_.best_score.push_back(score);
    return std::move(all_);
  }

 private:
  PassResult all_;
  std::span<const std::uint32_t> rank_;
  std::vector<std::vector<std::pair<double, ClassId>>> found_;
};

class OnDisk final : public ClassVectors {
 public:
  explicit OnDisk(const WeightsOnDisk& weights) : weights_(weights) {}

  std::size_t classes() const override { return weights_.classes(); }
  std::size_t features() const override { return weights_.features(); }
  void read(ClassId k, std::span<float> w) const override { weights_.read(k, w); }
  float intercept(ClassId k) const override { return weights_.intercept(k); }
  double score(RowView x, ClassId k, std::vector<float>& scratch) const override {
    scratch.resize(features());
    weights_.read(k, scratch);
    return score_of(x, scratch, static_cast<double>(weights_.intercept(k)));
  }
  PassResult pass(CsrView rows, const PassOptions& options) const override {
    // Some classes at a time, in the order of the files.
    constexpr std::size_t kBytes = std::size_t{32} << 20;
    const std::size_t blocks =
        std::clamp<std::size_t>(kBytes / (features() * kLanes * sizeof(float) + 1), 4, 1 << 20);
    const std::size_t most = blocks * kLanes;
    MergedPass merged(rows.rows(), std::min(options.top, classes()), options.tie_rank);
    for (std::size_t first = 0; first < classes(); first += most) {
      const std::size_t count = std::min(most, classes() - first);
      const std::span<const ClassId> class_of = weights_.rows(first, count);
      Weights part(count, features(), weights_.has_intercept());
      parallel_for(part.blocks(), options.threads, [&](std::size_t b) {
        std::vector<float> some(kLanes * features());
        weights_.read_rows(first + b * kLanes, std::min(kLanes, count - b * kLanes), some.data());
        part.set_block(b, some);
      });
      std::vector<std::uint32_t> rank(count);
      for (std::size_t i = 0; i < count; ++i) {
        if (weights_.has_intercept()) part.intercept()[i] = weights_.intercept(class_of[i]);
        rank[i] = options.tie_rank[class_of[i]];
      }
      PassOptions of_part = options;
      of_part.tie_rank = rank;
      of_part.refine = true;
      merged.add(softmax_pass(part, rows, of_part), class_of);
    }
    return merged.result();
  }
  WeightsMark mark(std::size_t /*threads*/) const override {
    return {classes(), features(), weights_.checksum(), weights_.intercept_checksum()};
  }

 private:
  const WeightsOnDisk& weights_;
};

}  // namespace

std::unique_ptr<ClassVectors> vectors_in_memory(const Weights& weights, const ClassList& classes) {
  return std::make_unique<InMemory>(weights, classes);
}
std::unique_ptr<ClassVectors> vectors_on_disk(const WeightsOnDisk& weights) {
  return std::make_unique<OnDisk>(weights);
}

}  // namespace truemax
