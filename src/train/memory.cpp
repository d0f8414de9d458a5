#include "train/memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/error.hpp"
#include "core/files.hpp"
#include "weights/weights.hpp"

namespace truemax {

std::uint64_t MemoryPlan::total() const {
  std::uint64_t sum = 0;
  for (const std::uint64_t part : {weights, rows, data, evaluation, best})
    if (__builtin_add_overflow(sum, part, &sum)) return std::numeric_limits<std::uint64_t>::max();
  return sum;
}

std::string MemoryPlan::to_text() const {
  return fmt::format("{} (weights {}, row states {}, data {}, evaluation and program {}{}) of {}",
                     size_text(total()), size_text(weights), size_text(rows), size_text(data),
                     size_text(evaluation), best > 0 ? fmt::format(", best weights {}", size_text(best)) : "",
                     size_text(there));
}

void MemoryPlan::require() const {
  if (fits()) return;
  MemoryPlan others = *this;
  others.weights = others.best = 0;
  const std::uint64_t left = others.total() < there ? there - others.total() : 0;
  if (left == 0)
    throw UserError(fmt::format(
        "not enough memory: this run needs {} available, which is too much even without its weights; {}, or "
        "raise --memory-limit to try anyway",
        to_text(),
        streamed
            ? "give a smaller --stream-window, of which two are held"
            : "stream the rows from a cache (truemax convert --help), train on fewer of them (--max-rows)"));
  const char* const less = streamed ? "classes" : "classes or rows (--max-rows)";
  if (hidden > 0)
    throw UserError(fmt::format(
        "not enough memory: this run needs {} available, because {} classes and {} features have {} learnt "
        "numbers each, with a running mean of their gradients; {}give a smaller --hidden{}, {}train on "
        "fewer {}, or raise --memory-limit to try anyway",
        to_text(), classes, features, hidden, more_ranks,
        fmt::format(" ({} would fit)",
                    std::max<std::uint64_t>(1, left / (12 * own_classes + 8 * own_vectors))),
        fewer, less));
  const std::uint64_t buckets = Weights::features_that_fit(own_classes, left / copies);
  const std::string fits = buckets > 0 ? fmt::format("--hash-features {} would fit", buckets)
                                       : "though with so many classes not even one bucket fits";
  throw UserError(fmt::format(
      "not enough memory: this run needs {} available, because {} classes x {} features, in blocks of 16 "
      "classes, are {} weights of 4 bytes{}; {}{}hash them into fewer "
      "buckets ({}), train on fewer {}, or raise --memory-limit to try anyway",
      to_text(), classes, features, (classes + kLanes - 1) / kLanes * kLanes * features,
      copies > 3   ? fmt::format(", {} times", copies)
      : copies > 2 ? ", three times"
      : copies > 1 ? ", twice"
                   : "",
      more_ranks, fewer, fits, less));
}

}  // namespace truemax
