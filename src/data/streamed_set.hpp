// Training data that stay in a cache: labels, weights and counts are in memory, features are read block by
// block and get the preprocessing of make_training_set() each time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "data/cache_file.hpp"
#include "data/dataset.hpp"
#include "data/options.hpp"

namespace truemax {

// Memory of a window of blocks, unless it is given or memory is short.
inline constexpr std::uint64_t kStreamWindow = std::uint64_t{64} << 20;

// The window that fits into the memory left: `asked` bytes; 0: kStreamWindow, or an eighth of what is left.
std::uint64_t stream_window(std::uint64_t asked, const MemoryBudget& memory);

// As make_training_set() of all rows of the cache. Throws UserError for data that cannot stream.
Dataset make_streamed_set(const std::shared_ptr<const CacheFile>& file, const PreprocessOptions& options,
                          std::uint64_t least_features, const std::string& class_weights,
                          std::uint64_t window_bytes, const std::shared_ptr<MemoryBudget>& memory,
                          std::size_t threads);

}  // namespace truemax
