// The state that a run starts from.
#include "train/start.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "train/require.hpp"
#include "train/test_support.hpp"

namespace truemax {
namespace {

// With the intercept started at the class frequencies and W = 0, u is the row's exact normaliser.
TEST(StartAtFrequencies, IsTheClassFrequencyModel) {
  Dataset data = random_data({.rows = 500, .classes = 12, .features = 40});
  std::vector<std::string> names;
  std::vector<double> counts;
  for (int k = 0; k < 12; ++k) names.push_back(std::to_string(k)), counts.push_back(1 + k * k);
  data.classes = std::make_shared<ClassList>(names, counts);
  Recipe options = options_of("prox", 5);
  options.intercept = options.start_at_frequencies = true;
  const RunState state = make_state(data, options);
  double total = 0, loss = 0;
  for (ClassId k = 0; k < 12; ++k) total += data.classes->count(k);
  for (std::size_t i = 0; i < data.size(); ++i) {
    const double expected = -std::log(data.classes->count(data.label[i]) / total);
    EXPECT_NEAR(state.rows[i].u, expected, 1e-6);
    loss += expected / static_cast<double>(data.size());
  }
  EXPECT_NEAR(evaluate(state.weights, data, 1)->log_loss, loss, 1e-6);
  options.intercept = false;
  EXPECT_THROW(require_possible(options), UserError);
}

}  // namespace
}  // namespace truemax
