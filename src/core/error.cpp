#include "core/error.hpp"

#include <fmt/format.h>

namespace truemax {

UserError file_error(std::string_view path, std::uint64_t line, std::string_view found,
                     std::string_view advice) {
  std::string where(path);
  if (line > 0) where += fmt::format(":{}", line);
  return UserError(fmt::format("{}: {}; {}", where, found, advice));
}

}  // namespace truemax
