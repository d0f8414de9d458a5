#include "ranks/together.hpp"

#include <string>

#include "core/error.hpp"

namespace truemax {
namespace {

// What the user is told; empty: nothing went wrong.
std::string error_of(const std::function<void()>& work) {
  try {
    work();
    return "";
  } catch (const UserError& error) {
    const std::string text = error.what();
    return text.empty() ? "an error without words" : text;
  }
}

}  // namespace

void together(Ranks& ranks, const std::function<void()>& work) {
  if (ranks.alone()) return work();
  const std::string own = error_of(work);
  // The first rank with an error: the one with the largest number from the end.
  const auto size = static_cast<double>(ranks.size());
  const double found = ranks.max_of(own.empty() ? 0.0 : size - static_cast<double>(ranks.rank()));
  if (found == 0) return;
  const std::string error = ranks.broadcast_text(own, static_cast<std::size_t>(size - found));
  throw UserError(error);
}

}  // namespace truemax
