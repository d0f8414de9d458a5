// Prediction by an index: as Predictor, for one stream of rows, with its recall measured on some of them.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "index/recall.hpp"
#include "index/search.hpp"
#include "model/predict.hpp"

namespace truemax {

struct IndexUse {
  std::optional<double> recall;  // wanted; empty: as when the index was built, or kUsualRecall
  Normaliser normaliser = Normaliser::sampled;

  void describe(OptionTable& table);
};
inline constexpr double kUsualRecall = 0.99;
void describe_recall(OptionTable& table, std::optional<double>* recall, const std::string& word);

class IndexPredictor {
 public:
  // Model, index and vectors outlive it. The model's own weights are not used.
  IndexPredictor(const Model& model, const ClassVectors& vectors, const ClassIndex& index, std::size_t top,
                 std::size_t threads, const IndexUse& use);

  // The next rows of the stream. The first ones choose the effort, unless the index knows it for as many
  // classes and the same recall; now and then a few are kept for `measure`.
  Predictions predict(CsrView rows);

  // Recall on the rows that were kept, which are searched exactly: after the last rows, before what follows.
  // All at once, because a pass over the weights costs as much as the rows.
  void measure();

  // What to tell the user at the end; a recall below what is wanted comes with advice. `index`: its file.
  std::vector<std::string> notes(const std::string& index) const;
  nlohmann::ordered_json to_json() const;
  bool too_low() const;  // the measured recall, by more than its error

 private:
  void count_errors(const std::vector<double>& errors);
  double error_quantile(double share) const;

  const Model& model_;
  IndexSearch search_;
  std::size_t top_, threads_;
  Normaliser normaliser_;
  IndexEffort effort_;
  std::uint64_t rows_ = 0, batches_ = 0, exact_rows_ = 0;
  Csr kept_;          // encoded
  PassResult found_;  // of these rows: the scores
  RecallSum recall_;
  double seconds_ = 0, measuring_ = 0;
  // Rows by the logarithm of their error.
  static constexpr std::size_t kBins = 480;
  std::array<std::uint64_t, kBins> errors_{};
};

}  // namespace truemax
