// Arrays with equally many numbers for each class, saved and loaded in the order of the classes of the whole
// model, whichever rank has them: a saved state does not depend on the number of ranks. Ranks other than the
// first write nothing themselves and send what they own, piece by piece. All ranks read the same stream and
// keep what they own.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <vector>

#include "core/state_stream.hpp"
#include "core/types.hpp"
#include "ranks/ranks.hpp"
#include "weights/block_share.hpp"

namespace truemax {

// Of a rank's own blocks, one after the other: copies bytes from `at` on.
using ReadOwn = std::function<void(std::uint64_t at, std::span<char> to)>;
using StoreOwn = std::function<void(std::uint64_t at, std::span<const char> from)>;

// block_bytes: of a block; the last one of all_bytes may be shorter. `share`: null: all blocks are own.
void put_blocks(StateSink& to, const BlockShare* share, std::uint64_t block_bytes, std::uint64_t all_bytes,
                const ReadOwn& own);
// `checked`: sees every byte, in pieces of whole numbers, so that what it throws is thrown on all ranks.
void get_blocks(StateSource& from, const BlockShare* share, std::uint64_t block_bytes,
                std::uint64_t all_bytes, const StoreOwn& own,
                const std::function<void(std::span<const char>)>& checked = {});

// Classes of the whole model, of which `own` are this rank's; padded: to whole blocks.
inline std::uint64_t all_of(const BlockShare* share, std::uint64_t own, bool padded) {
  if (share == nullptr) return own;
  return padded ? share->all_blocks() * kBlockClasses : share->all_classes();
}

// Of one rank: its classes, padded or not.
inline std::uint64_t own_of(const BlockShare& share, bool padded) {
  return padded ? share.blocks() * kBlockClasses : share.classes();
}

// As StateSink::put_array and StateSource::get_array, of an array with equally many numbers for each class
// (of all ranks, or of none; a rank may have no classes). get: whether there are any.
template <class T>
void put_of_classes(StateSink& to, const BlockShare* share, std::span<const T> own, bool padded = false) {
  if (share == nullptr) return to.put_array(own);
  const std::uint64_t classes = own_of(*share, padded);
  const std::uint64_t own_each = classes == 0 ? 0 : own.size() / classes;
  const auto each = static_cast<std::uint64_t>(ranks().max_of(static_cast<double>(own_each)));
  const std::uint64_t numbers = all_of(share, classes, padded) * each;
  to.put(numbers);
  if (numbers == 0) return;
  const auto* const from = reinterpret_cast<const char*>(own.data());
  put_blocks(
      to, share, kBlockClasses * each * sizeof(T), numbers * sizeof(T),
      [&](std::uint64_t at, std::span<char> piece) { std::memcpy(piece.data(), from + at, piece.size()); });
}

template <class T, class Allocator>
bool get_of_classes(StateSource& from, const BlockShare* share, std::vector<T, Allocator>& own,
                    bool padded = false) {
  if (share == nullptr) {
    from.get_array(own);
    return !own.empty();
  }
  const std::uint64_t length = from.length_of<T>(), all = all_of(share, 0, padded);
  if (all == 0 || length % all != 0) throw damaged_state();
  const std::uint64_t each = length / all;
  own.resize(own_of(*share, padded) * each);
  if (each == 0) return false;
  auto* const to = reinterpret_cast<char*>(own.data());
  get_blocks(from, share, kBlockClasses * each * sizeof(T), length * sizeof(T),
             [&](std::uint64_t at, std::span<const char> piece) {
               std::memcpy(to + at, piece.data(), piece.size());
             });
  return true;
}

}  // namespace truemax
