// Vectorised pieces of the rows x blocks pass, dispatched at run time. A tile is the scores of some rows
// against one block: [rows][kLanes] double.
#pragma once

#include <array>
#include <cstddef>

#include "core/csr.hpp"
#include "weights/weights.hpp"

namespace truemax {

// The initial values and factors of a block's scores.
struct TileStart {
  TileStart(const Weights& w, std::size_t b);
  alignas(64) std::array<double, kLanes> intercept;
  alignas(64) std::array<double, kLanes> scale;
  bool scaled;  // otherwise every scale is 1
};

// tile[r][lane] = x_(first+r) . w_(lane of the block) + intercept. Bit for bit the same on every machine and
// in score().
void score_tile(CsrView rows, std::size_t first, std::size_t count, const float* block,
                const TileStart& start, double* tile);
// The tile of one row.
void score_row(RowView x, const float* block, const TileStart& start, double* z);

// The block's numbers in memory += c[lane] x.
void add_tile(RowView x, const double* c, float* block);

// Running log-sum-exp of rows: log of the sum of exp(z) seen so far is highest + log(sum).
// Adds a tile; writes the highest score of each tile row to tile_highest. Lanes from `lanes` on are masked
// (and set to the lowest double in the tile).
void accumulate_tile(double* tile, std::size_t count, std::size_t lanes, double* highest, double* sum,
                     double* tile_highest);

// log(x) for x >= 1: error below 1e-15 (1 + log(x)), 0 at 1.
void logs_of(const double* x, std::size_t count, double* out);

}  // namespace truemax
