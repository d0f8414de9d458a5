// softmax_pass() where each rank has a part of W: every rank passes the rows over its own blocks, then the
// results are merged. All ranks call these functions with the same rows and get the same result.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/csr.hpp"
#include "ranks/ranks.hpp"
#include "weights/pass.hpp"
#include "weights/weights.hpp"

namespace truemax {

// `own`: has a share. Classes of options.tie_rank and of the result are those of the whole model. If `stop`
// was raised for any rank, the result is complete for none.
void pass_over_ranks(Ranks& ranks, const Weights& own, CsrView rows, const PassOptions& options,
                     PassResult& result);

// The scores of some classes of the whole model: score[i] = z of class label[i] for row row[i].
std::vector<double> scores_over_ranks(Ranks& ranks, const Weights& own, CsrView rows,
                                      std::span<const std::uint32_t> row, std::span<const ClassId> label);

}  // namespace truemax
