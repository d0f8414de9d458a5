#include "solve/prox_guess.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "core/instruction_sets.hpp"

namespace truemax {
namespace {

TEST(ProxGuess, HasTheBitsOfASingleSearch) {
  constexpr std::size_t kRows = 1001;
  std::mt19937_64 random(3);
  const auto power = [&](double low, double high) {
    return std::pow(10, std::uniform_real_distribution<double>(low, high)(random));
  };
  for (const double inverse_rho : {0.0, 0.01, 1.0, 30.0, 1e6, 1e14}) {
    ProxGuesses guesses;
    guesses.reserve(kRows);
    for (std::size_t i = 0; i < kRows; ++i) {
      const double sum = power(-29, 18);
      guesses.add(power(-12, 12), 1 + power(-6, 0) * inverse_rho, power(-8, 8), sum,
                  sum * sum * power(-6, 0));
    }
    ProxGuesses again = guesses;
    for (const std::int64_t set : instruction_sets()) {
      const OnInstructionSet here(set);
      again.find(inverse_rho);
      for (std::size_t i = 0; i < kRows; ++i) {
        const ProxSearch<DoubleMath> alone(guesses.equation(i, inverse_rho));
        ASSERT_EQ(again.y(i), alone.y()) << i << ' ' << inverse_rho;
        ASSERT_EQ(again.g(i), alone.g()) << i << ' ' << inverse_rho;
        ASSERT_EQ(again.common(i), alone.common()) << i << ' ' << inverse_rho;
      }
    }
  }
}

// guess_prox() fills whole vectors, so that arrays have room for them.
TEST(ProxGuess, TakesAnyNumberOfRows) {
  for (std::size_t rows = 0; rows < 20; ++rows) {
    ProxGuesses guesses;
    guesses.reserve(rows);
    for (std::size_t i = 0; i < rows; ++i) guesses.add(1, 2, 1, static_cast<double>(i + 1), 1);
    guesses.find(1);
    for (std::size_t i = 0; i < rows; ++i)
      EXPECT_EQ(guesses.common(i), ProxSearch<DoubleMath>(guesses.equation(i, 1)).common());
  }
}

}  // namespace
}  // namespace truemax
