// From a data file in any format to a cache (data/cache_file.hpp), in bounded memory.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/cache_format.hpp"
#include "data/options.hpp"

namespace truemax {

struct ConvertProgress {
  std::uint64_t rows = 0;
  double share = 0;  // of the input; 0: unknown
};

struct ConvertResult {
  CacheInfo info;
  std::vector<std::string> files;  // that were read
};

// `watch` is called after each batch of rows. `max_rows` 0: all. The file does not depend on
// `threads`.
ConvertResult convert_file(const std::string& from, const std::string& to, const ReadOptions& options,
                           std::uint64_t max_rows, std::size_t threads, std::vector<std::string>& notes,
                           const std::function<void(const ConvertProgress&)>& watch = {});

}  // namespace truemax
