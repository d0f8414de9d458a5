#include "evaluate/sampled.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <mutex>
#include <numeric>

#include "core/error.hpp"
#include "core/parallel.hpp"
#include "core/random.hpp"
#include "data/hold_out.hpp"
#include "evaluate/evaluate_rows.hpp"
#include "weights/kernels.hpp"

namespace truemax {
namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();
constexpr double kNormal95 = 1.959963984540054;
constexpr double kRatio = 0.35355339059327379;  // 2^-1.5

double log_add(double a, double b) {
  if (a < b) std::swap(a, b);
  return b == kNothing ? a : a + std::log1p(std::exp(b - a));
}

double log_sum_exp(std::span<const double> terms) {
  const double most = *std::max_element(terms.begin(), terms.end());
  if (most == kNothing) return kNothing;
  double sum = 0;
  for (const double t : terms) sum += std::exp(t - most);
  return most + std::log(sum);
}

double log_sum_of_block(const Weights& weights, RowView x, std::size_t b) {
  std::array<double, kLanes> z{};
  const std::size_t first = b * kLanes, lanes = std::min(kLanes, weights.classes() - first);
  for (std::size_t lane = 0; lane < lanes; ++lane)
    z[lane] = score(weights, x, static_cast<ClassId>(first + lane));
  return log_sum_exp(std::span(z).first(lanes));
}

struct Moments {
  double mean = 0, variance = 0;  // sample variance, divided by n - 1
};

Moments moments(std::span<const double> values) {
  Moments m;
  const auto n = static_cast<double>(values.size());
  m.mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  for (const double v : values) m.variance += (v - m.mean) * (v - m.mean);
  m.variance /= std::max(n - 1, 1.0);
  return m;
}

}  // namespace

template <template <class> class As>
void EvaluateFields<As>::describe(OptionTable& table) {
  const EvaluateOptions d;
  table.group("Validation and evaluation");
  table.choice(
      "eval", Place<EvalKind>{&kind, d.kind}, {{"exact", EvalKind::exact}, {"sampled", EvalKind::sampled}},
      "Evaluate all rows exactly, or estimate the log-loss from --eval-rows rows, without bias and with "
      "a 95% error bar.");
  table.count("eval-rows", {&rows, d.rows}, {100, 1e9},
              "Rows of each data set that --eval sampled looks at, drawn by --seed; all rows if there are "
              "fewer.");
  table.count_or(
      "eval-classes", {&classes, d.classes}, {64, 1e9}, "all", 0,
      "Approximate number of classes of each row that --eval sampled looks at: half of them the most "
      "frequent ones, the rest drawn. Error and precision are left out then.");
}

template struct EvaluateFields<Plain>;
template struct EvaluateFields<std::optional>;

void require_possible(const EvaluateOptions& options) {
  if (options.kind == EvalKind::exact && options.classes > 0)
    throw UserError(fmt::format(
        "--eval-classes {}: --eval exact looks at all classes; add --eval sampled, or leave it out",
        options.classes));
}

LevelSum::LevelSum(std::size_t base, std::size_t blocks) : base_(base) {
  while ((base_ << (last_ + 1)) <= blocks) ++last_;
}

double LevelSum::probability(std::size_t level) const {
  const double reached = std::pow(kRatio, static_cast<double>(level));
  return level < last_ ? (1 - kRatio) * reached : reached;
}

std::size_t LevelSum::level(double uniform) const {
  std::size_t level = 0;
  for (double reached = kRatio; level < last_ && uniform < reached; reached *= kRatio) ++level;
  return level;
}

double LevelSum::estimate(std::size_t level, std::span<const double> log_terms, double log_sure,
                          double log_exact) const {
  const auto log_of = [&](std::span<const double> terms) {
    return log_add(log_sure, log_sum_exp(terms) - std::log(static_cast<double>(terms.size())));
  };
  double first = 0;  // mean over groups of draws, which all have the same expectation
  const std::size_t groups = log_terms.size() / base_;
  for (std::size_t g = 0; g < groups; ++g) first += log_of(log_terms.subspan(g * base_, base_));
  first /= static_cast<double>(groups);
  const double all = log_of(log_terms);
  const std::size_t half = log_terms.size() / 2;
  const double more = level == last_
                          ? log_exact - all
                          : all - 0.5 * (log_of(log_terms.first(half)) + log_of(log_terms.subspan(half)));
  return first + more / probability(level);
}

ClassSample::ClassSample(const Weights& weights, const ClassList& counts, std::uint64_t classes)
    : blocks_(weights.blocks()) {
  constexpr double kDrawsOfLevels = 4.5;  // mean number of draws of a LevelSum, in units of its base
  const auto seen = static_cast<double>(classes) / kLanes;
  if (classes == 0 || classes >= weights.classes()) {
    head_ = blocks_;
    return;
  }
  head_ = std::max<std::size_t>(1, static_cast<std::size_t>(seen / 2));
  base_ = std::max<std::size_t>(1, static_cast<std::size_t>(seen / 2 / (2 * kDrawsOfLevels)));
  // Half of the draws by label count, half uniform: a block with few labels can have large scores too.
  const std::size_t tail = blocks_ - head_;
  std::vector<double> mass(tail, 0.0);
  double total = 0;
  for (std::size_t k = head_ * kLanes; k < counts.size(); ++k) {
    mass[k / kLanes - head_] += counts.count(static_cast<ClassId>(k));
    total += counts.count(static_cast<ClassId>(k));
  }
  up_to_.resize(tail);
  double sum = 0;
  for (std::size_t b = 0; b < tail; ++b)
    up_to_[b] = sum += 0.5 / static_cast<double>(tail) + 0.5 * mass[b] / total;
  up_to_.back() = 1;
}

double ClassSample::log_q(std::size_t tail_block) const {
  return std::log(up_to_[tail_block] - (tail_block == 0 ? 0.0 : up_to_[tail_block - 1]));
}

std::pair<double, double> ClassSample::log_sum(const Weights& weights, RowView x,
                                               std::span<const ClassId> labels, std::uint64_t row,
                                               std::uint64_t seed) const {
  std::vector<std::size_t> own;  // tail blocks that are summed exactly
  for (const ClassId y : labels) {
    const std::size_t b = y / kLanes;
    if (b >= head_ && std::find(own.begin(), own.end(), b) == own.end()) own.push_back(b);
  }
  std::vector<double> terms;
  for (std::size_t b = 0; b < head_; ++b) terms.push_back(log_sum_of_block(weights, x, b));
  for (const std::size_t b : own) terms.push_back(log_sum_of_block(weights, x, b));
  const double sure = log_sum_exp(terms);
  const LevelSum levels(base_, up_to_.size());
  std::array<double, 2> found{};
  for (std::uint64_t side = 0; side < 2; ++side) {
    const CounterRandom random(seed, Stream::evaluate, 1 + side);
    const auto word = [&](std::uint64_t i) {
      const CounterRandom::Block four = random.at(row, i / 4);
      return std::array{four.first, four.second, four.third, four.fourth}[i % 4];
    };
    const std::size_t level = levels.level(uniform_unit(word(0)));
    terms.clear();
    for (std::size_t i = 0; i < levels.draws(level); ++i) {
      const auto at = std::upper_bound(up_to_.begin(), up_to_.end() - 1, uniform_unit(word(i + 1)));
      const auto drawn = static_cast<std::size_t>(at - up_to_.begin());
      const bool sure_already = std::find(own.begin(), own.end(), head_ + drawn) != own.end();
      terms.push_back(sure_already ? kNothing : log_sum_of_block(weights, x, head_ + drawn) - log_q(drawn));
    }
    double exact = 0;
    if (level == levels.last()) {
      std::vector<double> all{sure};
      for (std::size_t b = head_; b < blocks_; ++b)
        if (std::find(own.begin(), own.end(), b) == own.end()) all.push_back(log_sum_of_block(weights, x, b));
      exact = log_sum_exp(all);
    }
    found[side] = levels.estimate(level, terms, sure, exact);
  }
  return {found[0], found[1]};
}

std::size_t rows_to_evaluate(const EvaluateOptions& options, const DataView& data) {
  return options.kind == EvalKind::exact ? data.row_count()
                                         : std::min<std::size_t>(options.rows, data.row_count());
}

namespace {

// `device`: has the model, and takes all classes; null: the CPU.
std::optional<Metrics> evaluate_part(const EvaluateOptions& options, std::uint64_t seed,
                                     const Weights& weights, device::Passer* device, const DataView& data,
                                     std::size_t threads, const std::atomic<bool>* stop,
                                     const RowWatch& watch) {
  const auto everything = [&] { return evaluate_rows(weights, data, threads, stop, watch, nullptr, device); };
  if (options.kind == EvalKind::exact) return everything();
  // Ranks take all of their classes: each has few, and drawn blocks would need a message for every level.
  const bool draws = device == nullptr && weights.share() == nullptr;
  const ClassSample classes(weights, *data.classes, draws ? options.classes : 0);
  const std::size_t all_rows = data.row_count(), count = rows_to_evaluate(options, data);
  if (classes.takes_all() && count == all_rows) return everything();
  DataView single = data;
  single.rows_together = 1;  // either row of a triple may be drawn
  const DataView some = sample_part(single, count, seed, Stream::evaluate);

  Metrics metrics;
  std::vector<double> loss(count, 0.0);    // by row: sum of weight x loss over its examples
  std::vector<double> within(count, 0.0);  // by row: variance from drawing classes
  if (classes.takes_all()) {
    const auto exact = evaluate_rows(weights, some, threads, stop, watch, &loss, device);
    if (!exact) return std::nullopt;
    metrics = *exact;
  } else {
    constexpr std::size_t kChunk = 64;
    std::mutex counting;
    std::size_t done = 0, with_examples = 0;
    parallel_for((count + kChunk - 1) / kChunk, threads, [&](std::size_t chunk) {
      if (stop != nullptr && stop->load(std::memory_order_relaxed)) return;
      const std::size_t end = std::min(count, (chunk + 1) * kChunk);
      std::size_t rows_here = 0;
      Csr scratch;
      for (std::size_t place = chunk * kChunk; place < end;) {
        const RowSlice slice = some.slice(place, end - place, scratch);
        for (std::size_t r = 0; r < slice.rows(); ++r, ++place) {
          const IdRange<ExampleId> examples = slice.examples(r, slice.first_example(r));
          if (examples.empty()) continue;
          ++rows_here;
          const RowView x = slice.x().row(r);
          const auto [a, b] = classes.log_sum(
              weights, x, some.labels().subspan(number_of(*examples.begin()), examples.size()),
              number_of(slice.id(r)), seed);
          double weight = 0;
          for (const ExampleId i : examples) {
            weight += some.weight(i);
            loss[place] += some.weight(i) * (0.5 * (a + b) - score(weights, x, some.label(i)));
          }
          within[place] = weight * weight * (a - b) * (a - b) / 4;
        }
      }
      const std::lock_guard lock(counting);
      with_examples += rows_here;
      done += end - chunk * kChunk;
      if (watch) watch(done);
    });
    if (stop != nullptr && stop->load()) return std::nullopt;
    metrics.has_top = false;
    metrics.examples = some.size();
    metrics.rows = with_examples;
  }

  // Rows are drawn without replacement and the total weight is known, so the mean below is unbiased.
  double weight = 0;
  for (const ExampleId i : data.examples()) weight += data.weight(i);
  const auto n = static_cast<double>(count), of = static_cast<double>(all_rows);
  const double scale = of / weight, share = n / of;
  const Moments m = moments(loss);
  const double variance = ((1 - share) * m.variance + share * moments(within).mean) / n;
  metrics.log_loss = scale * m.mean;
  metrics.statistics = data.statistics;
  metrics.estimate = Estimate{.error_bar = kNormal95 * scale * std::sqrt(variance),
                              .rows = count,
                              .of_rows = all_rows,
                              .classes = classes.takes_all() ? 0 : options.classes,
                              .of_classes = data.classes->size()};
  return metrics;
}

}  // namespace

std::optional<Metrics> evaluate(const EvaluateOptions& options, std::uint64_t seed, const Weights& weights,
                                const DataView& data, std::size_t threads, const std::atomic<bool>* stop,
                                const RowWatch& watch) {
  return evaluate_part(options, seed, weights, nullptr, data, threads, stop, watch);
}

std::optional<Metrics> evaluate(const EvaluateOptions& options, std::uint64_t seed, device::Passer& device,
                                const DataView& data, std::size_t threads, const std::atomic<bool>* stop,
                                const RowWatch& watch) {
  return evaluate_part(options, seed, {}, &device, data, threads, stop, watch);
}

}  // namespace truemax
