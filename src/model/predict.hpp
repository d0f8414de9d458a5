// Prediction: the most probable classes of each row, with probabilities over all K classes.
#pragma once

#include <cstddef>
#include <vector>

#include "core/csr.hpp"
#include "core/lazy.hpp"
#include "device/engine.hpp"
#include "model/model.hpp"
#include "weights/fast_pass.hpp"
#include "weights/pass.hpp"

namespace truemax {

struct Predictions {
  std::size_t top = 0;              // entries per row
  std::vector<ClassId> classes;     // [rows][top], most probable first; ties in the order of the model file
  std::vector<double> probability;  // [rows][top], each in [0, 1]; with top = K they sum to one
  // By an index: half of the 95% interval of the logarithm of a row's probabilities. Else empty.
  std::vector<double> error;
};

// Over several ranks all make one and predict the same rows; all get the same result.
class Predictor {
 public:
  // `device`: makes the passes, and has been given the model's weights; null: the CPU. `bounds`: of the
  // model's weights, which several predictors keep; null: its own.
  Predictor(const Model& model, std::size_t top, std::size_t threads, device::Passer* device = nullptr,
            const Lazy<FastBounds>* bounds = nullptr);
  Predictor(const Predictor&) = delete;
  Predictor& operator=(const Predictor&) = delete;

  // The result for a row does not depend on the other rows.
  Predictions predict(CsrView rows) const;

 private:
  PassResult pass(CsrView rows, bool floats) const;
  static Predictions finished(PassResult&& pass, std::size_t rows);

  const Model& model_;
  std::size_t top_, threads_;
  device::Passer* device_;
  bool may_use_floats_;
  const std::vector<std::uint32_t>& rank_;
  Lazy<FastBounds> own_bounds_;
  const Lazy<FastBounds>& bounds_;
};

}  // namespace truemax
