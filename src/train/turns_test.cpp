// Steps in turns: each sees what the last earlier steps on its blocks and its row did, whichever threads take
// them.
#include "train/turns.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <vector>

#include "core/team.hpp"

namespace truemax {
namespace {

// Every block and row sees its steps in order, however the threads run. A step that is put back comes when
// all earlier ones are done.
TEST(Turns, KeepTheOrderOfConflictingSteps) {
  std::mt19937_64 random(1);
  for (const std::size_t members : {2U, 3U, 5U, 16U}) {
    constexpr std::size_t kBlocks = 12, kRows = 40, kSteps = 128;
    Team team(members);
    Progress progress(members);
    std::vector<Turns> turns;
    for (std::size_t m = 0; m < members; ++m) turns.emplace_back(m, members, kBlocks);
    const int batches = members > 5 ? 40 : 300;  // more threads than cores are slow
    for (int batch = 0; batch < batches; ++batch) {
      std::vector<std::vector<std::uint32_t>> blocks(kSteps);
      std::vector<ExampleId> rows(kSteps);
      std::vector<char> declined(kSteps), done(kSteps);
      progress.start();
      for (Turns& of_member : turns) of_member.start();
      for (std::size_t t = 0; t < kSteps; ++t) {
        rows[t] = static_cast<ExampleId>(random() % kRows);
        declined[t] = static_cast<char>(batch % 2 == 0 && random() % 16 == 0);
        for (std::size_t i = 0; i < 1 + random() % 3; ++i) {
          const auto b = static_cast<std::uint32_t>(random() % kBlocks);
          if (std::find(blocks[t].begin(), blocks[t].end(), b) == blocks[t].end()) blocks[t].push_back(b);
        }
        for (Turns& of_member : turns) of_member.add(&rows[t], blocks[t]);
      }
      // Not atomic: only the turns prevent two threads from writing to one of them at once.
      std::vector<std::vector<std::size_t>> of_block(kBlocks), of_row(kRows);
      team.run([&](std::size_t member) {
        while (!turns[member].all_done()) {
          const std::size_t i = turns[member].next(progress), t = member + i * members;
          if (turns[member].was_put_back(i)) {
            EXPECT_EQ(std::count(done.begin(), done.begin() + static_cast<std::ptrdiff_t>(t), 1),
                      static_cast<std::ptrdiff_t>(t));
          } else if (declined[t] != 0) {
            turns[member].put_back(i);
            continue;
          }
          for (const std::uint32_t b : blocks[t]) of_block[b].push_back(t);
          of_row[number_of(rows[t])].push_back(t);
          done[t] = 1;
          turns[member].done(i, progress);
        }
      });
      std::size_t seen = 0;
      for (const auto* lists : {&of_block, &of_row})
        for (const auto& list : *lists) {
          EXPECT_TRUE(std::is_sorted(list.begin(), list.end()));
          seen += list.size();
        }
      std::size_t there = kSteps;
      for (const auto& list : blocks) there += list.size();
      ASSERT_EQ(seen, there);
    }
  }
}

TEST(Turns, StepThatWaitsDoesNotHoldUpTheNext) {
  Progress progress(2);
  Turns even(0, 2, 3), odd(1, 2, 3);
  const std::vector<std::vector<std::uint32_t>> blocks{{0}, {0}, {2}, {1}, {2}, {1}};
  for (int batch = 0; batch < 2; ++batch) {  // what was said in the batch before does not count
    progress.start();
    for (Turns* turns : {&even, &odd}) {
      turns->start();
      for (const auto& b : blocks) turns->add(nullptr, b);
    }
    EXPECT_EQ(odd.next(progress), 1U);  // step 1 waits for step 0
    EXPECT_EQ(odd.next(progress), 1U);
    odd.done(1, progress);
    EXPECT_TRUE(progress.done(1, 1));
    EXPECT_FALSE(progress.done(1, 0));
    EXPECT_FALSE(progress.done_up_to(1, 1));
    EXPECT_EQ(odd.next(progress), 2U);  // which waited for step 3, of the same member
    odd.put_back(2);
    EXPECT_EQ(even.next(progress), 0U);
    even.done(0, progress);
    EXPECT_EQ(odd.next(progress), 0U);
    odd.done(0, progress);
    EXPECT_TRUE(progress.done_up_to(1, 1));
    for (const std::size_t i : {1U, 2U}) {
      EXPECT_EQ(even.next(progress), i);
      even.done(i, progress);
    }
    EXPECT_EQ(odd.next(progress), 2U);
    EXPECT_TRUE(odd.was_put_back(2));
    odd.done(2, progress);
    EXPECT_TRUE(even.all_done());
    EXPECT_TRUE(odd.all_done());
  }
}

// All steps have the same block. The others go on, also with a step that waits for all earlier ones.
TEST(Turns, MemberThatGivesUpLetsTheOthersFinish) {
  constexpr std::size_t kMembers = 4, kSteps = 64, kFails = 21;
  Team team(kMembers);
  Progress progress(kMembers);
  progress.start();
  std::vector<Turns> turns;
  for (std::size_t m = 0; m < kMembers; ++m) {
    turns.emplace_back(m, kMembers, 1);
    turns[m].start();
    for (std::size_t t = 0; t < kSteps; ++t) turns[m].add(nullptr, std::vector<std::uint32_t>{0});
  }
  std::atomic<std::size_t> taken{0};
  team.run([&](std::size_t member) {
    while (!turns[member].all_done()) {
      const std::size_t i = turns[member].next(progress), t = member + i * kMembers;
      if (t == kFails) {
        progress.give_up(member);
        return;
      }
      if (t % 10 == 0 && !turns[member].was_put_back(i)) {
        turns[member].put_back(i);
        continue;
      }
      ++taken;
      turns[member].done(i, progress);
    }
  });
  EXPECT_EQ(taken, kSteps - (kSteps - kFails + kMembers - 1) / kMembers);
}

}  // namespace
}  // namespace truemax
