// The scores of the drawn classes and Estimate in one kernel, for processors of compute capability 9.0.
#pragma once

#include "cuda/layer_products.hpp"
#include "cuda/layer_rows.hpp"

namespace truemax::cuda {

using ScoredRows = EstimatedRows<Bfloat16, true>;

// On the caller's stream. 0, kNotHere if the caller must do both in two steps, or the number of a CUDA
// error.
int score_rows(const ScoredRows& rows, void* stream, std::uint32_t processors);

}  // namespace truemax::cuda
