// Which row a step visits, and which steps may be done side by side.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "train/commuting.hpp"
#include "train/visit_order.hpp"

namespace truemax {
namespace {

std::vector<ExampleId> epoch_order(VisitOrder& order, std::uint64_t epoch, std::size_t rows) {
  order.start_epoch(epoch);
  std::vector<ExampleId> out(rows);
  order.fill(0, out);
  return out;
}

constexpr Visit kVisits[] = {Visit::random, Visit::shuffle, Visit::file};

TEST(VisitOrder, RowDependsOnlyOnSeedEpochAndStep) {
  for (const Visit visit : kVisits) {
    VisitOrder order(visit, 5, 1000), other(visit, 5, 1000);
    const std::vector<ExampleId> third = epoch_order(order, 3, 1000);
    epoch_order(other, 9, 1000);  // epochs may come in any order
    other.start_epoch(3);
    for (const std::size_t first : {0U, 1U, 127U, 128U, 501U, 999U}) {
      std::vector<ExampleId> part(std::min<std::size_t>(100, 1000 - first));
      other.fill(first, part);
      for (std::size_t t = 0; t < part.size(); ++t) ASSERT_EQ(part[t], third[first + t]) << first << ' ' << t;
    }
  }
}

// Chi-square over 50 cells, 100,000 steps: false alarm once in a million.
TEST(VisitOrder, RandomIsUniformAndDiffersByEpoch) {
  VisitOrder order(Visit::random, 7, 50);
  std::vector<std::vector<ExampleId>> epochs;
  for (std::uint64_t epoch = 0; epoch < 5; ++epoch) {
    const std::vector<ExampleId> rows = epoch_order(order, epoch, 100000);
    std::vector<double> count(50, 0);
    for (const ExampleId r : rows) {
      ASSERT_LT(number_of(r), 50U);
      ++count[number_of(r)];
    }
    double chi = 0;
    for (const double c : count) chi += (c - 2000) * (c - 2000) / 2000;
    EXPECT_LT(chi, 110);
    EXPECT_GT(chi, 15);  // repeated permutations would be too even
    for (const auto& before : epochs) EXPECT_NE(rows, before);
    epochs.push_back(rows);
  }
}

TEST(VisitOrder, ShuffleIsANewPermutationEachEpoch) {
  for (const std::size_t rows : {1U, 2U, 3U, 127U, 128U, 1000U}) {
    VisitOrder order(Visit::shuffle, 3, rows), other_seed(Visit::shuffle, 4, rows);
    std::vector<ExampleId> identity(rows);
    for (std::uint32_t i = 0; i < identity.size(); ++i) identity[i] = ExampleId{i};
    std::vector<std::vector<ExampleId>> epochs;
    for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
      const std::vector<ExampleId> visited = epoch_order(order, epoch, rows);
      std::vector<ExampleId> sorted = visited;
      std::sort(sorted.begin(), sorted.end());
      ASSERT_EQ(sorted, identity);
      if (rows >= 127) {
        EXPECT_NE(visited, identity);
        EXPECT_NE(visited, epoch_order(other_seed, epoch, rows));
        for (const auto& before : epochs) EXPECT_NE(visited, before);
      }
      epochs.push_back(visited);
    }
  }
}

// Chi-square over the 24 orders of 4 rows, 24,000 epochs: 23 degrees of freedom, false alarm once in a
// million.
TEST(VisitOrder, ShuffleIsUniformOverPermutations) {
  VisitOrder order(Visit::shuffle, 11, 4);
  std::map<std::vector<ExampleId>, double> count;
  for (std::uint64_t epoch = 0; epoch < 24000; ++epoch) ++count[epoch_order(order, epoch, 4)];
  ASSERT_EQ(count.size(), 24U);
  double chi = 0;
  for (const auto& [permutation, c] : count) chi += (c - 1000) * (c - 1000) / 1000;
  EXPECT_LT(chi, 72);
}

TEST(VisitOrder, ShuffleKeepsGroupsTogether) {
  std::vector<RowId> group_of;
  for (std::uint32_t g = 0; g < 40; ++g) group_of.insert(group_of.end(), 1 + g % 4, RowId{3 * g});
  const std::size_t rows = group_of.size();
  VisitOrder order(Visit::shuffle, 3, rows, 8, group_of);
  const std::vector<ExampleId> first = epoch_order(order, 0, rows), second = epoch_order(order, 1, rows);
  EXPECT_NE(first, second);
  EXPECT_EQ(epoch_order(order, 0, rows), first);
  std::vector<bool> seen(rows, false);
  std::size_t changes = 0;
  for (std::size_t t = 0; t < rows; ++t) {
    const std::size_t i = number_of(first[t]);
    EXPECT_FALSE(seen[i]);
    seen[i] = true;
    if (t > 0 && group_of[i] == group_of[number_of(first[t - 1])])
      EXPECT_EQ(i, number_of(first[t - 1]) + 1);
    else
      ++changes;
  }
  EXPECT_EQ(changes, 40U);
  EXPECT_EQ(VisitOrder::grouping_bytes(group_of), 40 * sizeof(std::uint32_t));
}

// Epochs in turn, again from a later one, and one that was not made ahead.
TEST(VisitOrder, LookingAheadChangesNothing) {
  constexpr std::size_t kRows = 20000;
  constexpr std::size_t kAll = 40 + 313;  // 512 rows put in place at a time, then 64 swapped
  std::vector<RowId> group_of(kRows);
  for (std::size_t i = 0; i < kRows; ++i) group_of[i] = static_cast<RowId>(i / 3);
  for (const bool grouped : {false, true}) {
    const std::span<const RowId> groups =
        grouped ? std::span<const RowId>(group_of) : std::span<const RowId>();
    VisitOrder order(Visit::shuffle, 3, kRows, 1, groups), ahead(Visit::shuffle, 3, kRows, 1, groups);
    VisitOrder in_pieces(Visit::shuffle, 3, kRows, 1, groups);
    ahead.look_ahead(100);
    in_pieces.look_ahead(100, VisitOrder::Maker::caller);
    std::uint64_t last = 100;
    for (const std::uint64_t epoch : {0U, 1U, 2U, 7U, 8U, 8U, 3U}) {
      EXPECT_EQ(epoch_order(ahead, epoch, kRows), epoch_order(order, epoch, kRows)) << epoch;
      EXPECT_EQ(epoch_order(in_pieces, epoch, kRows), epoch_order(order, epoch, kRows)) << epoch;
      // None of the next one, some, and all.
      std::size_t pieces = 0;
      while (pieces < 100 * epoch && in_pieces.make_some()) ++pieces;
      const bool again = std::exchange(last, epoch) == epoch;  // nothing was left
      EXPECT_EQ(pieces, grouped || again ? 0 : std::min<std::size_t>(100 * epoch, kAll)) << epoch;
    }
  }
}

TEST(VisitOrder, FileKeepsTheOrderOfTheRows) {
  VisitOrder order(Visit::file, 3, 500);
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    const std::vector<ExampleId> rows = epoch_order(order, epoch, 500);
    for (std::uint32_t i = 0; i < 500; ++i) ASSERT_EQ(number_of(rows[i]), i);
  }
}

// Steps with their rows and classes.
struct Steps {
  std::vector<ExampleId> rows;
  std::vector<ClassId> labels, drawn;

  Steps(std::mt19937_64& random, std::size_t count, std::uint32_t row_count, std::uint32_t classes) {
    std::uniform_int_distribution<std::uint32_t> row(0, row_count - 1), any(0, classes - 1),
        other(1, classes - 1);
    for (std::size_t t = 0; t < count; ++t) {
      rows.push_back(ExampleId{row(random)});
      labels.push_back(any(random));
      drawn.push_back((labels.back() + other(random)) % classes);
    }
  }
};

struct Cells {
  std::map<ExampleId, std::uint64_t> of_row;
  std::map<ClassId, std::uint64_t> of_class;
  bool operator==(const Cells&) const = default;
};

struct Written {
  std::uint64_t row, label, drawn;
};

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  return (a ^ (b + 0x9E3779B97F4A7C15ULL + (a << 6) + (a >> 2))) * 0xD6E8FEB86659FD93ULL;
}

// What step t writes to its three cells. Every result depends on all three, so swapping two steps that share
// a cell changes the result.
Written toy_step(Cells& cells, const Steps& steps, std::size_t t) {
  const std::uint64_t r = cells.of_row[steps.rows[t]], y = cells.of_class[steps.labels[t]],
                      k = cells.of_class[steps.drawn[t]];
  const std::uint64_t all = mix(mix(mix(r, y), k), t);
  return {mix(all, 1), mix(all, 2), mix(all, 3)};
}

void put(Cells& cells, const Steps& steps, std::size_t t, const Written& w) {
  cells.of_row[steps.rows[t]] = w.row;
  cells.of_class[steps.labels[t]] = w.label;
  cells.of_class[steps.drawn[t]] = w.drawn;
}

// Takes all steps in groups, each side by side: all read, then all write. Returns the lengths of the groups.
std::vector<std::size_t> expect_sequential(CommutingGroups& groups, const Steps& steps,
                                           std::size_t group_size) {
  const std::size_t count = steps.rows.size();
  Cells one_by_one, side_by_side;
  for (std::size_t t = 0; t < count; ++t) put(one_by_one, steps, t, toy_step(one_by_one, steps, t));

  std::vector<int> done(count, 0);
  std::vector<std::size_t> lengths;
  std::array<std::uint8_t, 16> group{};
  groups.start(count);
  while (!groups.empty()) {
    const std::size_t length =
        groups.next(steps.rows.data(), steps.labels.data(), steps.drawn.data(), {group.data(), group_size});
    EXPECT_GE(length, 1U);
    EXPECT_LE(length, group_size);
    if (length == 0) break;
    std::vector<Written> written;
    for (std::size_t g = 0; g < length; ++g) written.push_back(toy_step(side_by_side, steps, group[g]));
    for (std::size_t g = 0; g < length; ++g) {
      ++done[group[g]];
      put(side_by_side, steps, group[g], written[g]);
    }
    lengths.push_back(length);
  }
  EXPECT_EQ(
      groups.next(steps.rows.data(), steps.labels.data(), steps.drawn.data(), {group.data(), group_size}),
      0U);
  EXPECT_EQ(done, std::vector<int>(count, 1)) << "every step exactly once";
  EXPECT_EQ(side_by_side, one_by_one);
  return lengths;
}

TEST(CommutingGroups, MatchSequentialStepsExactly) {
  std::mt19937_64 random(1);
  CommutingGroups groups;
  for (const std::uint32_t classes : {2U, 3U, 5U, 20U, 100U, 1000U, 1000000U})
    for (const std::uint32_t rows : {1U, 5U, 100U, 100000U})
      for (const std::size_t count : {1U, 2U, 7U, 31U, 33U, 100U, 128U})
        for (const std::size_t group_size : {1U, 2U, 8U, 16U})
          expect_sequential(groups, Steps(random, count, rows, classes), group_size);
}

// Groups are numbered in 16 bits: wrap around more than once.
TEST(CommutingGroups, SurviveCounterWraparound) {
  std::mt19937_64 random(2);
  CommutingGroups groups;
  std::size_t made = 0;
  while (made < 140000) made += expect_sequential(groups, Steps(random, 128, 50, 4), 8).size();
}

// A stale mark must not be taken for one of this group: the step would wait forever.
TEST(CommutingGroups, TakeTheFirstStepDespiteStaleMarks) {
  const ExampleId row{3};
  const ClassId label = 5, drawn = 9;
  for (int between = 65530; between < 65540; ++between) {
    CommutingGroups groups;
    std::array<std::uint8_t, 8> group{};
    groups.start(1);
    ASSERT_EQ(groups.next(&row, &label, &drawn, group), 1U);
    for (int i = 0; i < between; ++i)
      groups.next(&row, &label, &drawn, group);  // nothing left: only the counter advances
    groups.start(1);
    ASSERT_EQ(groups.next(&row, &label, &drawn, group), 1U) << between;
    EXPECT_TRUE(groups.empty());
  }
}

TEST(CommutingGroups, AreFullForDisjointSteps) {
  CommutingGroups groups;
  std::mt19937_64 random(3);
  std::size_t steps = 0, made = 0;
  for (int i = 0; i < 200; ++i) {
    made += expect_sequential(groups, Steps(random, 128, 10000000, 10000000), 8).size();
    steps += 128;
  }
  EXPECT_LT(static_cast<double>(made), static_cast<double>(steps) / 8 * 1.1);
}

TEST(CommutingGroups, AreSingleStepsIfAllShareAClass) {
  CommutingGroups groups;
  std::mt19937_64 random(4);
  for (const std::size_t length : expect_sequential(groups, Steps(random, 128, 1000, 2), 8))
    EXPECT_EQ(length, 1U);
}

}  // namespace
}  // namespace truemax
