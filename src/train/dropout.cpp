#include "train/dropout.hpp"

#include <algorithm>
#include <cmath>

#include "weights/dense.hpp"

namespace truemax {
namespace {
constexpr std::size_t kDroppedRows = 8;  // a task of a thread
}

// A block of random bits decides for 16 numbers, 16 bits each.
void Dropout::draw(std::uint64_t step, float* x, std::size_t rows, std::size_t columns, Team& team) {
  if (none()) return;
  const CounterRandom random(seed_, Stream::dropout, step);
  const auto dropped = static_cast<std::uint64_t>(std::lround(rate_ * 65536));
  team.share_chunks(rows, kDroppedRows, [&](std::size_t /*member*/, std::size_t r) {
    std::uint8_t* const kept = kept_.data() + r * columns;
    for (std::size_t c = 0; c < columns; c += 16) {
      const CounterRandom::Block block = random.at(r, (salt_ << 32) + c / 16);
      const std::uint64_t words[4] = {block.first, block.second, block.third, block.fourth};
      for (std::size_t i = 0; i < std::min<std::size_t>(16, columns - c); ++i)
        kept[c + i] = ((words[i / 4] >> (16 * (i % 4))) & 0xFFFF) >= dropped ? 1 : 0;
    }
    keep_some(x + r * columns, kept, factor_, columns);
  });
}

void Dropout::apply(float* x, std::size_t rows, std::size_t columns, Team& team) const {
  if (none()) return;
  team.share_chunks(rows, kDroppedRows,
                    [&](std::size_t /*member*/, std::size_t r) { apply_to(x, r, r + 1, columns); });
}

void Dropout::apply_to(float* x, std::size_t first, std::size_t end, std::size_t columns) const {
  if (none()) return;
  keep_some(x + first * columns, kept_.data() + first * columns, factor_, (end - first) * columns);
}

}  // namespace truemax
