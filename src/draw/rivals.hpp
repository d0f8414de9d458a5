// What a row remembers of a pass over all classes, for the CPU and for a GPU.
#pragma once

#include <cstdint>

#include "core/host_device.hpp"

namespace truemax {

// Adds a block to the `count` that a row remembers so far, unless its steps take it anyway: it is in the
// head, the label's own, or there already. Returns the new count.
TRUEMAX_HOST_DEVICE inline std::uint32_t add_rival(std::uint32_t* blocks, std::uint32_t count,
                                                   std::uint32_t head, std::uint32_t own,
                                                   std::uint32_t block) {
  if (block < head || block == own) return count;
  for (std::uint32_t i = 0; i < count; ++i)
    if (blocks[i] == block) return count;
  blocks[count] = block;
  return count + 1;
}

}  // namespace truemax
