#include "evaluate/evaluate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/parallel.hpp"
#include "evaluate/evaluate_rows.hpp"
#include "weights/kernels.hpp"
#include "weights/on_device.hpp"
#include "weights/pass.hpp"
#include "weights/pass_over_ranks.hpp"
#include "weights/tile.hpp"

namespace truemax {
namespace {

constexpr std::size_t kCalibrationBins = 15;
// Rows whose results are held at once. Many if W does not fit in the cache, because the pass reads all of W
// for each of its groups; otherwise few, so that their results stay in the cache.
constexpr std::size_t kSliceRows = 1 << 17, kNearSliceRows = 1 << 13;
constexpr std::size_t kNearBytes = std::size_t{2} << 20;

// Sums over examples and rows, from which Metrics are computed.
class Tally {
 public:
  using Hits = std::array<std::uint8_t, kPrecisionAt.size()>;

  void add_example(double weight, double loss, bool correct, double confidence) {
    weight_ += weight;
    loss_ += weight * loss;
    if (!correct) wrong_ += weight;
    const auto at = std::min(kCalibrationBins - 1,
                             static_cast<std::size_t>(confidence * static_cast<double>(kCalibrationBins)));
    bins_[at].confidence += weight * confidence;
    if (correct) bins_[at].correct += weight;
    ++examples_;
  }

  void count_row(bool has_examples) { counted_rows_ += has_examples ? 1 : 0; }
  void add_row(double weight, const Hits& hits) {
    rows_ += weight;
    for (std::size_t i = 0; i < hits.size(); ++i) hits_[i] += weight * static_cast<double>(hits[i]);
  }

  void add(const Tally& other) {
    weight_ += other.weight_, loss_ += other.loss_, wrong_ += other.wrong_, rows_ += other.rows_;
    for (std::size_t i = 0; i < bins_.size(); ++i) {
      bins_[i].confidence += other.bins_[i].confidence;
      bins_[i].correct += other.bins_[i].correct;
    }
    for (std::size_t i = 0; i < hits_.size(); ++i) hits_[i] += other.hits_[i];
    examples_ += other.examples_;
    counted_rows_ += other.counted_rows_;
  }

  // How many of the top k classes are labels, for each k of kPrecisionAt.
  static Hits count_hits(std::span<const ClassId> labels, std::span<const ClassId> best) {
    Hits out{};
    std::uint8_t hits = 0;
    std::size_t looked = 0;
    for (std::size_t i = 0; i < kPrecisionAt.size(); ++i) {
      for (const std::size_t k = std::min(kPrecisionAt[i], best.size()); looked < k; ++looked)
        if (labels.size() == 1)
          hits += static_cast<std::uint8_t>(labels[0] == best[looked]);  // the usual case, without a branch
        else if (std::find(labels.begin(), labels.end(), best[looked]) != labels.end())
          ++hits;
      out[i] = hits;
    }
    return out;
  }

  Metrics finish(const DataStatistics& statistics) const {
    Metrics m;
    m.statistics = statistics;
    m.examples = examples_;
    m.rows = counted_rows_;
    if (weight_ > 0) {
      m.log_loss = loss_ / weight_;
      m.error = wrong_ / weight_;
      for (const Bin& bin : bins_) m.calibration_error += std::abs(bin.correct - bin.confidence) / weight_;
    }
    for (std::size_t i = 0; i < kPrecisionAt.size() && rows_ > 0; ++i)
      m.precision[i] = hits_[i] / (rows_ * static_cast<double>(kPrecisionAt[i]));
    return m;
  }

 private:
  struct Bin {
    double confidence = 0, correct = 0;
  };
  double weight_ = 0, loss_ = 0, wrong_ = 0;
  std::array<Bin, kCalibrationBins> bins_{};
  std::array<double, kPrecisionAt.size()> hits_{};
  double rows_ = 0;  // sum of the row weights
  std::uint64_t examples_ = 0, counted_rows_ = 0;
};

// Counts the rows of a slice on all threads. Chunks have a fixed size and are added up in order, so that the
// sums have the same bits for any number of threads.
// `label_score`: of the examples of the slice, or null.
void count_slice(const Weights& weights, const DataView& data, const RowSlice& slice, const PassResult& pass,
                 const std::vector<double>* label_score, std::size_t threads, std::vector<Tally>& parts,
                 std::vector<double>* row_loss, Tally& total) {
  constexpr std::size_t kChunk = 1024;
  const std::size_t first_example = slice.first_example(0);
  const std::size_t rows = pass.highest.size(), chunks = (rows + kChunk - 1) / kChunk;
  parts.assign(chunks, Tally());
  parallel_for(chunks, threads, [&](std::size_t chunk) {
    Tally tally;
    const std::size_t begin = chunk * kChunk;
    std::array<double, kChunk> log_excess;
    logs_of(&pass.excess[begin], std::min(kChunk, rows - begin), log_excess.data());
    std::size_t r = begin;
    std::size_t next_example = slice.first_example(r);
    for (const std::size_t stop = std::min(rows, r + kChunk); r < stop; ++r) {
      const std::span<const ClassId> best(&pass.best[r * pass.top], pass.top);
      const double highest = pass.best_score[r * pass.top];
      const double confidence = highest == pass.highest[r] ? 1 / pass.excess[r]  // exp(0) is 1
                                                           : pass.probability(r, highest);
      tally.add_row(slice.weight(r), Tally::count_hits(slice.labels(r), best));
      const IdRange<ExampleId> examples = slice.examples(r, next_example);
      next_example += examples.size();
      tally.count_row(!examples.empty());
      for (const ExampleId example : examples) {
        const ClassId y = data.label(example);
        const auto place = static_cast<std::size_t>(std::find(best.begin(), best.end(), y) - best.begin());
        const double z = place < best.size()      ? pass.best_score[r * pass.top + place]
                         : label_score != nullptr ? (*label_score)[number_of(example) - first_example]
                                                  : score(weights, slice.x().row(r), y);
        // The formula of PassResult::loss.
        const double weight = data.weight(example);
        const double loss = (pass.highest[r] - z) + log_excess[r - begin];
        tally.add_example(weight, loss, place == 0, confidence);
        if (row_loss != nullptr) (*row_loss)[slice.first() + r] += weight * loss;
      }
    }
    parts[chunk] = tally;
  });
  for (const Tally& part : parts) total.add(part);
}

// The examples of a slice: their rows and labels.
struct SliceExamples {
  SliceExamples(const DataView& data, const RowSlice& slice) {
    std::size_t next = slice.first_example(0);
    for (std::size_t r = 0; r < slice.rows(); ++r)
      for (const ExampleId example : slice.examples(r, next)) {
        row.push_back(static_cast<std::uint32_t>(r)), label.push_back(data.label(example));
        ++next;
      }
  }
  std::vector<std::uint32_t> row, label;
};

}  // namespace

std::optional<Metrics> evaluate(const Weights& weights, const DataView& data, std::size_t threads,
                                const std::atomic<bool>* stop, const RowWatch& watch) {
  return evaluate_rows(weights, data, threads, stop, watch, nullptr);
}

std::optional<Metrics> evaluate(device::Passer& device, const DataView& data, std::size_t threads,
                                const std::atomic<bool>* stop, const RowWatch& watch) {
  return evaluate_rows({}, data, threads, stop, watch, nullptr, &device);
}

std::optional<Metrics> evaluate_rows(const Weights& weights, const DataView& data, std::size_t threads,
                                     const std::atomic<bool>* stop, const RowWatch& watch,
                                     std::vector<double>* row_loss, device::Passer* device) {
  const std::vector<std::uint32_t>& rank = data.classes->name_ranks();
  PassOptions options{.top = kPrecisionAt.back(), .threads = threads, .tie_rank = rank, .stop = stop};
  const BlockShare* const share = weights.share();
  if (const std::uint64_t lines =
          data.nonzeros() * (share != nullptr ? share->all_blocks() : weights.blocks());
      device == nullptr && lines >= kFastLines && options.top < weights.classes())
    options.numbers = PassNumbers::floats;  // for all slices, even a short last one
  std::size_t most = device == nullptr && weights.bytes() <= kNearBytes ? kNearSliceRows : kSliceRows;
  if (share != nullptr) most = kSliceRows;  // equal on all ranks
  std::vector<double> label_score;
  Csr scratch;
  Tally tally;
  std::vector<Tally> parts;
  PassResult pass;
  for (std::size_t first = 0; first < data.row_count();) {
    const RowSlice slice = data.slice(first, most, scratch);
    if (watch) options.watch = [&watch, first](std::size_t done) { watch(first + done); };
    if (device != nullptr) {
      if (stop != nullptr && stop->load(std::memory_order_relaxed)) return std::nullopt;
      const SliceExamples of_slice(data, slice);
      pass = pass_on_device(*device, slice.x(), options.top, of_slice.row, of_slice.label, &label_score);
    } else if (share != nullptr) {
      pass_over_ranks(ranks(), weights, slice.x(), options, pass);
      if (!pass.complete) return std::nullopt;
      const SliceExamples of_slice(data, slice);
      label_score = scores_over_ranks(ranks(), weights, slice.x(), of_slice.row, of_slice.label);
    } else {
      softmax_pass(weights, slice.x(), options, pass);
    }
    if (!pass.complete) return std::nullopt;
    count_slice(weights, data, slice, pass, device == nullptr && share == nullptr ? nullptr : &label_score,
                threads, parts, row_loss, tally);
    first += slice.rows();
    if (device != nullptr && watch) watch(first);
  }
  return tally.finish(data.statistics);
}

Metrics evaluate_class_frequencies(const DataView& data) {
  const ClassList& classes = *data.classes;
  // Total weight of each class's training examples: the best constant model.
  std::vector<double> share(classes.size());
  double total = 0;
  for (ClassId k = 0; k < classes.size(); ++k) {
    share[k] = classes.count(k) * data.weight_of_class(k);
    total += share[k];
  }
  std::vector<ClassId> order(classes.size());
  std::iota(order.begin(), order.end(), ClassId{0});
  const std::size_t top = std::min(kPrecisionAt.back(), classes.size());
  // Rounded to float so that shares that class weights make equal compare equal. Ties then go by count, then
  // by name.
  const auto rounded = [&](ClassId k) { return static_cast<float>(share[k]); };
  std::partial_sort(
      order.begin(), order.begin() + static_cast<std::ptrdiff_t>(top), order.end(),
      [&](ClassId a, ClassId b) { return rounded(a) != rounded(b) ? rounded(a) > rounded(b) : a < b; });
  const std::span<const ClassId> best(order.data(), top);
  Tally tally;
  std::optional<RowId> before;
  for (std::size_t place = 0; place < data.row_count(); ++place)
    tally.add_row(data.weight_at(place), Tally::count_hits(data.labels_at(place), best));
  for (const ExampleId i : data.examples()) {
    tally.count_row(before != data.row_of(i));
    before = data.row_of(i);
    tally.add_example(data.weight(i), std::log(total / share[data.label(i)]), data.label(i) == best[0],
                      share[best[0]] / total);
  }
  return tally.finish(data.statistics);
}

std::optional<double> Metrics::perplexity() const {
  const double value = std::exp(log_loss);
  if (!std::isfinite(value)) return std::nullopt;
  return value;
}

std::string Estimate::to_text() const {
  return fmt::format(
      "{} of {} rows, {}", rows, of_rows,
      classes == 0 ? "all classes" : fmt::format("about {} of {} classes", classes, of_classes));
}

nlohmann::json Metrics::to_json() const {
  nlohmann::json json{{"log_loss", log_loss},
                      {"rows", rows},
                      {"examples", examples},
                      {"unseen", statistics.unseen},
                      {"rows_of_weight_zero", statistics.rows_of_weight_zero},
                      {"rows_without_label", statistics.rows_without_label},
                      {"rows_without_features", statistics.rows_without_features},
                      {"unknown_words", statistics.unknown_words},
                      {"unknown_ngrams", statistics.unknown_ngrams},
                      {"unk_words", statistics.unk_words},
                      {"unknown_features", statistics.unknown_features}};
  if (has_top) {
    json["error"] = error;
    json["calibration_error"] = calibration_error;
    for (std::size_t i = 0; i < kPrecisionAt.size(); ++i)
      json["precision_at"][std::to_string(kPrecisionAt[i])] = precision[i];
  }
  if (ranking) {
    json["mrr"] = ranking->mrr;
    for (std::size_t i = 0; i < kHitsAt.size(); ++i)
      json[fmt::format("hits_at_{}", kHitsAt[i])] = ranking->hits[i];
    json["ranks"] = ranking->queries;
    json["candidates"] = ranking->candidates;
    json["unseen_candidates"] = ranking->unseen_candidates;
    json["filtered"] = ranking->filtered;
  }
  if (estimate) {
    json["estimate"] = {{"log_loss_error_bar_95", estimate->error_bar},
                        {"rows", estimate->rows},
                        {"of_rows", estimate->of_rows}};
    if (estimate->classes > 0) {
      json["estimate"]["classes"] = estimate->classes;
      json["estimate"]["of_classes"] = estimate->of_classes;
    }
  }
  if (const auto p = perplexity())
    json["perplexity"] = *p;
  else
    json["perplexity"] = nullptr;  // larger than any double
  return json;
}

std::string Metrics::to_text() const {
  const auto p = perplexity();
  std::string text;
  const auto line = [&](const std::string& name, const std::string& value) {
    text += fmt::format("{:<26}{:>14}\n", name, value);
  };
  line(estimate ? "log-loss, estimated" : "log-loss", fmt::format("{:.6g}", log_loss));
  if (estimate) line("  95% error bar +-", fmt::format("{:.3g}", estimate->error_bar));
  line("perplexity", p ? fmt::format("{:.6g}", *p) : "over 1e308");
  if (has_top) {
    line("error", fmt::format("{:.6f}", error));
    for (std::size_t i = 0; i < kPrecisionAt.size(); ++i)
      line(fmt::format("precision at {}", kPrecisionAt[i]), fmt::format("{:.6f}", precision[i]));
    line("calibration error", fmt::format("{:.6f}", calibration_error));
  }
  if (ranking) {
    line("mean reciprocal rank", fmt::format("{:.6f}", ranking->mrr));
    for (std::size_t i = 0; i < kHitsAt.size(); ++i)
      line(fmt::format("hits at {}", kHitsAt[i]), fmt::format("{:.6f}", ranking->hits[i]));
  }
  line("rows counted", fmt::format("{}", rows));
  if (examples != rows) line("examples counted", fmt::format("{}", examples));
  line("left out: unseen label", fmt::format("{}", statistics.unseen));
  if (statistics.rows_of_weight_zero > 0)
    line("left out: weight 0", fmt::format("{}", statistics.rows_of_weight_zero));
  line("left out: no label", fmt::format("{}", statistics.rows_without_label));
  line("left out: no features", fmt::format("{}", statistics.rows_without_features));
  if (statistics.unk_words > 0) line("unknown words as <unk>", fmt::format("{}", statistics.unk_words));
  if (statistics.unknown_words > 0)
    line("unknown words dropped", fmt::format("{}", statistics.unknown_words));
  if (statistics.unknown_ngrams > 0)
    line("unknown n-grams dropped", fmt::format("{}", statistics.unknown_ngrams));
  if (statistics.unknown_features > 0)
    line("unknown features dropped", fmt::format("{}", statistics.unknown_features));
  if (ranking)
    text += fmt::format(
        "ranks are of {} heads and tails among {} entities, {} of them unseen in training; {}\n",
        ranking->queries, ranking->candidates, ranking->unseen_candidates,
        ranking->filtered ? "known triples do not count"
                          : "only the triples of this file are known: name others with --filter FILE");
  if (estimate)
    text += fmt::format("an estimate from {}; {}\n", estimate->to_text(),
                        has_top ? "the other figures are those of these rows"
                                : "error and precision need all classes and are left out");
  return text;
}

}  // namespace truemax
