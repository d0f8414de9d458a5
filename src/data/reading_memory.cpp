#include "data/reading_memory.hpp"

#include <fmt/format.h>

namespace truemax {

UserError memory_error(const OverBudget& over, std::string_view path, std::uint64_t line,
                       std::string_view so_far, std::string_view advice) {
  return file_error(
      path, line,
      fmt::format("not enough memory to read on after {}: needs {}, {}", so_far, size_text(over.needed()),
                  over.given() ? fmt::format("--memory-limit is {}", size_text(over.limit()))
                               : fmt::format("{} available", size_text(over.limit()))),
      advice);
}

}  // namespace truemax
