// The sizes of features: what adam and lbfgs measure weights in.
#pragma once

#include <string_view>
#include <vector>

#include "data/data_view.hpp"

namespace truemax {

// The sizes of the features of a problem: the root mean square of their values that are not 0.
struct FeatureUnits {
  FeatureUnits(const DataView& data, std::size_t threads);

  // The largest weight with which no score leaves float32.
  double most_weight(bool intercept) const;

  std::vector<float> inverse;                  // 1/size, by feature; 1 if it is never seen
  std::vector<float> share;                    // of the rows that have the feature; 1 if none has
  double most_inverse = 0;                     // of those that are seen
  double largest = 0, longest = 0;             // |x_f|, sum of |x_f| of a row
  double mean_weight = 1, largest_weight = 1;  // of the rows
};

// Whether sums of gradients, and the length of a row, stay in float32.
bool features_fit(const FeatureUnits& units);
// And whether the bound on all scores leaves room for the weights that the smallest feature needs.
bool features_fit_beside(const FeatureUnits& units, bool intercept);
// Throws DivergenceError if features_fit() does not hold.
void require_features_fit(const FeatureUnits& units, std::string_view method);

}  // namespace truemax
