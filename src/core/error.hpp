// Errors. A user's error is an exception whose message says where, what was found and what to do; it is
// turned into an exit code once, in the command line. A bug is an assertion.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace truemax {

// Bad input or a wrong option: exit code 2. The message ends with what to do next.
class UserError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The method diverged beyond the range of double: exit code 3. The last good model is kept.
class DivergenceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// "path:line: found; advice". line = 0 omits the line.
UserError file_error(std::string_view path, std::uint64_t line, std::string_view found,
                     std::string_view advice);

}  // namespace truemax
