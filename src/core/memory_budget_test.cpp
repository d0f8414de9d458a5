#include "core/memory_budget.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <utility>
#include <vector>

namespace truemax {
namespace {

constexpr std::uint64_t kMega = std::uint64_t{1} << 20;

TEST(MemoryBudget, ChargesAddUpToTheLimit) {
  const auto budget = std::make_shared<MemoryBudget>(100 * kMega);
  MemoryCharge a(budget, 60 * kMega), b(budget);
  b.set(40 * kMega);
  EXPECT_EQ(budget->held(), 100 * kMega);
  EXPECT_EQ(budget->left(), 0U);
  EXPECT_THROW(b.add(1), OverBudget);
  EXPECT_EQ(b.bytes(), 40 * kMega) << "a refused charge is unchanged";
  a.set(50 * kMega);
  b.add(10 * kMega);
  EXPECT_EQ(budget->held(), 100 * kMega);
}

TEST(MemoryBudget, ErrorStatesNeededAndLimit) {
  const auto budget = std::make_shared<MemoryBudget>(100 * kMega);
  const MemoryCharge a(budget, 70 * kMega);
  try {
    const MemoryCharge b(budget, 50 * kMega);
    FAIL() << "charged more than the limit";
  } catch (const OverBudget& over) {
    EXPECT_EQ(over.needed(), 120 * kMega);
    EXPECT_EQ(over.limit(), 100 * kMega);
    EXPECT_TRUE(over.given());
  }
  EXPECT_EQ(budget->held(), 70 * kMega) << "a holder that was never constructed is not charged";
}

TEST(MemoryBudget, DestroyingAChargeReturnsItsBytes) {
  const auto budget = std::make_shared<MemoryBudget>(100 * kMega);
  {
    const MemoryCharge a(budget, 100 * kMega);
    EXPECT_EQ(budget->held(), 100 * kMega);
  }
  EXPECT_EQ(budget->held(), 0U);
  MemoryCharge a(budget, 30 * kMega), b(budget, 20 * kMega);
  b = std::move(a);
  EXPECT_EQ(budget->held(), 30 * kMega) << "an overwritten holder returns its charge";
  const MemoryCharge copy(b);
  EXPECT_EQ(budget->held(), 30 * kMega);
  EXPECT_EQ(copy.bytes(), 0U);
}

TEST(MemoryBudget, RefusesASumThatOverflows) {
  const auto budget = std::make_shared<MemoryBudget>(100 * kMega);
  const MemoryCharge a(budget, kMega);
  MemoryCharge b(budget);
  EXPECT_THROW(b.set(~std::uint64_t{0}), OverBudget);
}

TEST(MemoryBudget, TinyLimitStillGrantsTheMinimum) {
  const auto budget = std::make_shared<MemoryBudget>(1);
  MemoryCharge a(budget, MemoryBudget::kLeast);
  EXPECT_THROW(a.add(1), OverBudget);
}

TEST(MemoryBudget, WithoutALimitFollowsFreeMemory) {
  std::uint64_t free = 1000 * kMega;
  int looks = 0;
  const auto budget = std::make_shared<MemoryBudget>(0, [&] {
    ++looks;
    return free;
  });
  MemoryCharge a(budget);
  for (std::uint64_t megas = 1; megas <= 400; ++megas) a.set(megas * kMega);
  EXPECT_LE(looks, 8) << "free memory is not read at every charge";
  free = 10 * kMega;  // other processes took the rest
  EXPECT_THROW(a.set(800 * kMega), OverBudget);
  free = 1000 * kMega;  // and returned it
  a.set(800 * kMega);
  EXPECT_EQ(budget->held(), 800 * kMega);
}

TEST(MemoryBudget, UnknownFreeMemoryRefusesNothing) {
  const auto budget = std::make_shared<MemoryBudget>(0, [] { return ~std::uint64_t{0}; });
  MemoryCharge a(budget, std::uint64_t{1} << 50);
  a.add(std::uint64_t{1} << 50);
  EXPECT_EQ(budget->held(), std::uint64_t{1} << 51);
}

TEST(MemoryBudget, ConcurrentChargesStayWithinTheLimit) {
  const auto budget = std::make_shared<MemoryBudget>(100 * kMega);
  std::vector<std::thread> threads;
  std::vector<MemoryCharge> charges(4);
  for (MemoryCharge& charge : charges) {
    charge = MemoryCharge(budget);
    threads.emplace_back([&charge] {
      try {
        while (true) charge.add(4096);
      } catch (const OverBudget&) {
        return;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::uint64_t sum = 0;
  for (const MemoryCharge& charge : charges) sum += charge.bytes();
  EXPECT_EQ(sum, 100 * kMega);
  EXPECT_EQ(budget->held(), sum);
}

}  // namespace
}  // namespace truemax
