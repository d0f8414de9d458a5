// Commands where several ranks run them.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/command.hpp"
#include "core/error.hpp"
#include "core/files.hpp"
#include "ranks/ranks.hpp"
#include "truemax/version.hpp"

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
    if (option.value_name != "FILE" || option.tags.output) continue;
    const nlohmann::json value = option.to_json();
    if (value.is_string()) require(value.get<std::string>());
    if (value.is_array())
      for (const auto& path : value) require(path.get<std::string>());
  }
}

std::string value_of(const Option& option) {
  const nlohmann::json value = option.to_json();
  std::string text = value.is_string() ? value.get<std::string>()
                                       : value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  // Machines may have the same file under different names.
  const bool file = option.value_name == "FILE" && !text.empty() && text != "[]" && text != "none";
  return file ? "a file" : text;
}

// What decides which messages ranks send to each other. Threads and memory are those of a machine.
void require_same_options(const OptionTable& table) {
  std::vector<Named> own;
  for (const Option& option : table.options())
    if (!option.tags.of_machine) own.push_back({"--" + option.name, value_of(option)});
  ranks().require_same("options", own);
}

}  // namespace

void require_same_command(const std::string& name) {
  ranks().require_same("program", {{"the version", kVersion}});
  ranks().require_same("command", {{"it", name}});
}

int run_over_ranks(const Command& command) {
  Ranks& all = ranks();
  if (!all.in_groups()) return command.run();
  require_same_options(command.table);
  if (command.over_ranks == OverRanks::refused)
    throw UserError(
        fmt::format("'{0}' runs in one process; start it without mpirun: truemax {0}", command.name));
  if (command.over_ranks == OverRanks::all) {
    if (!all.alone()) require_files(command);
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
