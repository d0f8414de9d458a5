// Commands where several ranks run them.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/command.hpp"
#include "core/error.hpp"
#include "core/files.hpp"
#include "ranks/together.hpp"

namespace truemax {
namespace {

// Every rank reads the data from the start; a stream would give each of them something else.
void require_files(const Command& command) {
  const auto require = [](const std::string& path) {
    if (path == "-")
      throw UserError(
          "standard input is read by one process only; write it to a file that all ranks can read");
    if (is_stream(path))
      throw UserError(fmt::format(
          "{}: this is a pipe or a device, which only one process can read; write it to a file", path));
  };
  for (const Argument& argument : command.arguments) {
    if (argument.one != nullptr) require(*argument.one);
    if (argument.several != nullptr)
      for (const std::string& path : *argument.several) require(path);
  }
  for (const Option& option : command.table.options()) {
    if (option.value_name != "FILE") continue;
    const nlohmann::json value = option.to_json();
    if (value.is_string()) require(value.get<std::string>());
    if (value.is_array())
      for (const auto& path : value) require(path.get<std::string>());
  }
}

}  // namespace

int run_over_ranks(const Command& command) {
  Ranks& all = ranks();
  if (all.alone()) return command.run();
  if (command.over_ranks == OverRanks::refused)
    throw UserError(
        fmt::format("'{0}' runs in one process; start it without mpirun: truemax {0}", command.name));
  if (command.over_ranks == OverRanks::all) {
    require_files(command);
    return command.run();
  }
  int code = kSuccess;
  all.only_first([&] {
    OneRank one;
    const UseRanks use(one);
    code = command.run();
  });
  return all.broadcast_value(code);
}

}  // namespace truemax
