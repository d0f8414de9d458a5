// A whole run from files: what is read, logged and saved.
#include "train/run.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "data/generate.hpp"
#include "data/test_support.hpp"
#include "train/run_log.hpp"

namespace truemax {
namespace {

// Begin as a model and a log do, so that a run may replace them.
const std::string kOldModel("\x02\0\0\0\0\0\0\0{} the old model", 24), kOldLog = "{\"the old\": \"log\"}";

using Json = nlohmann::json;

std::string read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<Json> read_log(const std::string& path) {
  std::vector<Json> events;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) events.push_back(Json::parse(line));
  return events;
}

class WholeRun : public testing::Test {
 protected:
  void SetUp() override {
    GenerateOptions generate;
    generate.rows = 400, generate.test_rows = 100, generate.features = 60, generate.classes = 12;
    generate_file(generate, Part::train, 1, folder_.path("train.txt"));
    generate_file(generate, Part::test, 1, folder_.path("test.txt"));
  }
  RunOptions options(const std::string& name = "m") const {
    RunOptions o;
    o.train_path = folder_.path("train.txt");
    o.test_path = folder_.path("test.txt");
    o.model = folder_.path(name + ".safetensors");
    o.log = folder_.path(name + ".jsonl");
    o.asked.method = "implicit";
    o.asked.epochs = 5;
    o.asked.eval_every = 2;
    o.asked.threads = 1;
    return o;
  }
  static FinishedRun go(RunOptions o) {
    PreparedRun run = prepare_run(std::move(o));
    const std::atomic<bool> stop{false};
    return execute_run(run, {}, stop);
  }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder_.path("")),
                                                  std::filesystem::directory_iterator()));
  }
  TempFolder folder_;
};

TEST_F(WholeRun, LogsStartEvaluationsAndEnd) {
  const FinishedRun finished = go(options());
  const std::vector<Json> events = read_log(folder_.path("m.jsonl"));
  ASSERT_EQ(events.size(), 5U);
  const Json& start = events.front();
  EXPECT_EQ(start["event"], "start");
  EXPECT_EQ(start["config"]["method"], "implicit");
  EXPECT_EQ(start["config"]["epochs"], 5);
  EXPECT_EQ(start["config"]["train"], folder_.path("train.txt"));
  EXPECT_EQ(start["asked"]["method"], "implicit");
  EXPECT_EQ(start["asked"]["epochs"], 5);
  EXPECT_FALSE(start["asked"].contains("draw"));
  EXPECT_EQ(start["data"]["rows"], 400);
  EXPECT_EQ(start["data"]["features"], 60);
  EXPECT_EQ(start["data"]["classes"], 12);
  EXPECT_GT(start["data"]["nonzeros"].get<int>(), 400);
  EXPECT_FALSE(start.contains("chosen"));
  const std::uint64_t epochs[] = {2, 4, 5};
  double seconds = 0, loss = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const Json& e = events[1 + i];
    EXPECT_EQ(e["event"], "evaluate");
    EXPECT_EQ(e["epoch"], epochs[i]);
    EXPECT_GE(e["train_seconds"].get<double>(), seconds);
    seconds = e["train_seconds"];
    EXPECT_GT(e["train"]["log_loss"].get<double>(), 0);
    EXPECT_LT(e["train"]["error"].get<double>(), 1);
    EXPECT_GT(e["test"]["log_loss"].get<double>(), 0);
    EXPECT_TRUE(e["test"].contains("unseen"));
    loss = e["train"]["log_loss"];
  }
  EXPECT_EQ(loss, finished.outcome.last->train->log_loss);
  EXPECT_LT(loss, std::log(12.0));  // it has learnt something
  const Json& end = events.back();
  EXPECT_EQ(end["event"], "end");
  EXPECT_EQ(end["epochs"], 5);
  EXPECT_EQ(end["steps"], 2000);
  EXPECT_EQ(end["interrupted"], false);
  EXPECT_EQ(end["model"], folder_.path("m.safetensors"));
  EXPECT_FALSE(end.contains("diverged"));
}

TEST_F(WholeRun, OutputsNeverOverwriteInputs) {
  RunOptions o = options();
  o.read.row_weights = folder_.write("w.txt", "1\n");
  o.model = o.read.row_weights;
  EXPECT_NE(error_of([&] { prepare_run(o); }).find("this is an input of the run"), std::string::npos);
  EXPECT_EQ(read_bytes(o.model), "1\n");
}

TEST_F(WholeRun, SavedModelIsCompleteAndEvaluatesTheSame) {
  RunOptions o = options();
  o.preprocess.normalize = Normalize::l2;
  o.asked.intercept = true;
  const FinishedRun finished = go(o);
  const Model saved = load_model(folder_.path("m.safetensors"), ~0ULL);
  ASSERT_EQ(saved.weights.classes(), finished.model.weights.classes());
  ASSERT_TRUE(saved.weights.has_intercept());
  std::vector<float> a(60), b(60);
  for (ClassId k = 0; k < 12; ++k) {
    saved.weights.copy_class(k, a);
    finished.model.weights.copy_class(k, b);
    EXPECT_EQ(a, b);
    EXPECT_EQ(saved.weights.intercept()[k], finished.model.weights.intercept()[k]);
    EXPECT_EQ(saved.classes->name(k), finished.model.classes->name(k));
  }
  EXPECT_EQ(saved.preprocess.normalize, Normalize::l2);
  EXPECT_EQ(saved.method, "implicit");
  EXPECT_EQ(saved.options["epochs"], 5);
  EXPECT_EQ(saved.data["rows"], 400);
  // Read again, the test data give the same figures.
  PreparedRun again = prepare_run(o);
  const auto metrics = evaluate(saved.weights, *again.test, 1);
  EXPECT_EQ(metrics->log_loss, finished.outcome.last->test->log_loss);
}

TEST_F(WholeRun, SameFileForAnyNumberOfThreads) {
  for (const char* method : {"implicit", "umax"}) {
    RunOptions o = options("one");
    o.asked.method = method;
    go(o);
    const std::string first = read_bytes(folder_.path("one.safetensors"));
    o.asked.threads = 3;
    go(o);
    EXPECT_EQ(read_bytes(folder_.path("one.safetensors")), first) << method;
    o.asked.seed = 2;
    go(o);
    EXPECT_NE(read_bytes(folder_.path("one.safetensors")), first) << method;
  }
}

TEST_F(WholeRun, PreparingWritesOnlyTemporaryClaims) {
  const std::size_t before = files();
  { const PreparedRun run = prepare_run(options()); }
  EXPECT_EQ(files(), before);
  const PreparedRun run = prepare_run(options());
  EXPECT_EQ(files(), before + 2);
  EXPECT_NE(error_of([&] { prepare_run(options()); }).find("another run"), std::string::npos);
  EXPECT_EQ(files(), before + 2);
  EXPECT_EQ(run.data.size(), 400U);
  EXPECT_EQ(run.test->size() + run.test->statistics.unseen, 100U);
  EXPECT_EQ(run.plan->memory.weights, Weights::bytes_needed(12, 60));
  EXPECT_GE(run.plan->memory.total(), run.plan->memory.weights + run.bytes());
}

// Leftovers may be what fills the disk.
TEST_F(WholeRun, PreparingRemovesLeftoversOfAKilledSave) {
  const std::string stale = folder_.write("m.safetensors.tmp-0123abcd", "half a model");
  const PreparedRun run = prepare_run(options());
  EXPECT_FALSE(std::filesystem::exists(stale));
}

TEST_F(WholeRun, StopBeforeTheFirstStepKeepsTheOldModel) {
  folder_.write("m.safetensors", kOldModel);
  PreparedRun run = prepare_run(options());
  const std::atomic<bool> stop{true};
  const FinishedRun finished = execute_run(run, {}, stop);
  EXPECT_TRUE(finished.outcome.interrupted);
  EXPECT_EQ(finished.log_path, folder_.path("m.jsonl")) << "named, and free";
  const std::vector<Json> events = read_log(folder_.path("m.jsonl"));
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events.back()["event"], "end");
  EXPECT_EQ(events.back()["interrupted"], true);
  EXPECT_EQ(events.back()["steps"], 0);
  EXPECT_FALSE(finished.saved);
  EXPECT_EQ(read_bytes(folder_.path("m.safetensors")), kOldModel);
}

TEST_F(WholeRun, DivergedRunSavesItsLastFiniteModel) {
  folder_.write("wild.txt", "1 1:1 2:-1\n2 1:1 3:1\n3 4:3e38\n");
  RunOptions o = options();
  o.train_path = folder_.path("wild.txt"), o.test_path = "";
  o.asked.method = "umax", o.asked.visit = Visit::file, o.asked.step = 10;
  const FinishedRun finished = go(o);
  ASSERT_NE(finished.outcome.divergence, "");
  const Json end = read_log(folder_.path("m.jsonl")).back();
  EXPECT_EQ(end["diverged"], finished.outcome.divergence);
  EXPECT_EQ(end["steps"], 2);
  EXPECT_EQ(end["model"], o.model);
  const double largest = load_model(o.model, ~0ULL).weights.largest();
  EXPECT_GT(largest, 0);
  EXPECT_LT(largest, 1e3);
}

TEST_F(WholeRun, DivergedRunReplacesNoModelOrLog) {
  folder_.write("wild.txt", "1 1:1 2:-1\n2 1:1 3:1\n3 4:3e38\n");
  folder_.write("m.safetensors", kOldModel);
  folder_.write("m.jsonl", kOldLog);
  RunOptions o = options();
  o.train_path = folder_.path("wild.txt"), o.test_path = "";
  o.asked.method = "umax", o.asked.visit = Visit::file, o.asked.step = 10;
  const std::size_t before = files();
  const FinishedRun finished = go(o);
  ASSERT_NE(finished.outcome.divergence, "");
  EXPECT_EQ(read_bytes(o.model), kOldModel);
  EXPECT_EQ(read_bytes(o.log), kOldLog);
  EXPECT_EQ(finished.model_path, folder_.path("m-diverged.safetensors"));
  EXPECT_EQ(finished.log_path, folder_.path("m-diverged.jsonl"));
  EXPECT_EQ(read_log(finished.log_path).back()["model"], finished.model_path);
  EXPECT_GT(load_model(finished.model_path, ~0ULL).weights.largest(), 0);
  EXPECT_EQ(files(), before + 2);
}

// One value is inside float32, but not times a vector that large steps have made.
TEST_F(WholeRun, RowToEvaluateBeyondFloatKeepsWhatWasLearnt) {
  std::string rows = "51 60 12\n1 1:1\n";
  for (int f = 1; f <= 50; ++f) rows += fmt::format("1 {}:3.3e38\n", f);
  folder_.write("far.txt", rows);
  for (const char* set : {"test", "valid", "patience"}) {
    RunOptions o = options(set);
    o.asked.method = "scent", o.asked.hidden = 4, o.asked.rows_per_step = 10, o.asked.draw = "frequency";
    o.asked.classes_per_step = 5, o.asked.step = 2, o.asked.epochs = 20, o.asked.eval_every = 20;
    const std::string which = set;
    (which == "valid" ? o.valid_path : o.test_path) = folder_.path("far.txt");
    if (which == "patience") o.valid_path = folder_.path("test.txt"), o.asked.patience = 5;
    const FinishedRun finished = go(o);
    const TrainOutcome& outcome = finished.outcome;
    ASSERT_NE(outcome.divergence.find("leave float32"), std::string::npos) << set << outcome.divergence;
    EXPECT_NE(outcome.divergence.find(which == "valid" ? "validation rows: row" : "test rows: row"),
              std::string::npos)
        << outcome.divergence;
    EXPECT_TRUE(outcome.at_evaluation);
    EXPECT_EQ(outcome.kept_best, which == "patience");
    EXPECT_EQ(outcome.epochs, 20U);
    EXPECT_EQ(read_log(o.log).back()["diverged"], outcome.divergence);
    const Model model = load_model(o.model, ~0ULL);
    EXPECT_GT(model.weights.largest(), 0);
    EXPECT_TRUE(std::isfinite(model.weights.largest()));
  }
}

TEST_F(WholeRun, RowsWhoseValuesLeaveFloatAreRefusedBeforeLearningFeatures) {
  folder_.write("far.txt", "2 60 12\n1 1:1\n1 1:3e38 2:3e38\n");
  RunOptions o = options();
  o.asked.method = "scent", o.asked.hidden = 4, o.asked.draw = "frequency";
  for (std::string RunOptions::*path : {&RunOptions::test_path, &RunOptions::valid_path}) {
    RunOptions bad = o;
    bad.*path = folder_.path("far.txt");
    try {
      prepare_run(std::move(bad));
      ADD_FAILURE() << "not refused";
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find("far.txt: row 2 of those that count"), std::string::npos)
          << error.what();
    }
  }
  o.asked.hidden = 0, o.asked.method = "implicit", o.asked.draw = "uniform";
  o.test_path = folder_.path("far.txt");
  EXPECT_NO_THROW(prepare_run(std::move(o)));
}

TEST_F(WholeRun, LogReplacesTheRestOfAnotherButNoFileOfSomebody) {
  const std::string part = folder_.path("m.jsonl.part");
  for (const char* foreign : {"precious", "{\"precious\": 1}"}) {
    folder_.write("m.jsonl.part", foreign);
    EXPECT_THROW(go(options()), UserError);
    EXPECT_EQ(read_bytes(part), foreign);
  }
  for (const char* rest : {"", "{\"ev", "{\"event\":\"start\"}\n{\"eve"}) {
    folder_.write("m.jsonl.part", rest);
    EXPECT_NO_THROW(go(options()));
    EXPECT_FALSE(std::filesystem::exists(part));
  }
}

TEST_F(WholeRun, FailedSaveKeepsTheOldModelAndLog) {
  folder_.write("m.safetensors", kOldModel);
  folder_.write("m.jsonl", kOldLog);
  RunOptions o = options();
  o.test_path = "", o.asked.eval_every = 0, o.preprocess.hash_features = 2000;
  PreparedRun run = prepare_run(o);
  const std::atomic<bool> stop{false};
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  rlimit small = old;
  small.rlim_cur = 12000;  // room for the log, not for the model
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string message = error_of([&] { execute_run(run, {}, stop); });
  setrlimit(RLIMIT_FSIZE, &old);
  EXPECT_NE(message.find("m.safetensors"), std::string::npos) << message;
  EXPECT_NE(message.find("--replay " + folder_.path("m-failed.jsonl")), std::string::npos) << message;
  EXPECT_EQ(read_bytes(folder_.path("m.safetensors")), kOldModel);
  EXPECT_EQ(read_bytes(folder_.path("m.jsonl")), kOldLog);
  EXPECT_FALSE(read_log(folder_.path("m-failed.jsonl")).back().contains("model"));
}

TEST_F(WholeRun, ImmediateDivergenceKeepsTheOldModel) {
  folder_.write("wild.txt", "1 1:3e38\n2 1:-3e38\n3 2:3e38\n");
  RunOptions o = options();
  o.train_path = folder_.path("wild.txt"), o.test_path = "";
  o.asked.method = "umax", o.asked.step = 10;
  folder_.write("m.safetensors", kOldModel);
  const FinishedRun finished = go(o);
  ASSERT_NE(finished.outcome.divergence, "");
  EXPECT_FALSE(finished.saved);
  EXPECT_EQ(read_bytes(o.model), kOldModel);
  EXPECT_FALSE(read_log(folder_.path("m.jsonl")).back().contains("model"));
}

TEST_F(WholeRun, WritesNothingIfNothingIsAskedFor) {
  RunOptions o = options();
  o.model = "none", o.log = "none";
  const std::size_t before = files();
  EXPECT_TRUE(go(o).outcome.last);
  EXPECT_EQ(files(), before);
}

TEST_F(WholeRun, PicksAFreeModelNameAndLogsBesideIt) {
  const auto here = std::filesystem::current_path();
  std::filesystem::current_path(folder_.path(""));
  RunOptions o = options();
  o.model = o.log = "";
  std::string first = prepare_run(o).options.model;
  std::ofstream("model.safetensors") << "taken";
  std::ofstream("model-2.safetensors") << "taken";
  std::ofstream("model-3.jsonl") << "a log taken";
  const PreparedRun run = prepare_run(o);
  std::filesystem::current_path(here);
  EXPECT_EQ(first, "model.safetensors");
  EXPECT_EQ(run.options.model, "model-4.safetensors");
  EXPECT_EQ(run.options.log, "model-4.jsonl");
}

TEST_F(WholeRun, ErrorForShortMemoryHasTheNumbers) {
  RunOptions o = options();
  o.memory_limit = 1000;
  const std::string message = error_of([&] { prepare_run(o); });
  EXPECT_NE(message.find("--memory-limit"), std::string::npos) << message;
  EXPECT_NE(message.find("1000 bytes"), std::string::npos) << message;
  o.memory_limit = std::uint64_t{1} << 40;
  EXPECT_NO_THROW(prepare_run(o));
}

TEST_F(WholeRun, MemoryPlanCountsDrawsAndLimitsThem) {
  RunOptions o = options();
  o.asked.method = "umax";
  const std::uint64_t few = prepare_run(o).plan->memory.rows;
  o.asked.classes_per_step = 1000;
  EXPECT_GE(prepare_run(o).plan->memory.rows, few + 4 * 999);
  o.asked.classes_per_step = 1'000'000'000;
  const std::string message = error_of([&] { prepare_run(o); });
  EXPECT_NE(message.find("--classes-per-step 1000000000"), std::string::npos) << message;
  EXPECT_NE(message.find("at most 1200"), std::string::npos) << message;
  o.asked.classes_per_step = 1, o.asked.rows_per_step = 401;
  EXPECT_NE(error_of([&] { prepare_run(o); }).find("--rows-per-step 401"), std::string::npos);
}

TEST_F(WholeRun, RefusesUnwritablePathsBeforeReading) {
  RunOptions o = options();
  o.train_path = folder_.path("there is no such file");
  o.model = folder_.path("no/folder/m.safetensors");
  EXPECT_NE(error_of([&] { prepare_run(o); }).find("--model"), std::string::npos);
  o = options();
  o.log = folder_.path("no/folder/m.jsonl");
  EXPECT_NE(error_of([&] { prepare_run(o); }).find("--log"), std::string::npos);
  o = options();
  o.model = o.train_path;
  EXPECT_NE(error_of([&] { prepare_run(o); }), "");
  o = options();
  o.log = o.test_path;
  EXPECT_NE(error_of([&] { prepare_run(o); }), "");
}

TEST(MemoryPlan, SumsItsPartsAndSaturates) {
  MemoryPlan plan{1, 2, 3, 4, 10};
  EXPECT_EQ(plan.total(), 10U);
  EXPECT_NO_THROW(plan.require());
  plan.there = 9;
  EXPECT_THROW(plan.require(), UserError);
  plan.weights = ~0ULL;
  EXPECT_EQ(plan.total(), ~0ULL);
  EXPECT_THROW(plan.require(), UserError);
}

TEST(RunLog, WritesEachLineToDiskAtOnce) {
  const TempFolder folder;
  RunLog log(folder.path("log"));
  log.write({{"event", "start"}});
  EXPECT_EQ(read_bytes(folder.path("log")), "{\"event\":\"start\"}\n");
  EvaluationRecord record;
  record.epoch = 3;
  log.evaluated(record);
  EXPECT_EQ(read_log(folder.path("log")).back()["epoch"], 3);
  EXPECT_FALSE(read_log(folder.path("log")).back().contains("test"));
  EXPECT_NE(error_of([&] { RunLog bad(folder.path("no/log")); }).find("--log"), std::string::npos);
}

TEST(RunLog, ReportsAFullDisk) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP();
  RunLog log("/dev/full");
  log.write({{"event", "start"}});  // does not throw: the model is worth more than its log
  log.write({{"event", "end"}});
  EXPECT_NE(error_of([&] { log.require_whole(); }).find("make room"), std::string::npos);
}

}  // namespace
}  // namespace truemax
