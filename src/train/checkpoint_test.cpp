// The checkpoint file: written and read back whole, refused if a single bit is wrong.
#include "train/checkpoint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "core/checksum.hpp"
#include "core/error.hpp"
#include "data/test_support.hpp"
#include "train/fit.hpp"
#include "train/test_support.hpp"

namespace truemax {
namespace {

using ::testing::HasSubstr;

std::string bytes_at(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void put_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

SavedRun about_a_run() {
  SavedRun about;
  about.asked = {{"step", 0.1}, {"method", "implicit"}};
  about.chosen = {{"step", 0.1}};
  about.data_hash = "0123456789abcdef";
  about.model = "m.safetensors", about.log = "none";
  about.lines = "{\"event\":\"start\"}\n";
  about.seconds = 1.5, about.trial_seconds = 0.25;
  SearchTrial trial;
  trial.about = "ridge", trial.number = 1, trial.log_loss = std::numeric_limits<double>::infinity();
  about.trials = {trial, trial};
  about.search.finished = true, about.search.trials = 2;
  about.search.compared = {1.0, 2.0, 64};
  about.fitting = true;
  about.epochs = 2, about.steps = 40;
  return about;
}

class Checkpoint : public ::testing::Test {
 protected:
  Checkpoint() {
    options_.epochs = 2;
    state_ = run_epochs(made_, options_);
    write_checkpoint(path_, about_a_run(), &state_);
  }
  std::string error_of(const std::string& bytes) {
    put_bytes(path_, bytes);
    try {
      RunState state = make_state(made_, options_);
      CheckpointFile(path_).read_state(state);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  }
  // A file whose checksum fits, so that only its content is judged.
  static std::string signed_again(std::string bytes) {
    bytes.resize(bytes.size() - 8);
    RunningSum running;
    for (std::size_t at = 0; at < bytes.size(); at += RunningSum::kPiece)
      running.add(std::span(bytes).subspan(at, std::min(RunningSum::kPiece, bytes.size() - at)));
    const std::uint64_t sum = running.value();
    bytes.append(reinterpret_cast<const char*>(&sum), sizeof sum);
    return bytes;
  }

  TempFolder folder_;
  std::string path_ = folder_.path("c.tmx");
  Dataset made_ = random_data({.rows = 20});
  Recipe options_ = options_of("composition", 2);
  RunState state_;
};

TEST_F(Checkpoint, GivesEverythingBack) {
  CheckpointFile file(path_);
  const SavedRun &there = file.about(), here = about_a_run();
  EXPECT_EQ(there.asked, here.asked);
  EXPECT_EQ(there.chosen, here.chosen);
  EXPECT_EQ(there.data_hash, here.data_hash);
  EXPECT_EQ(there.model, here.model);
  EXPECT_EQ(there.lines, here.lines);
  EXPECT_EQ(there.seconds, here.seconds);
  ASSERT_EQ(there.trials.size(), 2U);
  EXPECT_EQ(there.trials[1].about, "ridge");
  EXPECT_TRUE(std::isinf(there.trials[1].log_loss));
  EXPECT_EQ(there.search.compared->hidden, 64U);
  EXPECT_TRUE(there.fitting);
  EXPECT_FALSE(there.finished);
  RunState state = make_state(made_, options_);
  file.read_state(state);
  EXPECT_EQ(bits_of(state), bits_of(state_));
}

TEST_F(Checkpoint, RefusesEveryTruncationAndEveryFlippedBit) {
  const std::string good = bytes_at(path_);
  for (std::size_t length = 0; length < good.size(); ++length)
    ASSERT_THAT(error_of(good.substr(0, length)), HasSubstr(path_)) << length;
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ (1 << (at % 8)));
    ASSERT_THAT(error_of(bad), HasSubstr(path_)) << at;
  }
  EXPECT_THAT(error_of(good + "x"), HasSubstr("damaged"));
  EXPECT_EQ(error_of(good), "");
}

// Forged files with the right checksum: refused, or a state that a run can go on from.
TEST_F(Checkpoint, ForgedFilesAreRefusedOrHarmless) {
  const std::string good = bytes_at(path_);
  std::mt19937_64 random(1);
  std::size_t refused = 0;
  for (int turn = 0; turn < 3000; ++turn) {
    std::string bad = good;
    const std::size_t at = 16 + random() % (good.size() - 32);
    for (std::size_t i = 0; i < 1 + random() % 8 && at + i < bad.size() - 16; ++i)
      bad[at + i] = static_cast<char>(turn % 2 == 0 ? 0xFF : random());
    put_bytes(path_, signed_again(bad));
    try {
      RunState state = make_state(made_, options_);
      CheckpointFile(path_).read_state(state);
      const std::atomic<bool> stop{false};
      Recipe more = options_;
      more.epochs = state.epoch < 1000 ? state.epoch + 1 : 0;
      Fit fit(made_, planned(made_, more), std::move(state));
      fit.run({}, stop);
    } catch (const UserError& error) {
      ++refused;
      EXPECT_THAT(error.what(), HasSubstr(path_));
    }
  }
  EXPECT_GT(refused, 100U);
}

TEST_F(Checkpoint, RefusesAStateOfAnotherShape) {
  Recipe other = options_;
  other.intercept = !other.intercept;
  RunState state = make_state(made_, other);
  EXPECT_THROW(CheckpointFile(path_).read_state(state), UserError);
}

TEST_F(Checkpoint, AnUnwritableFolderLeavesTheOldFile) {
  const std::string good = bytes_at(path_);
  EXPECT_THROW(write_checkpoint(folder_.path("no/c.tmx"), about_a_run(), &state_), UserError);
  EXPECT_EQ(bytes_at(path_), good);
}

// A state with all that a state can have, of numbers that need no arithmetic.
RunState full_state() {
  const auto weights = [](float first) {
    Weights made(3, 2, true);
    for (ClassId k = 0; k < 3; ++k) made.set_class(k, std::vector{first, first + static_cast<float>(k)});
    made.intercept()[1] = first / 2;
    return made;
  };
  const auto table = [](std::size_t rows, float first) {
    Embedding made(rows, 2);
    for (float& number : made.numbers) number = first++;
    return made;
  };
  RunState s;
  s.weights = weights(1);
  s.weights.set_scales({LineVector<double>(3, 0.5), 0.25});
  s.learnt.tables.features = table(4, 1), s.learnt.tables.mixing = table(3, 20), s.learnt.tables.layers = 1;
  s.learnt.classes = table(3, 30), s.learnt.intercept = {1, 2, 3}, s.learnt.intercept_square = {4, 5, 6};
  s.learnt.features_square = {1, 2, 3, 4}, s.learnt.mixing_square = {5, 6},
  s.learnt.classes_square = {7, 8, 9};
  s.learnt.updates = 11;
  s.rows = {{0.5, 2}, {1.5, 3}}, s.epoch = 3, s.step = 4, s.newton_done = true, s.largest_weight = 8;
  s.companion = {weights(2), -0.5, {0.25, 0.5, 0.75}, {{ExampleId{1}}, {}, {ExampleId{0}, ExampleId{1}}}, 2};
  s.draw_memory = {2, kUnseenClass};
  s.norms = {{1, 2, 4}, 7, 0.5};
  s.moments = {weights(3), weights(4), 12};
  s.lbfgs = {true, true, weights(5), weights(6), {}, {}, CurvaturePairs(1), {}, 9};
  s.lbfgs.moves.push_back(weights(7)), s.lbfgs.changes.push_back(weights(8));
  s.lbfgs.pairs.add(std::vector{2.0}, std::vector{3.0});
  s.lbfgs.search.loss = 1, s.lbfgs.search.slope = 2, s.lbfgs.search.length = 3, s.lbfgs.search.least = 4;
  s.lbfgs.search.tries = 5;
  s.plan = {1.25, {{0, 0.5}, {6, 0.25}}};
  Metrics metrics;
  metrics.log_loss = 1, metrics.error = 2, metrics.calibration_error = 3, metrics.precision = {4, 5, 6};
  metrics.rows = 7, metrics.examples = 8;
  metrics.estimate = Estimate{1, 2, 3, 4, 5};
  metrics.statistics = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  metrics.ranking = RankingMetrics{1, {2, 3, 4}, 5, 6, 7, true};
  s.last = EvaluationRecord{1, 2, 3, metrics, {}, metrics, true};
  s.patience = {6, s.last, std::make_shared<KeptWeights>(""), s.learnt.tables};
  s.patience.weights->keep(s.weights);
  return s;
}

// Who changes these bytes must change kFormat, so that an older checkpoint is refused and not misread.
TEST_F(Checkpoint, HasTheBytesOfItsFormat) {
  SavedRun about = about_a_run();
  about.valid_hash = "1", about.test_hash = "2", about.init_hash = "3", about.finished = true;
  about.trials[0] = {"step", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, {}};
  about.search.step = about.search.tied = true, about.search.log_loss = 0.5;
  const RunState state = full_state();
  write_checkpoint(path_, about, &state);
  const std::string bytes = bytes_at(path_);
  EXPECT_EQ(bytes.size(), 4507U);
  EXPECT_EQ(checksum_text(xxh64(bytes)), "8ae0eaf93d766e99");
}

TEST(SaveEvery, TakesANumberWithAUnit) {
  EXPECT_EQ(parse_save_every("3epochs").epochs, 3U);
  EXPECT_EQ(parse_save_every("1epoch").epochs, 1U);
  EXPECT_EQ(parse_save_every("10min").seconds, 600);
  EXPECT_EQ(parse_save_every("0.5s").seconds, 0.5);
  EXPECT_EQ(parse_save_every("2h").seconds, 7200);
  for (const char* bad :
       {"", "5", "epochs", "0s", "-1s", "1.5epochs", "nans", "infs", "1e300h", "1days", "1 s"})
    EXPECT_THROW(parse_save_every(bad), UserError) << bad;
}

}  // namespace
}  // namespace truemax
