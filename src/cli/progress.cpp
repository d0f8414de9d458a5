#include "cli/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>

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

Progress::Progress(std::uint64_t epochs) : epochs_(epochs) {}

Progress::~Progress() {
  clear();
}

bool Progress::wanted() {
  return isatty(STDERR_FILENO) == 1;
}

void Progress::stepped(std::uint64_t epoch, std::uint64_t steps, std::uint64_t of, double train_seconds) {
  const auto now = std::chrono::steady_clock::now();
  if (now - last_ < std::chrono::milliseconds(100)) return;
  last_ = now;
  const double done = static_cast<double>(epoch) * static_cast<double>(of) + static_cast<double>(steps);
  const double all = static_cast<double>(epochs_) * static_cast<double>(of);
  const double rate = done / train_seconds;
  show(fmt::format("epoch {}/{}  {:3.0f}%  {} steps/s{}  {} left", epoch + 1, epochs_, 100 * done / all,
                   rate_text(rate), loss_, clock_text((all - done) / rate)));
}

void Progress::evaluating() {
  show(fmt::format("evaluating{}", loss_));
}

void Progress::evaluated(const EvaluationRecord& record) {
  loss_ = fmt::format("  train log-loss {:.4f}", record.train.log_loss);
  if (record.test) loss_ += fmt::format("  test {:.4f}", record.test->log_loss);
  clear();
  fmt::print(stderr, "epoch {:>4}  {:>8.2f} s{}\n", record.epoch, record.train_seconds, loss_);
}

void Progress::show(const std::string& text) {
  fmt::print(stderr, "\r\x1b[K{}", text);
  std::fflush(stderr);
  shown_ = true;
}

void Progress::clear() {
  if (shown_) fmt::print(stderr, "\r\x1b[K");
  shown_ = false;
}

}  // namespace truemax
