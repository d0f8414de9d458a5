// Exact evaluation that also tells the loss of every row. For this folder.
#pragma once

#include <vector>

#include "evaluate/evaluate.hpp"

namespace truemax {

// `row_loss`, where it is wanted, has a place for each row of `data`: it gets the sum over the row's examples
// of weight x loss.
std::optional<Metrics> evaluate_rows(const Weights& weights, const DataView& data, std::size_t threads,
                                     const std::atomic<bool>* stop, const RowWatch& watch,
                                     std::vector<double>* row_loss);

}  // namespace truemax
