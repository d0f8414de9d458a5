#include "index/predict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/parallel.hpp"

namespace truemax {
namespace {

constexpr std::size_t kFewRows = 16;      // too few to choose an effort by
constexpr std::size_t kLaterRows = 16;    // measured in a later batch
constexpr std::size_t kEffortRows = 256;  // to choose an effort, and to measure it
constexpr double kFirstBin = 1e-9, kBinsOfDecade = 40;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

void describe_recall(OptionTable& table, std::optional<double>* recall, const std::string& word) {
  table.number_or(
      "recall", recall, {0, 1, true}, word,
      "The share of each row's best classes that the index must find. Rows look into as many cells "
      "as that takes on rows that are searched exactly too.");
}

void IndexUse::describe(OptionTable& table) {
  describe_recall(table, &recall, "auto");
  table.choice(
      "normaliser", &normaliser, {{"sampled", Normaliser::sampled}, {"exact", Normaliser::exact}},
      "With --index, what probabilities are divided by: the sum over the classes that the row met and "
      "an unbiased estimate of the rest, or the sum over all classes, which takes as long as exact "
      "search.");
}

IndexPredictor::IndexPredictor(const Model& model, const ClassVectors& vectors, const ClassIndex& index,
                               std::size_t top, std::size_t threads, const IndexUse& use)
    : model_(model),
      search_(index, vectors, *model.classes),
      top_(std::min<std::size_t>(top, model.classes->size())),
      threads_(threads),
      normaliser_(use.normaliser) {
  const double target = use.recall                ? *use.recall
                        : index.effort.target > 0 ? index.effort.target
                                                  : kUsualRecall;
  effort_.target = target;
  if (index.effort.probes > 0 && index.effort.target == target && index.effort.top >= top_)
    effort_.probes = index.effort.probes;
}

Predictions IndexPredictor::predict(CsrView given) {
  const auto start = std::chrono::steady_clock::now();
  Csr encoded;
  const bool learnt = !model_.encoder.empty();
  if (learnt) encode_rows(*make_row_encoder(model_.space->encoder, model_.encoder), given, encoded, threads_);
  const CsrView rows = learnt ? encoded.view() : given;
  Predictions out;
  out.top = top_;
  const std::uint64_t batch = batches_++, first = std::exchange(rows_, rows_ + rows.rows());
  double measuring = 0;
  PassResult pass;
  if (effort_.probes == 0 && rows.rows() < kFewRows) {
    pass = search_.exact(rows, top_, threads_);
    out.error.assign(rows.rows(), 0.0);
    exact_rows_ += rows.rows();
  } else {
    if (effort_.probes == 0) {
      const auto from = std::chrono::steady_clock::now();
      effort_ = find_effort(search_, some_rows(rows, kEffortRows).view(), top_, effort_.target, threads_);
      measuring += seconds_since(from);
    }
    IndexResult found = search_.find(rows, {.top = top_,
                                            .probes = effort_.probes,
                                            .threads = threads_,
                                            .normaliser = normaliser_,
                                            .first_row = first});
    if ((batch & (batch + 1)) == 0) {  // batches 0, 1, 3, 7, ...: fewer and fewer, but to the end
      const std::size_t most = std::min(rows.rows(), batch == 0 ? kRecallRowsOfBatch : kLaterRows);
      found_.top = found.pass.top;
      for (std::size_t i = 0; i < most; ++i) {
        const std::size_t r = i * rows.rows() / most;
        const auto scores = found.pass.best_score.begin() + static_cast<std::ptrdiff_t>(r * top_);
        found_.best_score.insert(found_.best_score.end(), scores, scores + static_cast<std::ptrdiff_t>(top_));
        kept_.add(rows.row(r));
      }
    }
    pass = std::move(found.pass);
    out.error = std::move(found.error);
    count_errors(out.error);
  }
  out.classes = std::move(pass.best);
  out.probability = std::move(pass.best_score);
  for (std::size_t r = 0; r < rows.rows(); ++r)
    for (std::size_t t = 0; t < out.top; ++t) {
      double& p = out.probability[r * out.top + t];
      p = pass.probability(r, p);
    }
  measuring_ += measuring;
  seconds_ += seconds_since(start) - measuring;
  return out;
}

void IndexPredictor::measure() {
  const auto start = std::chrono::steady_clock::now();
  if (kept_.rows() > 0) recall_.add(found_, search_.exact(kept_.view(), top_, threads_));
  kept_ = {}, found_ = {};
  measuring_ += seconds_since(start);
}

void IndexPredictor::count_errors(const std::vector<double>& errors) {
  for (const double e : errors) {
    const double bin = e > kFirstBin ? std::log10(e / kFirstBin) * kBinsOfDecade : 0;
    ++errors_[static_cast<std::size_t>(std::min(bin, static_cast<double>(kBins - 1)))];
  }
}

double IndexPredictor::error_quantile(double share) const {
  std::uint64_t all = 0, seen = 0;
  for (const std::uint64_t n : errors_) all += n;
  for (std::size_t b = 0; b < kBins; ++b) {
    seen += errors_[b];
    if (static_cast<double>(seen) >= share * static_cast<double>(all))
      return b == 0 ? 0 : kFirstBin * std::pow(10.0, (static_cast<double>(b) + 1) / kBinsOfDecade);
  }
  return 0;
}

bool IndexPredictor::too_low() const {
  return recall_.rows() > 0 && recall_.recall() + recall_.error() < effort_.target;
}

std::vector<std::string> IndexPredictor::notes(const std::string& index) const {
  std::vector<std::string> notes;
  if (exact_rows_ > 0)
    notes.push_back(
        fmt::format("{} of {} rows were searched exactly: they came before there were enough to "
                    "choose an effort by; 'truemax index' with --rows chooses it beforehand",
                    exact_rows_, rows_));
  if (recall_.rows() == 0) return notes;
  notes.push_back(fmt::format(
      "index: recall {:.4f} +- {:.4f} of the best {}, from {} rows that were searched exactly too ({:.2g} "
      "s); "
      "{} of {} cells a row, {:.4g} rows/s",
      recall_.recall(), recall_.error(), top_, recall_.rows(), measuring_, effort_.probes,
      search_.index().cells(), static_cast<double>(rows_ - exact_rows_) / std::max(seconds_, 1e-9)));
  if (normaliser_ == Normaliser::sampled)
    notes.push_back(
        fmt::format("index: log-probabilities are within {:.2g} for half of the rows, {:.2g} for 95% of them "
                    "(95% intervals); "
                    "--normaliser exact makes them exact",
                    error_quantile(0.5), error_quantile(0.95)));
  if (too_low())
    notes.push_back(
        fmt::format("index: the recall is below the {:g} that was asked for; give --recall {:g} to "
                    "choose the effort on these rows, or make {} with --rows of their kind",
                    effort_.target, effort_.target, index));
  if (2 * effort_.probes > search_.index().cells() && search_.index().cells() > 1)
    notes.push_back(
        fmt::format("index: rows look into {} of {} cells, so the index saves little; a lower "
                    "--recall saves more",
                    effort_.probes, search_.index().cells()));
  return notes;
}

nlohmann::ordered_json IndexPredictor::to_json() const {
  return {{"recall", recall_.recall()},
          {"recall_error", recall_.error()},
          {"recall_rows", recall_.rows()},
          {"target", effort_.target},
          {"probes", effort_.probes},
          {"cells", search_.index().cells()},
          {"exact_rows", exact_rows_},
          {"error_median", error_quantile(0.5)},
          {"error_95", error_quantile(0.95)},
          {"rows", rows_},
          {"seconds", seconds_},
          {"measuring_seconds", measuring_}};
}

}  // namespace truemax
