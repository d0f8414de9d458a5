// Exact evaluation over all K classes; estimates are in sampled.hpp.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "data/data_view.hpp"
#include "device/engine.hpp"
#include "evaluate/ranking.hpp"
#include "weights/weights.hpp"

namespace truemax {

inline constexpr std::array<std::size_t, 3> kPrecisionAt{1, 3, 5};

// What an estimate is based on.
struct Estimate {
  double error_bar = 0;  // of the log-loss: half the width of its 95% interval
  std::uint64_t rows = 0, of_rows = 0;
  std::uint64_t classes = 0, of_classes = 0;  // classes per row, about; 0: all

  std::string to_text() const;  // "1000 of 60000 rows, all classes"
};

// Weighted means over the examples; natural logarithm, sums in double.
struct Metrics {
  double log_loss = 0;
  double error = 0;              // share of examples whose label is not the top class
  double calibration_error = 0;  // expected calibration error of the top class, 15 bins of equal width
  // Share of the top k classes that are labels of the row, averaged over all rows with a label (even an
  // unseen one) by row weight.
  std::array<double, kPrecisionAt.size()> precision{};
  bool has_top = true;                    // false: error, calibration and precision are unknown
  std::uint64_t rows = 0;                 // with at least one example
  std::uint64_t examples = 0;             // with --labels all one per label of a row, else one per row
  std::optional<Estimate> estimate;       // if the log-loss is one; other figures are of the sampled rows
  DataStatistics statistics;              // rows left out, and why
  std::optional<RankingMetrics> ranking;  // of triples, in both directions; the figures above are of tails

  // exp(log_loss); nullopt if it overflows.
  std::optional<double> perplexity() const;
  nlohmann::json to_json() const;
  std::string to_text() const;  // an aligned table
};

// Reports progress; called by one thread at a time.
using RowWatch = std::function<void(std::size_t rows_done)>;

// Ties between scores go to the class that comes first in the model file. Returns nullopt if `stop` was
// raised. The result has the same bits for any number of threads. Weights that are a rank's share: all ranks
// evaluate the same data together, and get the same result.
std::optional<Metrics> evaluate(const Weights& weights, const DataView& data, std::size_t threads,
                                const std::atomic<bool>* stop = nullptr, const RowWatch& watch = {});

// The same, with the model that a device has: `data` as it was when the model was trained there, so that
// learnt features are made there too. Ties go to the more frequent class. Log-losses are those of the CPU
// within 1e-5.
std::optional<Metrics> evaluate(device::Passer& device, const DataView& data, std::size_t threads,
                                const std::atomic<bool>* stop = nullptr, const RowWatch& watch = {});

// The same figures for the constant model that predicts each class by its weighted frequency in training.
Metrics evaluate_class_frequencies(const DataView& data);

}  // namespace truemax
