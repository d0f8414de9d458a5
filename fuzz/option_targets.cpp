// Options as words and as JSON, and run logs, which hold options.
#include <nlohmann/json.hpp>

#include "core/options.hpp"
#include "data/generate.hpp"
#include "model/use.hpp"
#include "target.hpp"
#include "targets.hpp"
#include "train/checkpoint.hpp"
#include "train/replay.hpp"
#include "train/resolve.hpp"
#include "train/run.hpp"
#include "train/start_values.hpp"

namespace truemax::fuzz {
namespace {

using Json = nlohmann::json;

// Text with bytes that are not UTF-8 cannot be JSON; they are replaced as in logs and models.
std::string dumped(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Describing all options takes longer than reading some, so it is done once.
struct Described {
  Described() { options.describe(table); }
  void reset() { options = RunOptions(); }

  RunOptions options;
  OptionTable table;
};

Described& described(std::size_t number) {
  static Described all[2];
  all[number].reset();
  return all[number];
}

// Options that were accepted have values that are accepted again, and checks that throw nothing but
// UserError.
void require_stable(Described& given) {
  const std::string text = dumped(given.table.to_json());
  Described& again = described(1);
  again.table.from_json(Json::parse(text));
  require(dumped(again.table.to_json()) == text, "options that are written and read again are the same");
  accepts("", [&] { given.options.preprocess.check(); });
  accepts("", [&] { parse_save_every(given.options.checkpoint_every); });
  accepts("", [&] { static_cast<void>(resolve_reading(given.options.asked, {}, {})); });
}

}  // namespace

// Lines of an option and its value, as in "step 0.1".
bool read_option_words(std::string_view bytes) {
  Described& given = described(0);
  static UseOptions use;
  static const OptionTable of_use = [] {
    OptionTable table;
    use.describe(table);
    return table;
  }();
  const bool read = accepts("", [&] {
    while (!bytes.empty()) {
      const std::string_view line = bytes.substr(0, bytes.find('\n'));
      bytes.remove_prefix(std::min(bytes.size(), line.size() + 1));
      const std::size_t blank = std::min(line.find(' '), line.size());
      const std::string_view name = line.substr(0, blank);
      const std::string_view value = line.substr(std::min(line.size(), blank + 1));
      const Option* option = given.table.find(name);
      if (option == nullptr) option = of_use.find(name);
      if (option == nullptr) option = given.table.find_other_name(name);
      if (option == nullptr) throw UserError("no such option");
      option->parse(value);
    }
  });
  if (read) require_stable(given);
  return read;
}

bool read_option_json(std::string_view bytes) {
  const Json json = Json::parse(bytes, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return false;
  Described& given = described(0);
  const bool read = accepts("", [&] { given.table.from_json(json); });
  if (read) require_stable(given);
  return read;
}

bool read_run_log(std::string_view bytes) {
  const MemoryFile file(bytes);
  const bool read = accepts(file.path(), [&] {
    const LoggedRun run = read_logged_run(file.path());
    require(run.config.is_object() && run.data.is_object(), "a log has options and data");
    std::uint64_t before = 0;
    for (const Segment& segment : run.recording.segments) {
      require(segment.step > 0 && segment.step <= kLargestStep, "a step is in its range");
      require(segment.first_step == 0 || segment.first_step > before, "segments follow each other");
      before = segment.first_step;
    }
  });
  if (!read) return false;
  Described& given = described(0);
  const bool replayed = accepts(file.path(), [&] {
    RunOptions beside;
    beside.replay = file.path();
    given.options = replayed_options(beside, {"replay"});
  });
  if (replayed) require_stable(given);
  return replayed;
}

}  // namespace truemax::fuzz
