#include "weights/embedding.hpp"

#include <cmath>
#include <numbers>

#include "core/parallel.hpp"
#include "core/random.hpp"

namespace truemax {

void fill_normal(Embedding& table, double deviation, std::uint64_t seed, std::size_t threads) {
  const CounterRandom random(seed, Stream::embedding, 0);
  constexpr std::size_t kChunk = 256;  // rows
  parallel_for((table.rows + kChunk - 1) / kChunk, threads, [&](std::size_t chunk) {
    for (std::size_t r = chunk * kChunk; r < std::min(table.rows, (chunk + 1) * kChunk); ++r)
      for (std::size_t c = 0; c < table.columns; c += 4) {
        const CounterRandom::Block words = random.at(r, c / 4);
        const std::uint64_t of[4] = {words.first, words.second, words.third, words.fourth};
        for (std::size_t i = 0; i < 4 && c + i < table.columns; ++i) {
          // Box and Muller: a length and an angle give two numbers.
          const std::size_t pair = i / 2 * 2;
          const double length = std::sqrt(-2 * std::log1p(-uniform_unit(of[pair])));
          const double angle = 2 * std::numbers::pi * uniform_unit(of[pair + 1]);
          table.row(r)[c + i] =
              static_cast<float>(deviation * length * (i % 2 == 0 ? std::cos(angle) : std::sin(angle)));
        }
      }
  });
}

}  // namespace truemax
