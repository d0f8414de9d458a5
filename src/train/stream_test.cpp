// Training on rows that are read in blocks.
#include <gtest/gtest.h>

#include <random>

#include "data/hold_out.hpp"
#include "data/streamed_rows.hpp"
#include "rule/methods.hpp"
#include "train/evaluate_state.hpp"
#include "train/test_support.hpp"
#include "train/trainer.hpp"

namespace truemax {
namespace {

// The same data in blocks of `block` rows, read from a copy of their arrays.
Dataset in_blocks(Dataset data, std::uint32_t block, std::size_t window_blocks) {
  StreamedRows::Shape shape;
  const auto rows = std::make_shared<const Csr>(std::move(data.rows));
  for (std::uint32_t r = 0; r < rows->rows(); r += block) shape.row_begin.push_back(r);
  shape.row_begin.push_back(static_cast<std::uint32_t>(rows->rows()));
  shape.nonzeros = rows->nonzeros();
  shape.block_bytes = 1000;
  shape.window_blocks = window_blocks;
  const auto begin = shape.row_begin;
  data.rows = Csr();
  data.streamed = std::make_shared<StreamedRows>(std::move(shape), [rows, begin](std::size_t b) {
    Csr out;
    for (std::size_t r = begin[b]; r < begin[b + 1]; ++r) out.add(rows->row(r));
    return out;
  });
  return data;
}

std::vector<Recipe> streamed_runs(Visit visit) {
  std::vector<Recipe> all;
  for (const MethodInfo* info : methods())
    for (const std::uint64_t rows : {1U, 7U}) {
      if (info->has_companion || info->all_rows || rows > info->most_rows) continue;
      Recipe options = options_of(std::string(info->name), 3, visit);
      options.rows_per_step = rows;
      options.step = info->can_diverge ? 0.005 : 0.5;
      options.ridge = rows == 1 ? 0 : 0.5;
      options.epochs = 3;
      all.push_back(options);
    }
  Recipe learnt = options_of("scent", 8, visit);
  learnt.hidden = 6, learnt.rows_per_step = 16, learnt.draw = "frequency", learnt.epochs = 3;
  all.push_back(learnt);
  Recipe blocks = options_of("prox", 16, visit);
  blocks.draw = "head-blocks", blocks.draws.head = 16;
  all.push_back(blocks);
  return all;
}

DataView streamed_data(bool weights) {
  return in_blocks(random_data({.rows = 203, .classes = 40, .features = 15, .weights = weights}), 10, 3);
}

TEST(Stream, InTheOrderOfTheFileHasTheBitsOfRowsInMemory) {
  for (const bool weights : {false, true}) {
    const DataView memory = random_data({.rows = 203, .classes = 40, .features = 15, .weights = weights});
    for (const Recipe& options : streamed_runs(Visit::file)) {
      SCOPED_TRACE(options.method);
      EXPECT_EQ(bits_of(run_epochs(streamed_data(weights), options)), bits_of(run_epochs(memory, options)));
    }
  }
}

TEST(Stream, ResumedAtAnyStepGivesTheSameBits) {
  std::mt19937_64 random(1);
  for (const Visit visit : {Visit::shuffle, Visit::random})
    for (Recipe options : streamed_runs(visit)) {
      SCOPED_TRACE(options.method);
      const DataView data = streamed_data(true);
      const RunState whole = run_epochs(data, options);
      RunState state = make_state(data, options);
      const std::uint64_t steps =
          options.epochs * ((data.size() + options.rows_per_step - 1) / options.rows_per_step);
      const std::atomic<bool> stop{false};
      for (std::uint64_t done = 0; done < steps;) {
        done = std::min(steps, done + 1 + random() % (steps / 2));
        options.steps = done;
        const DataView again = streamed_data(true);  // another process, another stream
        Fit fit(again, planned(again, options), std::move(state));
        ASSERT_EQ(fit.run({}, stop), Fit::End::used_up);
        state = std::move(fit.state());
      }
      EXPECT_EQ(bits_of(state), bits_of(whole));
    }
}

TEST(Stream, ThreadsAndPartsGiveTheSameBits) {
  for (Recipe options : streamed_runs(Visit::shuffle)) {
    SCOPED_TRACE(options.method);
    const RowSplit split = set_aside(streamed_data(false), 0.2, 4);
    ASSERT_NE(split.rest.streamed(), nullptr);
    options.threads = 1;
    const RunState one = run_epochs(split.rest, options);
    options.threads = 3;
    EXPECT_EQ(bits_of(run_epochs(split.rest, options)), bits_of(one));
    const std::atomic<bool> stop{false};
    const auto metrics = evaluate(EvaluateOptions{}, 1, one, split.valid, 2, &stop);
    const auto of_copy = evaluate(EvaluateOptions{}, 1, one, split.valid.copied(), 1, &stop);
    ASSERT_TRUE(metrics && of_copy);
    EXPECT_EQ(metrics->log_loss, of_copy->log_loss);
  }
}

TEST(Stream, AnErrorOfReadingEndsTheRun) {
  Dataset data = random_data({.rows = 200, .classes = 12, .features = 15});
  StreamedRows::Shape shape;
  shape.row_begin = {0, 100, 200};
  const auto rows = std::make_shared<const Csr>(std::move(data.rows));
  data.rows = Csr();
  const auto reads = std::make_shared<std::atomic<int>>(0);
  data.streamed = std::make_shared<StreamedRows>(shape, [rows, reads](std::size_t b) {
    if (++*reads > 9) throw UserError("the disk is broken; mend it");
    Csr out;
    for (std::size_t r = 100 * b; r < 100 * b + 100; ++r) out.add(rows->row(r));
    return out;
  });
  const DataView view(std::move(data));
  Recipe options = options_of("prox", 3, Visit::shuffle);
  options.epochs = 50;
  EXPECT_THROW(run_epochs(view, options), UserError);
}

}  // namespace
}  // namespace truemax
