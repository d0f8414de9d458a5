// The float32 kernels over whole blocks, on every instruction set, against kernels.hpp.
#include "weights/blocks.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "weights/kernels.hpp"
#include "weights/later_adds.hpp"
#include "weights/test_support.hpp"

namespace truemax {
namespace {

struct Scene {
  Weights w;
  Csr rows;
  std::vector<std::uint32_t> blocks{0, 3, 2};  // of 4 blocks; the last one is padded

  Scene(std::uint64_t seed, bool scaled) {
    Engine random(seed);
    w = random_weights(random, 60, 80, false, 1);
    rows = random_rows(random, 60, 80, 50, 1);
    if (!scaled) return;
    w.allow_scaling();
    for (ClassId k = 0; k < 60; ++k) w.scale_class(k, 1.0 / (1 + k));
  }
  ClassId class_of(std::size_t i, std::size_t lane) const {
    return static_cast<ClassId>(blocks[i] * kLanes + lane);
  }
};

TEST(BlockKernels, ScoresOfEachBlockDoNotDependOnTheOthers) {
  for (const bool scaled : {false, true})
    for (const std::int64_t target : instruction_sets()) {
      const OnInstructionSet here(target);
      const Scene scene(5, scaled);
      const std::vector<std::uint32_t> blocks{0, 3, 2, 1, 3, 0, 1, 2, 2};
      for (std::size_t t = 0; t < scene.rows.rows(); ++t) {
        const RowView x = scene.rows.row(t);
        std::vector<float> all(blocks.size() * kLanes, NAN), one(kLanes), others(4 * kLanes);
        score_each_block(scene.w, x, blocks, all.data());
        const std::vector<std::uint32_t> four{0, 1, 2, 3};
        score_blocks(scene.w, x, four, others.data());
        for (std::size_t i = 0; i < blocks.size(); ++i) {
          score_each_block(scene.w, x, {&blocks[i], 1}, one.data());
          EXPECT_EQ(std::memcmp(one.data(), &all[i * kLanes], kLanes * sizeof(float)), 0) << i;
          for (std::size_t lane = 0; lane < kLanes; ++lane)
            EXPECT_NEAR(static_cast<double>(one[lane]),
                        static_cast<double>(others[blocks[i] * kLanes + lane]), 1e-4);
        }
      }
    }
}

TEST(BlockKernels, ScoresMatchDoubleWithinFloatRounding) {
  for (const bool scaled : {false, true})
    for (const std::int64_t target : instruction_sets()) {
      const OnInstructionSet here(target);
      const Scene scene(1, scaled);
      for (std::size_t t = 0; t < scene.rows.rows(); ++t) {
        const RowView x = scene.rows.row(t);
        std::vector<float> z(scene.blocks.size() * kLanes, NAN);
        score_blocks(scene.w, x, scene.blocks, z.data());
        for (std::size_t i = 0; i < scene.blocks.size(); ++i)
          for (std::size_t lane = 0; lane < kLanes; ++lane) {
            const ClassId k = scene.class_of(i, lane);
            if (k >= 60) {
              EXPECT_EQ(z[i * kLanes + lane], 0) << "padding";
              continue;
            }
            double sizes = 0;
            for (std::size_t j = 0; j < x.index.size(); ++j)
              sizes += std::abs(static_cast<double>(x.value[j]) *
                                static_cast<double>(scene.w.lane(k)[x.index[j] * kLanes]));
            const double bound =
                scene.w.scale(k) * 1.001 * (static_cast<double>(x.index.size()) + 3) * 0x1p-24 * sizes;
            EXPECT_LE(std::abs(static_cast<double>(z[i * kLanes + lane]) - score(scene.w, x, k)), bound)
                << instruction_set_name(target) << " row " << t << " class " << k;
          }
      }
    }
}

TEST(BlockKernels, AddsAreExactAndTouchNothingElse) {
  for (const bool scaled : {false, true})
    for (const std::int64_t target : instruction_sets()) {
      const OnInstructionSet here(target);
      Scene scene(2, scaled);
      Engine random(3);
      for (std::size_t t = 0; t < scene.rows.rows(); ++t) {
        const RowView x = scene.rows.row(t);
        const std::vector<float> before = all_cells(scene.w);
        std::vector<float> c(scene.blocks.size() * kLanes, 0.0F);
        for (std::size_t i = 0; i < scene.blocks.size(); ++i)
          for (std::size_t lane = 0; lane < kLanes; ++lane)
            if (scene.class_of(i, lane) < 60) c[i * kLanes + lane] = wide(random, 1);
        add_to_blocks(scene.w, x, scene.blocks, c.data());
        std::vector<float> expected = before;
        for (std::size_t i = 0; i < scene.blocks.size(); ++i)
          for (std::size_t lane = 0; lane < kLanes; ++lane)
            for (std::size_t j = 0; j < x.index.size(); ++j) {
              const ClassId k = scene.class_of(i, lane);
              if (k >= 60) continue;
              const auto at =
                  static_cast<std::size_t>(scene.w.lane(k) - scene.w.block(0)) + x.index[j] * kLanes;
              const double move = static_cast<double>(c[i * kLanes + lane]) / scene.w.scale(k) *
                                  static_cast<double>(x.value[j]);
              const double exact = static_cast<double>(before[at]) + move;
              EXPECT_LE(std::abs(static_cast<double>(scene.w.block(0)[at]) - exact),
                        0x1.001p-24 * (2 * std::abs(move) + std::abs(exact)));
              expected[at] = scene.w.block(0)[at];
            }
        const std::vector<float> after = all_cells(scene.w);
        ASSERT_EQ(std::memcmp(after.data(), expected.data(), after.size() * sizeof(float)), 0)
            << instruction_set_name(target) << " row " << t << " touched a cell that is not its own";
      }
    }
}

// Numbers and scales over many decades, the padded block too.
TEST(BlockKernels, ScalesMultiplyAndDivideInDouble) {
  for (const std::int64_t target : instruction_sets()) {
    const OnInstructionSet here(target);
    Scene scene(4, true);
    scene.w.set_common_scale(0.3);
    Engine random(4);
    for (int repeat = 0; repeat < 100; ++repeat) {
      std::vector<float> z(scene.blocks.size() * kLanes);
      for (float& v : z) v = wide(random, 20);
      std::vector<float> product = z, quotient(kLanes), by_one(kLanes);
      multiply_by_scales(scene.w, scene.blocks, product.data());
      for (std::size_t i = 0; i < scene.blocks.size(); ++i) {
        const double one = scene.w.scale(scene.class_of(i, 0));
        divide_by_scales(scene.w, scene.blocks[i], &z[i * kLanes], quotient.data());
        divide_by_scale(&z[i * kLanes], one, by_one.data());
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
          const auto number = static_cast<double>(z[i * kLanes + lane]);
          EXPECT_EQ(by_one[lane], static_cast<float>(number / one));
          if (scene.class_of(i, lane) >= 60) {
            EXPECT_EQ(product[i * kLanes + lane], z[i * kLanes + lane]);
            EXPECT_EQ(quotient[lane], 0);
            continue;
          }
          const double scale = scene.w.scale(scene.class_of(i, lane));
          EXPECT_EQ(product[i * kLanes + lane], static_cast<float>(scale * number));
          EXPECT_EQ(quotient[lane], static_cast<float>(number / scale));
        }
      }
    }
  }
}

// Long lists: more tasks than are prefetched, rows without features, the padded block, a block many times.
struct TaskScene {
  Scene scene;
  std::vector<BlockTask> tasks;
  std::vector<float> numbers;

  TaskScene(std::uint64_t seed, bool scaled) : scene(seed, scaled) {
    Engine random(seed);
    numbers.resize(3 * scene.rows.rows() * kLanes);
    for (std::size_t t = 0; t < 3 * scene.rows.rows(); ++t) {
      const RowView x = scene.rows.row(t / 3);
      const std::uint32_t block = scene.blocks[t % 3 == 2 ? 0 : t % 2];
      tasks.push_back({x.index.data(), x.value.data(), static_cast<std::uint32_t>(x.index.size()), block,
                       numbers.data() + t * kLanes});
      for (std::size_t lane = 0; lane < kLanes; ++lane)
        numbers[t * kLanes + lane] = block * kLanes + lane < 60 ? wide(random, 1) : 0.0F;
    }
  }
};

TEST(BlockTasks, ScoresAreThoseOfEachBlock) {
  for (const bool scaled : {false, true})
    for (const bool far : {false, true})
      for (const std::int64_t target : instruction_sets()) {
        const OnInstructionSet here(target);
        const TaskScene of(7, scaled);
        score_tasks(of.scene.w, of.tasks, far);
        std::vector<float> one(kLanes);
        for (const BlockTask& task : of.tasks) {
          score_each_block(of.scene.w, task.x(), {&task.block, 1}, one.data());
          ASSERT_EQ(std::memcmp(one.data(), task.numbers, kLanes * sizeof(float)), 0)
              << instruction_set_name(target) << ' ' << task.block;
        }
      }
}

TEST(BlockTasks, AddsAreThoseOfOneAfterTheOther) {
  for (const bool shared : {false, true})
    for (const bool divided : {false, true})
      for (const std::int64_t target : instruction_sets()) {
        const OnInstructionSet here(target);
        TaskScene one(8, false), all(8, false);
        std::vector<double> scales;
        for (std::size_t i = 0; i < one.tasks.size(); ++i)
          scales.push_back(1 / (1 + 0.37 * static_cast<double>(i)));
        for (std::size_t i = 0; i < one.tasks.size(); ++i) {
          const BlockTask& task = one.tasks[i];
          std::vector<float> c(task.numbers, task.numbers + kLanes);
          if (divided)
            for (float& v : c) v = static_cast<float>(static_cast<double>(v) / scales[i]);
          add_to_memory(one.scene.w, task.x(), {&task.block, 1}, c.data());
        }
        if (divided)
          add_tasks_to_memory(all.scene.w, all.tasks, scales, shared);
        else
          add_tasks_to_memory(all.scene.w, all.tasks, shared);
        const std::vector<float> expected = all_cells(one.scene.w), found = all_cells(all.scene.w);
        ASSERT_EQ(std::memcmp(expected.data(), found.data(), expected.size() * sizeof(float)), 0)
            << instruction_set_name(target);
      }
}

// Scales that change between additions, more of them than are made at once, and some made early.
TEST(LaterAdds, AreThoseMadeAtOnce) {
  for (const std::int64_t target : instruction_sets()) {
    const OnInstructionSet here(target);
    TaskScene now(9, true), later(9, true);
    LaterAdds adds;
    ASSERT_GT(now.tasks.size(), 128U);
    for (std::size_t i = 0; i < now.tasks.size(); ++i) {
      const BlockTask& task = now.tasks[i];
      add_to_blocks(now.scene.w, task.x(), {&task.block, 1}, task.numbers);
      divide_by_scales(later.scene.w, task.block, task.numbers,
                       adds.add(later.scene.w, later.tasks[i].x(), task.block));
      if (i % 50 == 49) {
        adds.make(later.scene.w);
        for (Weights* const w : {&now.scene.w, &later.scene.w}) w->fold_block(task.block);
      }
      for (Weights* const w : {&now.scene.w, &later.scene.w}) w->scale_block(task.block, 0.9);
    }
    adds.make(later.scene.w);
    const std::vector<float> expected = all_cells(now.scene.w), found = all_cells(later.scene.w);
    ASSERT_EQ(std::memcmp(expected.data(), found.data(), expected.size() * sizeof(float)), 0);
  }
}

}  // namespace
}  // namespace truemax
