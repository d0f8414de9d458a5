// Exact evaluation that also returns the loss of every row. Internal to this folder.
#pragma once

#include <vector>

#include "device/engine.hpp"
#include "evaluate/evaluate.hpp"

namespace truemax {

// `row_loss` may be null; else it has an entry for each row of `data`, to which the sum of weight x loss over
// the row's examples is added.
// `device`: has the model, and makes the passes; null: the CPU, with `weights`.
std::optional<Metrics> evaluate_rows(const Weights& weights, const DataView& data, std::size_t threads,
                                     const std::atomic<bool>* stop, const RowWatch& watch,
                                     std::vector<double>* row_loss, device::Passer* device = nullptr);

}  // namespace truemax
