#include "model/predict.hpp"

#include <cmath>

#include "ranks/ranks.hpp"
#include "weights/on_device.hpp"
#include "weights/pass_over_ranks.hpp"

namespace truemax {

Predictor::Predictor(const Model& model, std::size_t top, std::size_t threads, device::Passer* device,
                     const Lazy<FastBounds>* bounds)
    : model_(model),
      top_(top),
      threads_(threads),
      device_(device),
      may_use_floats_(top < model.classes->size()),
      rank_(model.classes->name_ranks()),
      bounds_(bounds != nullptr ? *bounds : own_bounds_) {}

namespace {

// Whether float32 pays for a row: whether it would in a large batch of such rows. This depends only on the
// row, because results must not depend on how a stream happens to be cut into batches.
bool in_floats(const Model& model, std::size_t nonzeros) {
  constexpr std::size_t kUsualBatch = 4096;
  const std::size_t blocks = (model.classes->size() + kLanes - 1) / kLanes;
  return (nonzeros + 1) * blocks >= kFastLines / kUsualBatch;
}

Csr gather(CsrView rows, const std::vector<std::size_t>& places) {
  Csr out;
  for (const std::size_t r : places) {
    const RowView x = rows.row(r);
    out.index.insert(out.index.end(), x.index.begin(), x.index.end());
    out.value.insert(out.value.end(), x.value.begin(), x.value.end());
    out.begin.push_back(out.index.size());
  }
  return out;
}

}  // namespace

PassResult Predictor::pass(CsrView rows, bool floats) const {
  // A few rows have less of W than its bounds need; many find them in passing.
  constexpr std::size_t kFewRows = 1024;
  PassOptions options{.top = top_,
                      .threads = threads_,
                      .tie_rank = rank_,
                      .stop = nullptr,
                      .numbers = floats ? PassNumbers::floats : PassNumbers::doubles,
                      .refine = true};
  if (model_.weights.share() == nullptr) {
    if (floats && rows.rows() <= kFewRows)
      options.bounds = &bounds_.get([this] { return whole_bounds(model_.weights); });
    return softmax_pass(model_.weights, rows, options);
  }
  PassResult result;
  pass_over_ranks(ranks(), model_.weights, rows, options, result);
  return result;
}

Predictions Predictor::predict(CsrView given) const {
  Csr encoded;
  const bool learnt = !model_.encoder.empty();
  if (learnt) encode_rows(*make_row_encoder(model_.space->encoder, model_.encoder), given, encoded);
  const CsrView rows = learnt ? encoded.view() : given;
  if (device_ != nullptr) return finished(pass_on_device(*device_, rows, top_), rows.rows());
  std::vector<std::size_t> light, heavy;
  for (std::size_t r = 0; r < rows.rows(); ++r)
    (may_use_floats_ && in_floats(model_, rows.row(r).index.size()) ? heavy : light).push_back(r);
  if (light.empty() || heavy.empty()) return finished(pass(rows, light.empty()), rows.rows());
  Predictions out;
  for (const auto* places : {&light, &heavy}) {
    const Csr part = gather(rows, *places);
    const Predictions of_part = finished(pass(part.view(), places == &heavy), places->size());
    out.top = of_part.top;
    out.classes.resize(rows.rows() * out.top);
    out.probability.resize(rows.rows() * out.top);
    for (std::size_t i = 0; i < places->size(); ++i)
      for (std::size_t t = 0; t < out.top; ++t) {
        out.classes[(*places)[i] * out.top + t] = of_part.classes[i * out.top + t];
        out.probability[(*places)[i] * out.top + t] = of_part.probability[i * out.top + t];
      }
  }
  return out;
}

Predictions Predictor::finished(PassResult&& pass, std::size_t rows) {
  Predictions out;
  out.top = pass.top;
  out.classes = std::move(pass.best);
  out.probability = std::move(pass.best_score);
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t i = 0; i < out.top; ++i) {
      double& p = out.probability[r * out.top + i];
      p = pass.probability(r, p);
    }
  return out;
}

}  // namespace truemax
