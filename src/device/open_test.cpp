// Choosing and opening a device, with an engine that runs on the CPU (tests/device/emulated.cpp) in place of
// a GPU's.
#include "device/open.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/error.hpp"

namespace truemax::device {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string message_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

std::string emulated() {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "libtruemax_emulated.so").string();
}

class Device : public ::testing::Test {
 protected:
  Device() { set("TRUEMAX_CUDA_LIBRARY", emulated()); }
  ~Device() override {
    for (const std::string& name : names_) unsetenv(name.c_str());
  }
  void set(const std::string& name, const std::string& value) {
    setenv(name.c_str(), value.c_str(), 1);
    names_.push_back(name);
  }
  // Of opening a card that the user asked for; auto must then be the CPU, for the same reason.
  std::string refusal(const Choice& choice) {
    const std::string said = message_of([&] { open(choice); });
    std::string why;
    EXPECT_EQ(open({Kind::automatic, choice.card}, &why), nullptr);
    EXPECT_THAT(said, HasSubstr(why));
    EXPECT_THAT(said, HasSubstr("--device cpu"));
    return said;
  }

 private:
  std::vector<std::string> names_;
};

TEST(DeviceChoice, IsReadFromItsText) {
  for (const char* const text : {"cpu", "auto", "cuda:0", "cuda:1", "cuda:17"})
    EXPECT_EQ(Choice::parse(text).text(), text);
  EXPECT_EQ(Choice::parse("cuda").text(), "cuda:0");
  EXPECT_EQ(Choice::parse("cuda:3").card, 3);
  for (const char* const text :
       {"", "gpu", "CUDA", "cuda:", "cuda:-1", "cuda:+1", "cuda: 1", "cuda:1x", "cuda:x", "cuda:1024",
        "cuda:99999999999999999999", "cuda1", "cpu:0", "auto:1"})
    EXPECT_THAT(message_of([&] { Choice::parse(text); }),
                AllOf(HasSubstr("--device"), HasSubstr("cpu, cuda, cuda:N, auto")))
        << text;
}

TEST_F(Device, CpuNeedsNoLibrary) {
  set("TRUEMAX_CUDA_LIBRARY", "/nowhere/library.so");
  EXPECT_EQ(open({Kind::cpu, 0}), nullptr);
}

TEST_F(Device, OpensACard) {
  const auto engine = open({Kind::cuda, 0});
  ASSERT_NE(engine, nullptr);
  EXPECT_EQ(engine->card().name, "the CPU");
  std::string why = "unchanged";
  EXPECT_NE(open({Kind::automatic, 0}, &why), nullptr);
  EXPECT_EQ(why, "");
  EXPECT_EQ(find().cards, 1);
}

TEST_F(Device, RefusesWithoutLibrary) {
  set("TRUEMAX_CUDA_LIBRARY", "/nowhere/library.so");
  EXPECT_THAT(
      refusal({Kind::cuda, 0}),
      AllOf(HasSubstr("--device cuda: "), HasSubstr("no /nowhere/library.so"), HasSubstr("./dev gpu build")));
  EXPECT_EQ(find().cards, 0);
}

TEST_F(Device, RefusesAFileThatIsNoLibrary) {
  set("TRUEMAX_CUDA_LIBRARY", "/proc/self/status");
  EXPECT_THAT(refusal({Kind::cuda, 0}), HasSubstr("/proc/self/status cannot be loaded"));
}

TEST_F(Device, RefusesAnotherLibrary) {
  set("TRUEMAX_CUDA_LIBRARY", "libm.so.6");
  EXPECT_THAT(refusal({Kind::cuda, 0}), HasSubstr("libm.so.6 is of another version"));
}

TEST_F(Device, RefusesAnotherVersion) {
  set("TRUEMAX_EMULATED_VERSION", "77");
  EXPECT_THAT(refusal({Kind::cuda, 0}), HasSubstr("is of another version of truemax; build it"));
}

TEST_F(Device, RefusesWithoutDriver) {
  set("TRUEMAX_EMULATED_CARDS", "-1");
  EXPECT_THAT(refusal({Kind::cuda, 0}),
              AllOf(HasSubstr("no NVIDIA driver"), HasSubstr("(no driver was found)")));
}

TEST_F(Device, RefusesWithoutCard) {
  set("TRUEMAX_EMULATED_CARDS", "0");
  EXPECT_THAT(refusal({Kind::cuda, 0}), HasSubstr("the driver finds no GPU"));
}

TEST_F(Device, RefusesACardThatIsNotThere) {
  EXPECT_THAT(refusal({Kind::cuda, 1}), HasSubstr("--device cuda:1: there is one card, cuda:0;"));
  set("TRUEMAX_EMULATED_CARDS", "2");
  EXPECT_THAT(refusal({Kind::cuda, 7}), HasSubstr("--device cuda:7: there are 2 cards, cuda:0 to cuda:1;"));
  EXPECT_NE(open({Kind::cuda, 1}), nullptr);
}

TEST_F(Device, RefusesABusyCard) {
  set("TRUEMAX_EMULATED_BUSY", "1");
  EXPECT_THAT(refusal({Kind::cuda, 0}), HasSubstr("--device cuda: the card is busy"));
}

// The class of an exception that is thrown in the library is known by its name here.
TEST_F(Device, ErrorsOfTheEngineAreCaughtHere) {
  const auto engine = open({Kind::cuda, 0});
  float one = 0;
  const HostWeights much{{&one, std::size_t{1} << 45}, {}, 16, 1310720};  // refused before it is read
  EXPECT_THAT(message_of([&] { engine->set_weights(much, false); }), HasSubstr("memory"));
}

}  // namespace
}  // namespace truemax::device
