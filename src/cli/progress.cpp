#include "cli/progress.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "cli/command.hpp"
#include "core/text.hpp"

namespace truemax {

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

namespace {

// "step 3, ridge 0.1, 2 epochs of 63811 rows".
std::string trial_text(const SearchTrial& t) {
  if (t.step == 0) return fmt::format("ridge {:.4g}, Newton's method on {}", t.ridge, counted(t.rows, "row"));
  return fmt::format("{}step {:.4g}, ridge {:.4g}, {:.3g} epochs of {}",
                     t.hidden > 0 ? fmt::format("hidden {}, ", t.hidden) : "", t.step, t.ridge,
                     static_cast<double>(t.steps * t.rows_per_step) / static_cast<double>(t.rows),
                     counted(t.rows, "row"));
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
    started_ = now;  // the first call comes after some rows are done
  if (!line.due()) return;
  const double share = static_cast<double>(rows) / static_cast<double>(of);
  const double seconds = std::chrono::duration<double>(now - started_).count();
  line.show(fmt::format("evaluating {:3.0f}%{}  {} left", 100 * share, behind,
                        clock_text(seconds / share * (1 - share))));
}

void TrainProgress::trying(const SearchTrial& next) {
  if (!searched_) say(stderr, "tuning options by trials; Ctrl-C keeps the best so far\n");
  searched_ = true;
  next_ = fmt::format("trial {:>3}  {:<6}  {}", next.number, next.about, trial_text(next));
  trial_from_ = std::chrono::steady_clock::now();
  line_.show(next_);
}

void TrainProgress::trial_stepped(std::uint64_t steps, std::uint64_t of) {
  if (!line_.due()) return;
  const double share = static_cast<double>(steps) / static_cast<double>(of);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - trial_from_).count();
  line_.show(
      fmt::format("{}  {:3.0f}%  {} left", next_, 100 * share, clock_text(seconds / share * (1 - share))));
}

void TrainProgress::tried(const SearchTrial& trial) {
  line_.clear();
  const std::string loss =
      std::isfinite(trial.log_loss) ? fmt::format("log-loss {:.4f}", trial.log_loss) : "diverged";
  say(stderr, "trial {:>3}  {:<6}  {}  {} on {}  {:.1f} s\n", trial.number, trial.about, trial_text(trial),
      loss, counted(trial.judged_on, "held-out row"), trial.seconds);
}

void TrainProgress::fitting(const Plan& plan, double train_seconds) {
  line_.clear();
  epochs_ = plan.recipe.epochs, steps_ = plan.recipe.steps, seconds_ = plan.recipe.seconds;
  fit_from_ = train_seconds;
  if (searched_)
    say(stderr, "fitting all rows with step {:.4g}, ridge {:.4g}\n", plan.recipe.step, plan.recipe.ridge);
}

void TrainProgress::stepped(std::uint64_t epoch, std::uint64_t steps, std::uint64_t of,
                            double train_seconds) {
  if (!line_.due()) return;
  const double done = static_cast<double>(epoch) * static_cast<double>(of) + static_cast<double>(steps);
  double all = static_cast<double>(epochs_) * static_cast<double>(of);
  if (steps_ > 0) all = std::min(all, static_cast<double>(steps_));
  const double spent = std::max(train_seconds - fit_from_, 1e-9), rate = done / spent;
  double left = (all - done) / rate;
  if (seconds_ > 0) left = std::min(left, std::max(seconds_ - train_seconds, 0.0));
  const std::string epochs = epochs_ < kUnlimitedEpochs ? fmt::format("/{}", epochs_) : "";
  line_.show(fmt::format("epoch {}{}  {:3.0f}%  {} steps/s{}  {} left", epoch + 1, epochs,
                         100 * spent / (spent + left), rate_text(rate), loss_, clock_text(left)));
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
