// Run logs as pages: the page shows what the logs contain, and nothing in a log can break out of it.
#include "report/run_page.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "core/error.hpp"
#include "report/page.hpp"

namespace truemax {
namespace {

class RunPage : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              ("truemax-page-" + std::to_string(testing::UnitTest::GetInstance()->random_seed()) + "-" +
               testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  std::filesystem::path folder_;
};

constexpr const char* kStart =
    R"({"event":"start","config":{"train":"d/a.txt","method":"umax","step":0.5,"rows-per-step":1,)"
    R"("classes-per-step":5,"draw":"uniform","seed":3},"data":{"rows":10,"features":4,"classes":3}})";
constexpr const char* kFirst =
    R"({"event":"evaluate","epoch":5,"train_seconds":0.5,"train":{"log_loss":2.5,"error":0.5}})";
constexpr const char* kSecond =
    R"({"event":"evaluate","epoch":10,"train_seconds":1,"train":{"log_loss":1.25,"error":0.25},)"
    R"("test":{"log_loss":2,"error":0.75}})";

std::string lines(std::initializer_list<const char*> list) {
  std::string text;
  for (const char* line : list) text += std::string(line) + "\n";
  return text;
}

TEST_F(RunPage, TableHasLastEvaluationCurvesHaveAll) {
  const ReportedRun run =
      read_reported_run(write("one.jsonl", lines({kStart, kFirst, kSecond, R"({"event":"end"})"})));
  EXPECT_EQ(run.ending, "");
  const auto page = run_page(std::vector{run});
  ASSERT_EQ(page["sections"].size(), 1U);
  const auto& section = page["sections"][0];
  EXPECT_EQ(section["title"], "a.txt");
  const auto& row = section["tables"][0]["rows"][0];
  ASSERT_EQ(row.size(), section["tables"][0]["columns"].size());
  EXPECT_EQ(row[1], "umax");
  EXPECT_EQ(row[4], "1 x 5 uniform");
  EXPECT_EQ(row[9], 1.25);
  EXPECT_TRUE(row[11].is_null());  // no validation rows
  EXPECT_EQ(row[13], 2);
  EXPECT_EQ(row[15], "");
  // train and test log-loss along epochs and seconds, both errors along epochs
  ASSERT_EQ(section["plots"].size(), 6U);
  EXPECT_EQ(section["plots"][0]["lines"][0]["points"].dump(), "[[5,2.5],[10,1.25]]");
  EXPECT_EQ(section["plots"][0]["lines"][0]["group"], "umax");
  EXPECT_EQ(section["plots"][2]["id"], "train-log_loss-seconds-0");
  EXPECT_EQ(section["plots"][2]["lines"][0]["points"].dump(), "[[0.5,2.5],[1,1.25]]");
}

TEST_F(RunPage, ShowsTheOptionsOfTheFit) {
  constexpr const char* kChosen =
      R"({"event":"chosen","config":{"train":"d/a.txt","method":"prox","step":328,"ridge":0.5,"rows-per-step":1,)"
      R"("classes-per-step":16,"draw":"head-blocks","seed":3},"plan":{"solver":"block"}})";
  constexpr const char* kNewton =
      R"({"event":"chosen","config":{"train":"d/a.txt","method":"prox","step":0.1,"ridge":2,"rows-per-step":1,)"
      R"("newton":100,"epochs":0,"seed":3},"plan":{"solver":"newton"}})";
  const ReportedRun steps = read_reported_run(write("steps.jsonl", lines({kStart, kChosen, kFirst})));
  const ReportedRun newton = read_reported_run(write("newton.jsonl", lines({kStart, kNewton, kFirst})));
  const auto page = run_page(std::vector{steps, newton});
  const auto& rows = page["sections"][0]["tables"][0]["rows"];
  EXPECT_EQ(rows[0][1], "prox");
  EXPECT_EQ(rows[0][2], 328);
  EXPECT_EQ(rows[0][3], 0.5);
  EXPECT_EQ(rows[0][4], "1 x 16 head-blocks");
  EXPECT_EQ(rows[0][5], "block");
  EXPECT_EQ(rows[1][1], "newton");
  EXPECT_TRUE(rows[1][2].is_null());
  EXPECT_EQ(rows[1][4], "all x all");
}

TEST_F(RunPage, HasASectionForEachDataSet) {
  std::string other = kStart;
  other.replace(other.find("a.txt"), 5, "b.txt");
  const ReportedRun a = read_reported_run(write("a.jsonl", lines({kStart, kFirst})));
  const ReportedRun b = read_reported_run(write("b.jsonl", lines({other.c_str(), kFirst})));
  const auto page = run_page(std::vector{a, b, a});
  ASSERT_EQ(page["sections"].size(), 2U);
  EXPECT_EQ(page["sections"][0]["tables"][0]["rows"].size(), 2U);
  EXPECT_EQ(page["sections"][1]["title"], "b.txt");
  EXPECT_EQ(page["sections"][0]["tables"][0]["rows"][0][15], "unfinished");
}

TEST_F(RunPage, ReadsALogThatIsStillBeingWritten) {
  const ReportedRun run =
      read_reported_run(write("going.jsonl", lines({kStart, kFirst}) + R"({"event":"eval)"));
  EXPECT_EQ(run.evaluations.size(), 1U);
  EXPECT_EQ(run.ending, "unfinished");
}

TEST_F(RunPage, MarksDivergedAndStoppedRuns) {
  const std::vector<std::pair<const char*, const char*>> ends{
      {R"({"event":"end","diverged":"","interrupted":false})", ""},
      {R"({"event":"end","diverged":"umax diverged at step 3","interrupted":false})", "diverged"},
      {R"({"event":"end","diverged":"","interrupted":true})", "stopped"}};
  for (const auto& [event, wanted] : ends)
    EXPECT_EQ(read_reported_run(write("end.jsonl", lines({kStart, event}))).ending, wanted) << event;
}

TEST_F(RunPage, RefusesFilesThatAreNotLogs) {
  const std::vector<std::string> bad{"",
                                     "hello\n",
                                     "[1]\n",
                                     "{}\n",
                                     lines({kFirst}),
                                     lines({kStart, kStart}),
                                     R"({"event":"start"})",
                                     lines({kStart}) + "broken\n" + lines({kFirst})};
  for (const std::string& text : bad)
    EXPECT_THROW(read_reported_run(write("bad.jsonl", text)), UserError) << text;
  EXPECT_THROW(read_reported_run((folder_ / "none.jsonl").string()), UserError);
  EXPECT_THROW(read_reported_run(folder_.string()), UserError);
}

TEST(Page, EscapesDataThatWouldEndTheScript) {
  const std::string html = page_html({{"title", "</script><script>alert(1)</script>\xff"}});
  EXPECT_EQ(html.find("</script><script>alert"), std::string::npos);
  EXPECT_NE(html.find("\\u003c/script>\\u003cscript>alert"), std::string::npos);
  EXPECT_EQ(html.find("/*DATA*/"), std::string::npos);
}

}  // namespace
}  // namespace truemax
