#include "train/outputs.hpp"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>

#include "core/error.hpp"
#include "core/files.hpp"
#include "model/model_set.hpp"
#include "train/run_options.hpp"

namespace truemax {
namespace {

std::string log_beside(const std::string& model) {
  return std::filesystem::path(model).replace_extension(".jsonl").string();
}

// "out/m.jsonl" with "-diverged": "out/m-diverged.jsonl".
std::string with_ending(const std::string& path, const std::string& ending) {
  const std::filesystem::path p(path);
  return (p.parent_path() / (p.stem().string() + ending + p.extension().string())).string();
}

UserError taken(const char* option, const std::string& path) {
  return UserError(fmt::format(
      "--{} {}: another run is still writing there; wait for it, or give another name", option, path));
}

// A model, its index or a log may replace an older one, but not somebody's data after a slip of the keyboard.
void require_replaceable(const std::string& path, const char* option) {
  std::ifstream in(path, std::ios::binary);
  std::array<char, 9> head{};
  in.read(head.data(), head.size());
  const auto size = static_cast<std::size_t>(in.gcount());
  if (size == 0) return;
  const bool model = std::string_view(option) == "model", index = std::string_view(option) == "index";
  // A safetensors file: the length of a JSON object in 8 bytes, of which the upper ones are 0, and the
  // object.
  const bool same_kind =
      model ? size == head.size() && head[8] == '{' && head[6] == 0 && head[7] == 0 : head[0] == '{';
  if (!same_kind)
    throw UserError(fmt::format("--{} {}: this file exists and is not {}; give another name",
                                index ? "model" : option, path,
                                model   ? "a model"
                                : index ? "the index of one"
                                        : "a run log"));
}

// The log grows in a file of its own, which an earlier run may have left when it was killed; all logs begin
// alike. Anything else is somebody's file.
void require_own_part(const std::string& log, const std::string& part) {
  constexpr std::string_view kBegin = R"({"event":")";
  std::ifstream in(part, std::ios::binary);
  std::array<char, kBegin.size()> head{};
  in.read(head.data(), head.size());
  const std::string_view found(head.data(), static_cast<std::size_t>(in.gcount()));
  if (!kBegin.starts_with(found))
    throw UserError(fmt::format(
        "--log {}: the run would write to {} first, which exists and is not the log of a run that "
        "was killed; move it away, or give another name",
        log, part));
}

}  // namespace

bool is_model_there(const std::string& path) {
  return is_there(path) || is_there(index_name(path));
}

bool is_there(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(std::filesystem::symlink_status(path, error));
}

bool RunOutputs::claimed(Output& output, const std::string& path) {
  std::optional<Claim> claim = Claim::take(path);
  if (!claim) return false;
  output.path = path;
  output.claim = std::move(*claim);
  return true;
}

RunOutputs::RunOutputs(RunOptions& options) {
  for (const std::string& output : {options.model, options.log})
    if (output == "-")
      throw UserError("--model and --log take the name of a file or 'none', not '-'; give a name");
  log_beside_model_ = options.log.empty();
  if (log_beside_model_ && !options.saves()) options.log = "none";
  if (log_beside_model_ && options.saves() && !options.model.empty()) options.log = log_beside(options.model);
  log_streams_ = options.logs() && !log_beside_model_ && is_stream(options.log);
  // The size is not known yet, only whether the paths can be written.
  const std::string model = options.model.empty() ? "model.safetensors" : options.model;
  if (options.saves()) require_writable(options.split_model ? index_name(model) : model, 0, "model");
  if (options.logs() && !options.log.empty() && !log_streams_) require_writable(options.log, 0, "log");
}

void RunOutputs::claim(RunOptions& options, std::vector<std::string>& notes) {
  if (options.model.empty()) {
    for (int i = 1;; ++i) {
      const std::string model = i == 1 ? "model.safetensors" : fmt::format("model-{}.safetensors", i);
      const std::string log = log_beside_model_ ? log_beside(model) : "";
      if (log.empty() && options.logs() && same_file(model, options.log)) continue;
      const auto free = [&] { return !is_model_there(model) && (log.empty() || !is_there(log)); };
      // Checked again under the claim: the run that held it may just have ended and left its files.
      if (free() && claimed(model_, model) && (log.empty() || claimed(log_, log)) && free()) break;
      model_ = {}, log_ = {};
    }
    options.model = model_.path;
    if (log_beside_model_) options.log = log_.path;
  } else if (options.saves() && !claimed(model_, options.model)) {
    throw taken("model", options.model);
  }
  if (log_streams_)
    log_.path = options.log;
  else if (options.logs() && !log_.wanted() && !claimed(log_, options.log))
    throw taken("log", options.log);
  if (model_.wanted()) {
    require_replaceable(model_.path, "model");
    require_replaceable(index_name(model_.path), "index");
  }
  if (log_.wanted() && !log_streams_) {
    require_replaceable(log_.path, "log");
    require_own_part(log_.path, log_.claim.part());
  }
  if ((model_.wanted() && !model_.claim.protects()) ||
      (log_.wanted() && !log_streams_ && !log_.claim.protects()))
    notes.emplace_back(
        "this file system has no locks: another run that writes the same files would not be noticed");
}

const std::string& RunOutputs::growing_log() const {
  return log_streams_ ? log_.path : log_.claim.part();
}

void RunOutputs::step_aside(const char* why, bool with_model) {
  const bool old_model = model_.wanted() && is_model_there(model_.path);
  const bool moves_log = log_.wanted() && !log_streams_;
  const bool old_log = moves_log && is_there(log_.path);
  // A log without --log stays beside its model, so that it is not mistaken for the log of another model.
  const bool both = log_beside_model_ && (old_model || old_log);
  const bool model = with_model && model_.wanted() && (old_model || both);
  const bool log = moves_log && (old_log || both);
  if (!model && !log) return;
  for (int i = 1;; ++i) {
    const std::string ending = i == 1 ? fmt::format("-{}", why) : fmt::format("-{}-{}", why, i);
    const std::string new_model = with_ending(model_.path, ending), new_log = with_ending(log_.path, ending);
    const auto free = [&] { return !(model && is_model_there(new_model)) && !(log && is_there(new_log)); };
    Output model_there, log_there;
    if (!free() || (model && !claimed(model_there, new_model)) || (log && !claimed(log_there, new_log)) ||
        !free())
      continue;
    if (model) model_ = std::move(model_there);
    if (log) log_.path = new_log, other_log_ = std::move(log_there.claim);
    return;
  }
}

void RunOutputs::publish_log() {
  if (!log_.wanted() || log_streams_) return;
  const std::string part = log_.claim.part();
  if (log_.claim.publish(other_log_.part().empty() ? "" : log_.path)) return;
  const int why = errno;
  throw UserError(fmt::format("--log {}: renaming it failed: {}; it is in {}: move it from there", log_.path,
                              std::strerror(why), part));
}

}  // namespace truemax
