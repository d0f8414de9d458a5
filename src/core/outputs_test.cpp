// Outputs that several processes write at once, and leftovers of killed processes.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/claim.hpp"
#include "core/error.hpp"
#include "core/files.hpp"

namespace truemax {
namespace {

class Outputs : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "truemax-outputs-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ / name; }
  std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      names.insert(entry.path().filename());
    return names;
  }
  static std::string read(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  // Runs `work` in a child process and kills the child when the work is done.
  template <class Work>
  static void killed_after(const Work& work) {
    int done[2];
    ASSERT_EQ(pipe(done), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      work();
      static_cast<void>(!write(done[1], "x", 1));
      for (;;) pause();
    }
    char byte = 0;
    ASSERT_EQ(::read(done[0], &byte, 1), 1);
    ASSERT_EQ(kill(child, SIGKILL), 0);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    close(done[0]), close(done[1]);
  }
  std::filesystem::path folder_;
};

TEST_F(Outputs, ClaimIsExclusiveAndLeavesNoFile) {
  {
    const auto first = Claim::take(path("m"));
    ASSERT_TRUE(first);
    EXPECT_TRUE(first->protects());
    EXPECT_FALSE(Claim::take(path("m")));
    EXPECT_FALSE(Claim::take(path("./m")));
    EXPECT_TRUE(Claim::take(path("other")));
    EXPECT_EQ(files(), std::set<std::string>{"m.part"});
  }
  EXPECT_TRUE(files().empty());
  EXPECT_TRUE(Claim::take(path("m")));
}

TEST_F(Outputs, ClaimFollowsLinks) {
  std::ofstream(path("real")) << "x";
  std::filesystem::create_symlink("real", path("link"));
  const auto first = Claim::take(path("link"));
  EXPECT_FALSE(Claim::take(path("real")));
}

TEST_F(Outputs, ClaimOfAKilledProcessIsTakenOver) {
  killed_after([&] {
    auto* claim = new std::optional<Claim>(Claim::take(path("m")));
    std::ofstream((*claim)->part()) << "half a log";
  });
  EXPECT_EQ(read(path("m.part")), "half a log");
  auto claim = Claim::take(path("m"));
  ASSERT_TRUE(claim);
  std::ofstream(claim->part()) << "a log";
  EXPECT_TRUE(claim->publish());
  EXPECT_EQ(read(path("m")), "a log");
  EXPECT_EQ(files(), std::set<std::string>{"m"});
}

TEST_F(Outputs, ReleasingAClaimKeepsWhatWasWritten) {
  std::ofstream(Claim::take(path("m"))->part()) << "half a log";
  EXPECT_EQ(files(), std::set<std::string>{"m.part"});
}

TEST_F(Outputs, PublishingKeepsThePermissions) {
  std::ofstream(path("m")) << "old";
  std::filesystem::permissions(path("m"), std::filesystem::perms(0640));
  auto claim = Claim::take(path("m"));
  std::ofstream(claim->part()) << "new";
  ASSERT_TRUE(claim->publish());
  EXPECT_EQ(std::filesystem::status(path("m")).permissions(), std::filesystem::perms(0640));
  EXPECT_TRUE(Claim::take(path("m")));  // released
}

// Each thread opens, locks and removes the same name over and over; two must never hold it at once.
TEST_F(Outputs, RacingThreadsNeverShareAClaim) {
  std::atomic<int> holders{0}, both{0};
  std::atomic<std::uint64_t> got{0};
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 3000; ++i)
        if (const auto claim = Claim::take(path("m"))) {
          if (holders.fetch_add(1) > 0) ++both;
          ++got;
          holders.fetch_sub(1);
        }
    });
  threads.clear();
  EXPECT_EQ(both, 0);
  EXPECT_GT(got, 100U);
  EXPECT_TRUE(files().empty());
}

TEST_F(Outputs, SignalRemovesEmptyClaimsButNoStartedLog) {
  const auto empty = Claim::take(path("model")), begun = Claim::take(path("log"));
  std::ofstream(begun->part()) << "half a log";
  drop_claims_on_signal();
  EXPECT_EQ(files(), std::set<std::string>{"log.part"});
}

TEST_F(Outputs, FailedClaimSaysWhy) {
  std::filesystem::create_directory(path("m.part"));
  try {
    Claim::take(path("m"));
    ADD_FAILURE() << "taken";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("m.part"), std::string::npos) << error.what();
  }
}

// Temporaries need a name per writer: with one per process, two writers would share a file.
TEST_F(Outputs, ConcurrentWritersDoNotMix) {
  AtomicFile first(path("m")), second(path("m"));
  first.write_at(0, std::string(1000, 'a'));
  second.write_at(0, std::string(500, 'b'));
  first.commit();
  EXPECT_EQ(read(path("m")), std::string(1000, 'a'));
  second.commit();
  EXPECT_EQ(read(path("m")), std::string(500, 'b'));
  EXPECT_EQ(files(), std::set<std::string>{"m"});
}

TEST_F(Outputs, RemovesOnlyTheLeftoversOfKilledProcesses) {
  killed_after([&] { (new AtomicFile(path("m")))->write_at(0, std::string(1000, 'a')); });
  killed_after([&] { (new AtomicFile(path("n")))->write_at(0, std::string("x")); });
  ASSERT_EQ(files().size(), 2U);
  // Files that others may have created must stay.
  for (const char* name : {"m.tmp-123", "m.tmp-notours!", "m.tmp-0123456789"})
    std::ofstream(path(name)) << "x";
  AtomicFile live(path("m"));
  AtomicFile file(path("m"));
  file.write_at(0, std::string("new"));
  EXPECT_EQ(files().size(), 6U)
      << "the killed process's file is gone; n's, three other and two live ones remain";
  file.commit();
  live.write_at(0, std::string("newer"));
  live.commit();
  EXPECT_EQ(read(path("m")), "newer");
  EXPECT_EQ(files().size(), 5U);
}

// Some writers look for leftovers while others have created their file but not yet locked it.
TEST_F(Outputs, ConcurrentWritersAllSucceed) {
  std::vector<std::jthread> threads;
  std::atomic<int> failed{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) try {
          AtomicFile file(path("m"));
          file.write_at(0, std::string(10000, static_cast<char>('a' + t)));
          file.commit();
        } catch (const UserError&) {
          ++failed;
        }
    });
  threads.clear();
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(files(), std::set<std::string>{"m"});
  const std::string bytes = read(path("m"));
  EXPECT_EQ(bytes, std::string(10000, bytes.at(0)));
}

}  // namespace
}  // namespace truemax
