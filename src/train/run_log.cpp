#include "train/run_log.hpp"

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/error.hpp"

namespace truemax {

RunLog::RunLog(const std::string& path, const std::string& name) : name_(name.empty() ? path : name) {
  if (path == "none") return;
  file_.reset(std::fopen(path.c_str(), "we"));
  if (!file_) throw UserError("--log " + name_ + ": " + std::strerror(errno) + "; choose another place");
}

void RunLog::write(const nlohmann::ordered_json& event) {
  // Paths need not be UTF-8; invalid bytes are replaced.
  append(event.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

void RunLog::write_lines(const std::string& earlier) {
  append(earlier);
}

void RunLog::append(const std::string& text) {
  if (keeps_) lines_ += text;
  if (!failure_.empty() || !file_) return;
  if (std::fwrite(text.data(), 1, text.size(), file_.get()) != text.size() || std::fflush(file_.get()) != 0)
    failure_ = "--log " + name_ + ": writing it failed: " + std::strerror(errno);
}

void RunLog::require_begun() const {
  if (!failure_.empty())
    throw UserError(failure_ + "; nothing was trained: make room, choose another place, or give --log none");
}

void RunLog::require_whole() const {
  if (!failure_.empty())
    throw UserError(
        failure_ +
        "; its later lines are missing: make room or choose another place, and run the command again");
}

nlohmann::ordered_json trial_event(const SearchTrial& t) {
  return {{"event", "trial"},         {"about", t.about},       {"number", t.number},  {"hidden", t.hidden},
          {"step", t.step},           {"ridge", t.ridge},       {"rows", t.rows},      {"steps", t.steps},
          {"judged_on", t.judged_on}, {"log_loss", t.log_loss}, {"seconds", t.seconds}};
}

nlohmann::ordered_json evaluate_event(const EvaluationRecord& record) {
  nlohmann::ordered_json event{{"event", "evaluate"},
                               {"epoch", record.epoch},
                               {"steps", record.steps},
                               {"train_seconds", record.train_seconds}};
  if (record.best) event["best"] = true;
  if (record.train) event["train"] = record.train->to_json();
  if (record.valid) event["valid"] = record.valid->to_json();
  if (record.test) event["test"] = record.test->to_json();
  return event;
}

void RunLog::tried(const SearchTrial& trial) {
  write(trial_event(trial));
}

void RunLog::evaluated(const EvaluationRecord& record) {
  write(evaluate_event(record));
}

}  // namespace truemax
