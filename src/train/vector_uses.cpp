#include "train/vector_uses.hpp"

namespace truemax {

// By counting: add() has counted already.
void VectorUses::sort_by_vector() {
  for (std::size_t p = 0; p < vectors_.size(); ++p) begin_[p + 1] += begin_[p];
  uses_.resize(added_.size());
  for (const Added& a : added_) uses_[begin_[a.place]++] = a.use;
  for (std::size_t p = vectors_.size(); p > 0; --p) begin_[p] = begin_[p - 1];
  begin_[0] = 0;
}

}  // namespace truemax
