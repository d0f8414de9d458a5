// Scores of all classes of some rows, for callers that want every one of them.
#pragma once

#include <cstddef>
#include <span>

#include "core/csr.hpp"
#include "weights/weights.hpp"

namespace truemax {

// out: [rows][K], by class; each is score() of weights/kernels.hpp, bit for bit.
void all_scores(const Weights& weights, CsrView rows, std::size_t threads, std::span<double> out);

}  // namespace truemax
