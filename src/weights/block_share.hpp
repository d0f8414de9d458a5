// Which blocks of 16 classes a rank owns. Blocks are dealt out like cards: each round gives every rank one of
// the next P blocks, which are those of falling label mass, and the rank with the least mass so far gets the
// heaviest. So ranks have equally many blocks, equally many of any head, and about equal label mass.
//
// A rank numbers its blocks in their order: its Weights are ordinary ones of so many classes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/types.hpp"

namespace truemax {

class BlockShare {
 public:
  BlockShare() = default;
  // mass: by class, of all K of them.
  BlockShare(std::span<const double> mass, std::size_t rank, std::size_t ranks);

  std::size_t ranks() const { return ranks_; }
  std::size_t all_classes() const { return classes_; }
  std::size_t all_blocks() const { return owner_.size(); }
  std::size_t blocks() const { return own_.size(); }         // of this rank
  std::size_t classes() const { return classes_of(rank_); }  // of this rank
  std::size_t classes_of(std::size_t rank) const;

  // Of a block of the whole.
  std::size_t owner(std::size_t block) const { return owner_[block]; }
  bool owns(std::size_t block) const { return owner_[block] == rank_; }
  std::size_t local(std::size_t block) const { return block / ranks_; }  // its number with its owner
  // The number in the whole of a block of this rank, or of any.
  std::size_t global(std::size_t local) const { return own_[local]; }
  std::size_t global(std::size_t rank, std::size_t local) const;

  bool owns_class(ClassId k) const { return owns(k / kBlockClasses); }
  ClassId local_class(ClassId k) const {
    return static_cast<ClassId>(local(k / kBlockClasses) * kBlockClasses + k % kBlockClasses);
  }
  ClassId global_class(ClassId local) const {
    return static_cast<ClassId>(global(local / kBlockClasses) * kBlockClasses + local % kBlockClasses);
  }

  static std::uint64_t bytes(std::uint64_t classes) {
    return classes / kBlockClasses * 3 * sizeof(std::uint32_t);
  }
  // The most classes that a rank gets.
  static std::size_t most_classes(std::size_t classes, std::size_t ranks);

 private:
  std::size_t classes_ = 0, rank_ = 0, ranks_ = 1;
  std::vector<std::uint32_t> owner_;  // by block
  std::vector<std::uint32_t> own_;    // by local block
};

}  // namespace truemax
