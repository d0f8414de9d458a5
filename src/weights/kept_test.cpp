#include "weights/kept.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/error.hpp"

namespace truemax {
namespace {

TEST(KeptWeights, RestoresTheLastCopyBitForBit) {
  for (const std::string& place : {std::string(), std::string(".")})
    for (const bool intercept : {false, true}) {
      Weights w(37, 5, intercept);
      w.allow_scaling();
      KeptWeights best(place);
      for (int round = 1; round <= 2; ++round) {  // the second replaces the first
        float value = static_cast<float>(round);
        for (float& v : w.memory()) v = value += 0.25F;
        for (float& v : w.intercept()) v = value += 0.5F;
        w.scale_all(0.5);
        w.scale_class(3, 0.1);
        best.keep(w);
      }
      const std::vector<float> memory(w.memory().begin(), w.memory().end());
      const std::vector<float> intercepts(w.intercept().begin(), w.intercept().end());
      const double scale = w.scale(3), other = w.scale(0);
      for (float& v : w.memory()) v = -1;
      for (float& v : w.intercept()) v = -1;
      w.scale_all(0.3);
      w.scale_class(0, 0.3);
      best.restore(w);
      EXPECT_TRUE(std::equal(memory.begin(), memory.end(), w.memory().begin()));
      EXPECT_TRUE(std::equal(intercepts.begin(), intercepts.end(), w.intercept().begin()));
      EXPECT_EQ(w.scale(3), scale);
      EXPECT_EQ(w.scale(0), other);

      // Saved and loaded, also from a file into memory.
      StateBuffer bytes;
      best.write(bytes);
      KeptWeights again{std::string()};
      again.read(bytes);
      Weights same(37, 5, intercept);
      same.allow_scaling();
      again.restore(same);
      EXPECT_TRUE(std::equal(memory.begin(), memory.end(), same.memory().begin()));
      EXPECT_TRUE(std::equal(intercepts.begin(), intercepts.end(), same.intercept().begin()));
      EXPECT_EQ(same.scale(3), scale);
    }
}

TEST(KeptWeights, ErrorNamesTheFolderAndMemoryLimit) {
  const Weights w(3, 3, false);
  KeptWeights best("/there/is no such folder");
  try {
    best.keep(w);
    FAIL() << "kept";
  } catch (const UserError& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("/there/is no such folder failed"), std::string::npos) << message;
    EXPECT_NE(message.find("--memory-limit"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace truemax
