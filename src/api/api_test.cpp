// The public interface: what it refuses, and that it trains like the command line.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "data/generate.hpp"
#include "model/model.hpp"
#include "train/run.hpp"
#include "truemax/truemax.hpp"

namespace truemax::api {
namespace {

using ::testing::HasSubstr;

class Api : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name)) << text;
    return path(name);
  }
  static std::string message_of(const std::function<void()>& work) {
    try {
      work();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  const std::string folder_ = ::testing::TempDir() + "truemax-api-" + std::to_string(getpid());
  const Options libsvm_{{"format", "libsvm"}};
};

const char* const kRows = "a 1:1 2:2\na 1:1\nb 2:1\nb 3:1\na 3:2\n";

TEST_F(Api, RefusesDataThatDoNotMatchTheModel) {
  const Data data = Data::read(write("train.txt", kRows), libsvm_);
  const Model model = Model::train(data, {{"epochs", "2"}});
  EXPECT_EQ(model.evaluate(data).rows, 5U);
  EXPECT_EQ(model.evaluate(Data::read(path("train.txt"), libsvm_)).rows, 5U) << "the same file read again";
  const auto refused = [&](const Data& other) {
    EXPECT_THAT(message_of([&] { model.evaluate(other); }), HasSubstr("read them with Data::read_for"));
  };
  // The same number of classes and features, but in another order.
  refused(Data::read(write("order.txt", "b 1:1 2:2\nb 1:1\na 2:1\na 3:1\nb 3:2\n"), libsvm_));
  refused(Data::read(path("train.txt"), {{"format", "libsvm"}, {"normalize", "l2"}}));
  EXPECT_EQ(model.evaluate(Data::read_for(model, path("order.txt"))).rows, 5U);

  const Data words = Data::read(write("words.txt", "__label__a one two\n__label__b two\n"));
  const Model of_words = Model::train(words, {{"epochs", "2"}});
  const Data others = Data::read(write("others.txt", "__label__a six two\n__label__b two\n"));
  EXPECT_THAT(message_of([&] { of_words.evaluate(others); }), HasSubstr("Data::read_for"));
}

TEST_F(Api, ModelFileMatchesTheCommandLine) {
  write("train.txt", kRows);
  for (const Options& options : {Options{{"epochs", "3"}}, Options{{"epochs", "3"}, {"step", "2"}}}) {
    Options here = options;
    here["threads"] = "1";
    Model::train(Data::read(path("train.txt"), libsvm_), here).save(path("api.safetensors"));
    RunOptions run;
    run.train_path = path("train.txt");
    run.read.format = Format::libsvm;
    run.asked.epochs = 3;
    if (options.count("step") > 0) run.asked.step = 2;
    run.model = path("run.safetensors");
    run.log = "none";
    PreparedRun prepared = prepare_run(run);
    const std::atomic<bool> stop{false};
    execute_run(prepared, {}, stop);
    const auto bytes = [&](const char* name) {
      std::ifstream in(path(name), std::ios::binary);
      return std::string(std::istreambuf_iterator<char>(in), {});
    };
    EXPECT_EQ(read_model_metadata(path("api.safetensors")), read_model_metadata(path("run.safetensors")));
    EXPECT_EQ(bytes("api.safetensors"), bytes("run.safetensors"));
  }
}

TEST_F(Api, EarlyStoppingMatchesTheCommandLine) {
  GenerateOptions generate;
  generate.rows = 200, generate.features = 60, generate.classes = 6;
  generate_file(generate, Part::train, 1, path("g.txt"));
  const Data data = Data::read(path("g.txt"));
  const Options options{{"method", "implicit"}, {"step", "5"},          {"decay", "1"},  {"epochs", "100"},
                        {"patience", "2"},      {"valid-share", "0.3"}, {"threads", "1"}};
  std::vector<Evaluation> seen;
  const Model model = Model::train(data, options, [&](const Evaluation& e) {
    seen.push_back(e);
    return true;
  });
  ASSERT_GT(seen.size(), 3U);
  EXPECT_LT(seen.size(), 100U);
  EXPECT_TRUE(seen.back().best && seen.back().train && seen.back().valid);
  EXPECT_FALSE(seen.front().train);
  for (const Evaluation& e : seen) EXPECT_GE(e.valid->log_loss, seen.back().valid->log_loss);
  EXPECT_EQ(seen.back().steps, seen.back().epoch * 140);
  model.save(path("api.safetensors"));
  RunOptions run;
  run.train_path = path("g.txt");
  run.asked.method = "implicit", run.asked.step = 5, run.asked.decay = 1, run.asked.epochs = 100;
  run.asked.patience = 2, run.asked.valid_share = 0.3;
  run.model = path("run.safetensors");
  run.log = "none";
  PreparedRun prepared = prepare_run(run);
  const std::atomic<bool> stop{false};
  const FinishedRun finished = execute_run(prepared, {}, stop);
  EXPECT_EQ(finished.outcome.last->epoch, seen.back().epoch);
  EXPECT_EQ(finished.outcome.last->train->log_loss, seen.back().train->log_loss);
  EXPECT_EQ(read_model_metadata(path("api.safetensors")), read_model_metadata(path("run.safetensors")));
  EXPECT_THAT(message_of([&] {
                Model::train(data, {{"method", "implicit"}, {"patience", "2"}});
              }),
              HasSubstr("--valid-share"));
}

TEST_F(Api, ValidatesOnASeparateFile) {
  GenerateOptions generate;
  generate.rows = 200, generate.test_rows = 100, generate.features = 60, generate.classes = 6;
  generate_file(generate, Part::train, 1, path("g.txt"));
  generate_file(generate, Part::test, 1, path("v.txt"));
  const Data data = Data::read(path("g.txt"), {{"normalize", "l2"}});
  const Data valid = Data::read_beside(data, path("v.txt"));
  const Options options{
      {"method", "implicit"}, {"step", "30"}, {"decay", "1"}, {"epochs", "100"}, {"patience", "2"}};
  double best = 1e9, final = 0;
  const Model model = Model::train(data, valid, options, [&](const Evaluation& e) {
    best = std::min(best, e.valid->log_loss);
    final = e.valid->log_loss;
    return true;
  });
  EXPECT_EQ(final, best);
  EXPECT_EQ(model.evaluate(Data::read_for(model, path("v.txt"))).log_loss, best);
  EXPECT_THAT(message_of([&] {
                Model::train(data, valid, {{"valid-share", "0.1"}});
              }),
              HasSubstr("leave one of the two out"));
  EXPECT_THAT(message_of([&] { Model::train(data, Data::read(path("v.txt"))); }),
              HasSubstr("Data::read_beside"));
}

TEST_F(Api, StepsOfATimedRunRepeatIt) {
  const Data data = Data::read(write("train.txt", kRows), libsvm_);
  std::uint64_t steps = 0;
  const auto count = [&](const Evaluation& e) {
    steps = e.steps;
    return true;
  };
  Model::train(data, {{"method", "implicit"}, {"seconds", "0.05"}, {"threads", "1"}}, count)
      .save(path("a.safetensors"));
  const double loss = Model::load(path("a.safetensors")).evaluate(data).log_loss;
  // A slow machine may take no step at all, and "steps" 0 would mean no limit.
  const Options repeated = steps > 0 ? Options{{"method", "implicit"}, {"steps", std::to_string(steps)}}
                                     : Options{{"method", "implicit"}, {"epochs", "0"}};
  EXPECT_EQ(Model::train(data, repeated).evaluate(data).log_loss, loss);
}

TEST_F(Api, WeightsMatchTheCommandLine) {
  const std::string weights = write("w.txt", "1\n2\n0\n3\n0.5\n");
  Options options = libsvm_;
  options["row-weights"] = weights;
  options["class-weights"] = "balanced";
  const Data data = Data::read(write("train.txt", kRows), options);
  EXPECT_EQ(data.rows(), 4U) << "a row of weight 0 is dropped";
  const Model model = Model::train(data, {{"epochs", "3"}, {"threads", "1"}});
  model.save(path("api.safetensors"));
  RunOptions run;
  run.train_path = path("train.txt");
  run.read.format = Format::libsvm;
  run.read.row_weights = weights;
  run.class_weights = "balanced";
  run.asked.epochs = 3;
  run.model = path("run.safetensors");
  run.log = "none";
  PreparedRun prepared = prepare_run(run);
  const std::atomic<bool> stop{false};
  const FinishedRun finished = execute_run(prepared, {}, stop);
  const auto bytes = [&](const char* name) {
    std::ifstream in(path(name), std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  EXPECT_EQ(bytes("api.safetensors"), bytes("run.safetensors"));
  const Metrics again = model.evaluate(Data::read_for(model, path("train.txt"), options));
  const Data read = Data::read_for(model, path("train.txt"), options);
  EXPECT_EQ(again.log_loss, Model::load(path("run.safetensors")).evaluate(read).log_loss);
  EXPECT_NEAR(again.log_loss, finished.outcome.last->train->log_loss, 1e-6);
  EXPECT_EQ(again.precision_at_1, model.evaluate(data).precision_at_1);
  EXPECT_NE(again.log_loss, model.evaluate(Data::read_for(model, path("train.txt"), libsvm_)).log_loss);
  options["row-weights"] = write("bad.txt", "1\n2\n-3\n4\n5\n");
  EXPECT_THAT(message_of([&] { Data::read(path("train.txt"), options); }),
              HasSubstr("bad.txt:3: weight '-3'"));
  EXPECT_THAT(message_of([&] { model.predict(path("train.txt"), 1, options); }),
              HasSubstr("there is no option"));
}

TEST_F(Api, TakesPlainTextAndTriples) {
  std::string text, triples;
  for (int i = 0; i < 200; ++i) {
    text += i % 3 == 0 ? "the cat sat\n" : "a dog ran off\n";
    triples += fmt::format("e{}\tr\te{}\n", i % 20, (i + 1) % 20);
  }
  const Options fit{{"hidden", "4"}, {"epochs", "2"}, {"step", "0.01"}, {"dropout", "0"}, {"threads", "1"}};
  for (const char* const encoder : {"context", "cbow", "skipgram"}) {
    const Data data =
        Data::read(write("t.txt", text), {{"format", "text"}, {"encoder", encoder}, {"context", "2"}});
    Options options = fit;
    options.insert({{"tied", "off"}, {"layers", "0"}});
    const Model model = Model::train(data, options);
    EXPECT_LT(model.evaluate(data).log_loss, std::log(model.classes())) << encoder;
    model.save(path("t.safetensors"));
    EXPECT_EQ(read_model_metadata(path("t.safetensors"))["features"]["encoder"], encoder);
    const Data again = Data::read_for(model, path("t.txt"));
    EXPECT_EQ(again.examples(), data.examples()) << encoder;
  }
  const Data words = Data::read(path("t.txt"), {{"format", "text"}});
  EXPECT_THAT(message_of([&] { Model::train(words, {{"encoder", "cbow"}}); }), HasSubstr("Data::read"));
  const Data graph = Data::read(write("g.tsv", triples), {{"format", "triples"}});
  const Model model =
      Model::train(graph, {{"hidden", "8"}, {"epochs", "5"}, {"step", "0.05"}, {"ridge", "0"}});
  EXPECT_LT(model.evaluate(Data::read_for(model, path("g.tsv"))).log_loss, std::log(20.0));
}

TEST_F(Api, TrainAndLoadRespectTheMemoryLimit) {
  const Data data = Data::read(write("train.txt", kRows), libsvm_);
  EXPECT_THAT(message_of([&] { Model::train(data, {{"memory-limit", "1K"}}); }), HasSubstr("this run needs"));
  const Model model = Model::train(data, {{"epochs", "1"}});
  model.save(path("m.safetensors"));
  EXPECT_THAT(message_of([&] {
                Model::load(path("m.safetensors"), {{"memory-limit", "1"}});
              }),
              HasSubstr("--memory-limit"));
  EXPECT_EQ(Model::load(path("m.safetensors"), {{"memory-limit", "1G"}}).classes(), 2U);
}

TEST_F(Api, ReadingStopsAtTheMemoryLimit) {
  const Data data = Data::read(write("train.txt", kRows), libsvm_);
  const Model model = Model::train(data, {{"epochs", "1"}});
  std::string text;
  for (int i = 0; i < 600000; ++i) text += i % 2 == 0 ? "1 1:1 2:2\n" : "2 1:3\n";
  write("large.txt", text);
  const Options limit{{"memory-limit", "17M"}, {"format", "libsvm"}};
  for (const auto& message : {message_of([&] { Data::read(path("large.txt"), limit); }),
                              message_of([&] { Data::read_for(model, path("large.txt"), limit); }),
                              message_of([&] { Data::read_beside(data, path("large.txt"), limit); })})
    EXPECT_THAT(message, AllOf(HasSubstr("large.txt:"), HasSubstr("--memory-limit is 17 MB"),
                               HasSubstr("--max-rows")));
  EXPECT_EQ(model.predict(path("large.txt"), 1, limit).size(), 600000U) << "predicted a batch at a time";
}

TEST_F(Api, RefusesGroupsOfAMethodWithoutThemBeforeAnyWork) {
  const Data data = Data::read(write("data", kRows), libsvm_);
  EXPECT_THAT(message_of([&] {
                Model::train(data, {{"method", "implicit"}, {"step", "1"}, {"epochs", "1"}, {"group", "2"}});
              }),
              HasSubstr("has no groups"));
}

TEST_F(Api, PlansAreOfWhatIsTrained) {
  const Data data = Data::read(write("train.txt", kRows), libsvm_);
  const Options options{{"method", "prox"}, {"epochs", "2"}, {"delta", "3"}};
  const Plan plan = Model::plan(data, options);
  EXPECT_THAT(plan.text, HasSubstr("2 epochs"));
  EXPECT_THAT(plan.json, HasSubstr("\"solver\":"));
  ASSERT_EQ(plan.notes.size(), 1U);
  EXPECT_THAT(plan.notes[0], HasSubstr("--delta has no effect on prox"));
  const Model model = Model::train(data, options);
  EXPECT_EQ(model.notes(), plan.notes);
  model.save(path("m.safetensors"));
  EXPECT_TRUE(Model::load(path("m.safetensors")).notes().empty());
  EXPECT_THAT(message_of([&] {
                Model::plan(data, {{"method", "prox"}, {"rows-per-step", "2"}});
              }),
              HasSubstr("--rows-per-step 2"));
}

TEST_F(Api, ReportsNotesFromReading) {
  // Could be LSHTC as well.
  const Data data = Data::read(write("train.txt", "1,2 1:1 2:2\n2 1:1\n3 2:1\n"));
  ASSERT_EQ(data.notes().size(), 1U);
  EXPECT_THAT(data.notes()[0], HasSubstr("--format lshtc"));
  EXPECT_TRUE(Data::read(path("train.txt"), libsvm_).notes().empty());
  const Model model = Model::train(Data::read(write("words.txt", "__label__a one two\n__label__b two\n")));
  std::vector<std::string> notes;
  model.predict(write("others.txt", "__label__a six two\n"), 1, {}, &notes);
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_THAT(notes[0], HasSubstr("1 words not seen in training"));
}

}  // namespace
}  // namespace truemax::api
