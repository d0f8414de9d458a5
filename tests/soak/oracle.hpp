// Slow, obvious float64 versions of what the soak checks: the x of a row, its scores, probabilities and
// losses.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "data/data_view.hpp"
#include "evaluate/evaluate.hpp"
#include "model/model.hpp"

namespace truemax::soak {

// One row against all classes.
struct RowOracle {
  std::vector<double> score, probability;  // by class
  double log_sum = 0;                      // log sum exp of the scores
  double score_error = 0;                  // of scores in double
  double loss_error = 0;  // how far the program's losses may lie from these: its stated bound of float32
  double loss(ClassId k) const { return log_sum - score[k]; }
};

class Oracle {
 public:
  explicit Oracle(const Model& model);

  RowOracle row(RowView x) const;  // x as W wants it: encoded, if features are learnt
  // The x that the encoder makes of a row, in double, and a bound on the rounding of each number.
  struct Encoded {
    std::vector<double> x, error;
  };
  Encoded encoded(RowView row) const;
  // Empty if these are the metrics of the data, else what differs.
  std::string compare(const Metrics& metrics, const DataView& data) const;

 private:
  const Model& model_;
  std::vector<std::vector<float>> of_class_;
  double largest_weight_ = 0, largest_intercept_ = 0;
};

}  // namespace truemax::soak
