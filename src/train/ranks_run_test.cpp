// Whole runs of several ranks: the same choices on any number of them, and checkpoints that go from one
// program to the other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "core/error.hpp"
#include "data/generate.hpp"
#include "data/test_support.hpp"
#include "ranks/thread_ranks.hpp"
#include "train/run.hpp"

namespace truemax {
namespace {

using testing::HasSubstr;

class RanksRun : public testing::Test {
 protected:
  void SetUp() override {
    GenerateOptions generate;
    generate.rows = 400, generate.features = 60, generate.classes = 40;
    generate_file(generate, Part::train, 1, folder_.path("train.txt"));
  }

  RunOptions options(const std::string& method, bool resume = false) const {
    RunOptions o;
    o.train_path = folder_.path("train.txt");
    o.model = o.log = "none";
    o.checkpoint = folder_.path("c.tmx"), o.resume = resume;
    o.asked.method = method, o.asked.threads = 1;
    if (method != kAutomatic) o.asked.epochs = 2;
    return o;
  }
  // Runs it, or stops it before its first step or trial. Returns the options of its log.
  nlohmann::ordered_json run(const std::string& method, bool resume, bool stopped,
                             double* loss = nullptr) const {
    PreparedRun run = prepare_run(options(method, resume));
    nlohmann::ordered_json asked = run.asked;
    asked.erase("resume");
    const std::atomic<bool> stop{stopped};
    const FinishedRun finished = execute_run(run, {}, stop);
    if (loss != nullptr && !stopped && ranks().first()) *loss = finished.outcome.last->train->log_loss;
    return asked;
  }
  nlohmann::ordered_json run_on(std::size_t size, const std::string& method, bool resume, bool stopped,
                                double* loss = nullptr) const {
    nlohmann::ordered_json asked;
    run_thread_ranks(size, [&](Ranks& ranks) {
      const nlohmann::ordered_json own = run(method, resume, stopped, loss);
      if (ranks.first()) asked = own;
    });
    return asked;
  }
  void forget() const { std::filesystem::remove(folder_.path("c.tmx")); }

  TempFolder folder_;
};

TEST_F(RanksRun, TheirNumberChangesNoChoice) {
  for (const char* method : {"prox", "exact", kAutomatic}) {
    const nlohmann::ordered_json one = run_on(1, method, false, true);
    EXPECT_GT(one["group"].get<int>(), 1) << method;
    EXPECT_EQ(one["draw"], method == std::string("prox") ? "blocks" : "uniform");
    for (const std::size_t size : {2, 3}) {
      forget();
      EXPECT_EQ(run_on(size, method, false, true), one) << method << size;
    }
    forget();
  }
}

// The search would be another one without groups: Newton's method, other draws.
TEST_F(RanksRun, StoppedAtTheStartGoOnAsTheyBegan) {
  for (const char* method : {"prox", kAutomatic}) {
    const nlohmann::ordered_json asked = run_on(2, method, false, true);
    const std::string kept = folder_.path("kept.tmx");
    std::filesystem::rename(folder_.path("c.tmx"), kept);
    double plain = 0, one = 0, three = 0;
    const auto restore = [&] {
      std::filesystem::copy_file(kept, folder_.path("c.tmx"),
                                 std::filesystem::copy_options::overwrite_existing);
    };
    restore();
    EXPECT_EQ(run(method, true, false, &plain), asked) << method;
    restore();
    EXPECT_EQ(run_on(1, method, true, false, &one), asked) << method;
    restore();
    EXPECT_EQ(run_on(3, method, true, false, &three), asked) << method;
    EXPECT_EQ(one, plain) << method;
    EXPECT_NEAR(three, plain, 1e-4 * plain) << method;
    std::filesystem::remove(kept), forget();
  }
}

// A signal that one rank gets does not wait for the end of an evaluation.
TEST_F(RanksRun, OneOfThemEndsAnEvaluationOfAll) {
  for (const std::size_t signalled : {0, 1}) {
    run_thread_ranks(2, [&](Ranks& ranks) {
      RunOptions o = options("prox");
      o.asked.eval_every = 1;
      PreparedRun run = prepare_run(std::move(o));
      const std::atomic<bool> stop{ranks.rank() == signalled};
      const FinishedRun finished = execute_run(run, {}, stop);
      EXPECT_TRUE(finished.outcome.interrupted);
      EXPECT_EQ(finished.outcome.epochs, 1U);
      EXPECT_FALSE(finished.outcome.last);
    });
    forget();
  }
}

TEST_F(RanksRun, RefuseToGoOnWithARunWithoutGroups) {
  for (const char* method : {"prox", kAutomatic}) {
    run(method, false, true);
    for (const std::size_t size : {1, 2}) {
      std::string error;
      try {
        run_on(size, method, true, false);
      } catch (const UserError& thrown) {
        error = thrown.what();
      }
      EXPECT_THAT(error, HasSubstr("without groups of rows")) << method << size;
      EXPECT_THAT(error, HasSubstr("go on with truemax")) << method << size;
    }
    forget();
  }
}

}  // namespace
}  // namespace truemax
