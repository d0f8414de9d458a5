#include "train/run_log.hpp"

#include <cerrno>
#include <cstring>

#include "core/error.hpp"

namespace truemax {

RunLog::RunLog(const std::string& path) : path_(path), file_(std::fopen(path.c_str(), "we")) {
  if (!file_) throw UserError("--log " + path + ": " + std::strerror(errno) + "; choose another place");
}

void RunLog::write(const nlohmann::ordered_json& event) {
  const std::string line = event.dump() + "\n";
  if (std::fwrite(line.data(), 1, line.size(), file_.get()) != line.size() || std::fflush(file_.get()) != 0)
    throw UserError("--log " + path_ + ": writing it failed: " + std::strerror(errno) +
                    "; make room or choose another place, and run the command again");
}

void RunLog::evaluated(const EvaluationRecord& record) {
  nlohmann::ordered_json event{{"event", "evaluate"},
                               {"epoch", record.epoch},
                               {"train_seconds", record.train_seconds},
                               {"train", record.train.to_json()}};
  if (record.test) event["test"] = record.test->to_json();
  write(event);
}

}  // namespace truemax
