// Some features of a block of W with a copy of its scales. Several threads each own some of the features, and
// each multiplies the scales as the others do: so their copies agree, and none waits for another.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/csr.hpp"
#include "weights/later_adds.hpp"
#include "weights/weights.hpp"

namespace truemax {

class BlockPart {
 public:
  // Features from ... end of a block.
  BlockPart(std::uint32_t block, std::size_t from, std::size_t end) : block_(block), from_(from), end_(end) {}

  std::uint32_t block() const { return block_; }

  // Copies the scales of w, and writes them back.
  void start(const Weights& w);
  void finish(Weights& w) const;

  // The smallest scale.
  double least_scale(const Weights& w) const;
  // Multiplies the scales into memory, here: scales are 1 from now on.
  void fold(Weights& w);
  // w of every lane += c[lane] x, at the latest in the next call of make_adds; x has only features of this
  // part, and stays where it is until then.
  void add(Weights& w, const RowView& x, const float* c);
  void make_adds(Weights& w) { later_->make(w); }
  // All weights *= factor, 0 <= factor <= 1.
  void scale(Weights& w, double factor);

  // For a caller that follows the scale itself. Whether all lanes have the same one; that one, without the
  // common factor of w; and what it has become.
  bool alike() const { return alike_; }
  double own_scale() const { return scale_[0]; }
  void set_own_scale(double scale) { scale_[0] = scale; }

 private:
  std::size_t lanes(const Weights& w) const;
  double scale_of(std::size_t lane) const { return alike_ ? scale_[0] : scale_[lane]; }
  void fold_lane(Weights& w, std::size_t lane);
  void compare(const Weights& w);

  std::uint32_t block_;
  std::size_t from_, end_;
  std::array<double, kLanes> scale_{};
  std::unique_ptr<LaterAdds> later_ = std::make_unique<LaterAdds>();
  bool alike_ = false;  // all lanes have the scale of the first, as is usual; the others are not kept
};

}  // namespace truemax
