// Properties of every command and every option.
#include <gtest/gtest.h>

#include <set>

#include "cli/command.hpp"

namespace truemax {
namespace {

TEST(EveryOption, HasAGroupAndHelpText) {
  std::size_t seen = 0;
  for (const Command& command : all_commands())
    for (const Option& option : command.table.options()) {
      ++seen;
      EXPECT_FALSE(option.group.empty()) << command.name << " --" << option.name << ": name its group";
      EXPECT_FALSE(option.help.empty()) << command.name << " --" << option.name;
      EXPECT_EQ(option.is_switch, option.value_name.empty()) << command.name << " --" << option.name;
    }
  EXPECT_GT(seen, 100U);
}

TEST(EveryOption, HasAUniqueName) {
  for (const Command& command : all_commands()) {
    std::set<std::string> names;
    for (const Option& option : command.table.options()) {
      EXPECT_TRUE(names.insert(option.name).second) << command.name << " --" << option.name;
      EXPECT_EQ(command.table.find(option.tags.former_name), nullptr) << option.tags.former_name;
    }
  }
}

TEST(EveryCommand, HasJson) {
  for (const Command& command : all_commands()) {
    const Option* json = command.table.find("json");
    ASSERT_NE(json, nullptr) << command.name;
    EXPECT_TRUE(json->is_switch) << command.name;
  }
}

}  // namespace
}  // namespace truemax
