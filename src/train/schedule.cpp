#include "train/schedule.hpp"

#include <algorithm>
#include <limits>

namespace truemax {
namespace {

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kPieces = 200;      // of a linear schedule, each with one step size
constexpr double kLeastLinearShare = 0.01;  // a step that falls to 0 would waste the end of the run

__extension__ using Wide = unsigned __int128;

std::uint64_t product(std::uint64_t a, std::uint64_t b) {
  return static_cast<std::uint64_t>(std::min<Wide>(static_cast<Wide>(a) * b, kNoLimit));
}

}  // namespace

StepSchedule::StepSchedule(const Recipe& recipe, std::uint64_t epoch_steps, const Stopwatch* watch,
                           const Recording* recording, double search_seconds)
    : recipe_(recipe),
      epoch_steps_(epoch_steps),
      limit_(recipe.steps > 0 ? recipe.steps : kNoLimit),
      total_(recipe.epochs < kUnlimitedEpochs ? std::min(limit_, product(recipe.epochs, epoch_steps))
                                              : limit_),
      watch_(recipe.seconds > 0 && recording == nullptr ? watch : nullptr),
      begin_(search_seconds),
      repeats_(recording != nullptr && !recording->segments.empty()) {
  if (recording == nullptr) return;
  limit_ = std::min(limit_, recording->steps);
  segments_ = recording->segments;
}

bool StepSchedule::used_up(std::uint64_t epoch, std::uint64_t step_in_epoch) const {
  return epoch * epoch_steps_ + step_in_epoch >= limit_ || time_used_up();
}

StepSchedule::Leg StepSchedule::next(std::uint64_t epoch, std::uint64_t step_in_epoch) {
  const std::uint64_t done = epoch * epoch_steps_ + step_in_epoch;
  if (done >= limit_ || cut()) return {};
  const double seconds = has_clock() ? watch_->seconds_running() : 0;
  if (has_clock() && seconds >= recipe_.seconds) return {};
  const std::uint64_t left = limit_ - done;
  moved_ = true;
  if (repeats_) return recorded(done, left);
  if (recipe_.schedule == Schedule::linear) return linear(done, left, seconds);
  return decayed(epoch, left);
}

StepSchedule::Leg StepSchedule::decayed(std::uint64_t epoch, std::uint64_t left) {
  if (epoch != epoch_) {
    epoch_ = epoch;
    decayed_step_ = recipe_.step_at(epoch);
  }
  return {decayed_step_, left};
}

// The piece of a linear schedule after `done` steps; limits `left` to the end of the piece.
std::uint64_t StepSchedule::piece_at(std::uint64_t done, std::uint64_t& left) const {
  if (total_ == 0 || total_ == kNoLimit) return 0;
  const auto piece = static_cast<std::uint64_t>(static_cast<Wide>(done) * kPieces / total_);
  const auto next =
      static_cast<std::uint64_t>((static_cast<Wide>(total_) * (piece + 1) + kPieces - 1) / kPieces);
  left = std::min(left, next - done);
  return piece;
}

// The piece is given by steps or by time, whichever is further along.
StepSchedule::Leg StepSchedule::linear(std::uint64_t done, std::uint64_t left, double seconds) {
  if (falls_within_ && !has_clock() && total_ > 0 && total_ != kNoLimit) {
    const auto step_after = [&](std::uint64_t steps) {
      const double share = 1 - static_cast<double>(steps) / static_cast<double>(total_);
      return recipe_.step * std::max(share, kLeastLinearShare);
    };
    left = std::min(left, epoch_steps_ - done % epoch_steps_);
    return {step_after(done), left, step_after(done + left)};
  }
  std::uint64_t piece = piece_at(done, left);
  if (has_clock() && seconds > begin_)
    piece = std::max(
        piece, static_cast<std::uint64_t>((seconds - begin_) / (recipe_.seconds - begin_) * double{kPieces}));
  const double share = 1 - static_cast<double>(piece) / double{kPieces};
  const double step =
      std::max(recipe_.step * std::max(share, kLeastLinearShare), std::numeric_limits<double>::min());
  if (has_clock() && (segments_.empty() || segments_.back().step != step)) segments_.push_back({done, step});
  return {step, left};
}

StepSchedule::Leg StepSchedule::recorded(std::uint64_t done, std::uint64_t left) {
  while (at_ + 1 < segments_.size() && segments_[at_ + 1].first_step <= done) ++at_;
  if (at_ + 1 < segments_.size()) left = std::min(left, segments_[at_ + 1].first_step - done);
  piece_at(done, left);  // so that batches end where they did
  return {segments_[at_].step, left};
}

}  // namespace truemax
