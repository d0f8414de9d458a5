#include "model/predict.hpp"

#include <cmath>

#include "weights/pass.hpp"

namespace truemax {

Predictor::Predictor(const Model& model, std::size_t top, std::size_t threads)
    : model_(model), top_(top), threads_(threads), rank_(model.classes->name_ranks()) {}

Predictions Predictor::predict(CsrView rows) const {
  PassResult pass =
      softmax_pass(model_.weights, rows,
                   {.top = top_, .threads = threads_, .tie_rank = rank_, .stop = nullptr, .refine = true});
  Predictions out;
  out.top = pass.top;
  out.classes = std::move(pass.best);
  out.probability = std::move(pass.best_score);
  for (std::size_t r = 0; r < rows.rows(); ++r)
    for (std::size_t i = 0; i < out.top; ++i) {
      double& p = out.probability[r * out.top + i];
      p = pass.probability(r, p);
    }
  return out;
}

}  // namespace truemax
