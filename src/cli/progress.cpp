#include "cli/progress.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "cli/command.hpp"

namespace truemax {
namespace {

std::string clock_text(double seconds) {
  const auto s = std::lround(seconds);
  if (s >= 3600) return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
  return fmt::format("{}:{:02}", s / 60, s % 60);
}

std::string rate_text(double per_second) {
  if (per_second >= 1e6) return fmt::format("{:.2f}M", per_second / 1e6);
  if (per_second >= 1e3) return fmt::format("{:.1f}k", per_second / 1e3);
  return fmt::format("{:.0f}", per_second);
}

}  // namespace

bool ProgressLine::wanted() {
  return isatty(STDERR_FILENO) == 1;
}

bool ProgressLine::due() {
  const auto now = std::chrono::steady_clock::now();
  if (now - last_ < std::chrono::milliseconds(100)) return false;
  last_ = now;
  return true;
}

void ProgressLine::show(const std::string& text) {
  say(stderr, "\r\x1b[K{}", text);
  std::fflush(stderr);
  shown_ = true;
}

void ProgressLine::clear() {
  if (shown_) say(stderr, "\r\x1b[K");
  shown_ = false;
}

void RowProgress::show(ProgressLine& line, std::size_t rows, std::size_t of, const std::string& behind) {
  const auto now = std::chrono::steady_clock::now();
  if (started_ == std::chrono::steady_clock::time_point{})
    started_ = now;  // the first call comes after a little work
  if (!line.due()) return;
  const double share = static_cast<double>(rows) / static_cast<double>(of);
  const double seconds = std::chrono::duration<double>(now - started_).count();
  line.show(fmt::format("evaluating {:3.0f}%{}  {} left", 100 * share, behind,
                        clock_text(seconds / share * (1 - share))));
}

void TrainProgress::stepped(std::uint64_t epoch, std::uint64_t steps, std::uint64_t of,
                            double train_seconds) {
  if (!line_.due()) return;
  const double done = static_cast<double>(epoch) * static_cast<double>(of) + static_cast<double>(steps);
  double all = static_cast<double>(epochs_) * static_cast<double>(of);
  if (steps_ > 0) all = std::min(all, static_cast<double>(steps_));
  const double rate = done / train_seconds;
  double left = (all - done) / rate;
  if (seconds_ > 0) left = std::min(left, std::max(seconds_ - train_seconds, 0.0));
  const std::string epochs = epochs_ < kUnlimitedEpochs ? fmt::format("/{}", epochs_) : "";
  line_.show(fmt::format("epoch {}{}  {:3.0f}%  {} steps/s{}  {} left", epoch + 1, epochs,
                         100 * train_seconds / (train_seconds + left), rate_text(rate), loss_,
                         clock_text(left)));
}

void TrainProgress::evaluating(std::size_t rows, std::size_t of) {
  rows_.show(line_, rows, of, loss_);
}

void TrainProgress::evaluated(const EvaluationRecord& record) {
  loss_ = "  log-loss";
  const auto add = [this](const char* name, const std::optional<Metrics>& m) {
    if (!m) return;
    loss_ += fmt::format("  {} {:.4f}", name, m->log_loss);
    if (m->estimate) loss_ += fmt::format(" +- {:.2g} (estimate)", m->estimate->error_bar);
  };
  add("train", record.train);
  add("valid", record.valid);
  add("test", record.test);
  line_.clear();
  rows_.restart();
  say(stderr, "epoch {:>4}  {:>8.2f} s{}\n", record.epoch, record.train_seconds, loss_);
}

}  // namespace truemax
