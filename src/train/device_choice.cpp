#include "train/device_choice.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"
#include "core/files.hpp"
#include "device/open.hpp"
#include "train/automatic.hpp"
#include "train/device_lane.hpp"
#include "train/encoder.hpp"
#include "train/learnt_lane.hpp"
#include "train/step_shape.hpp"

namespace truemax {
namespace {

// Of an ordinary processor and card; only their ratio matters.
constexpr double kOpening = 0.5;                     // seconds until a card is ready
constexpr double kSending = 5e9;                     // bytes per second to the card
constexpr double kProducts = 5e10;                   // floating-point operations per second and thread
constexpr double kEpochs = 60, kLearntEpochs = 20;   // of the trials and the fit together, if they are open
constexpr double kBlocks = 4, kUnknownHidden = 256;  // of a step of auto; h while it is open

// What learnt features take on a card.
std::uint64_t learnt_bytes(const DataView& data, TrainOptions options, std::uint64_t hidden) {
  options.hidden = hidden;
  constexpr std::uint64_t kEntry = 8, kExample = 32;
  const std::uint64_t rows = std::min<std::uint64_t>(options.rows_per_step, data.size());
  const std::uint64_t drawn = std::min<std::uint64_t>(options.classes_per_step, data.classes->size());
  const auto used = static_cast<std::uint64_t>(static_cast<double>(rows) * data.nonzeros_per_row());
  const std::uint64_t moved = drawn + rows + std::min<std::uint64_t>(used, data.space->features);
  return LearntLane::state_bytes(data, options) + data.nonzeros() * kEntry + data.size() * kExample +
         sizeof(float) * (rows * (3 * hidden + drawn) + moved * hidden) +
         encoder_step_bytes(data, options, rows);
}

void require_room(const DataView& data, const TrainOptions& options, const device::Card& card) {
  const std::uint64_t needed = learnt_bytes(data, options, options.hidden);
  if (needed <= card.free) return;
  std::uint64_t fits = 0, too_many = options.hidden;
  while (too_many - fits > 1) {
    const std::uint64_t middle = fits + (too_many - fits) / 2;
    (learnt_bytes(data, options, middle) <= card.free ? fits : too_many) = middle;
  }
  fits -= fits % 2;  // of triples
  throw UserError(fmt::format(
      "--device {}: not enough memory on {}: {} learnt features need {} and {} are free; {}use --device cpu",
      options.device, card.name, options.hidden, size_text(needed), size_text(card.free),
      fits > 0 ? fmt::format("--hidden {} fits, or ", fits) : ""));
}

}  // namespace

DeviceCost device_cost(const DataView& data, const TrainOptions& options) {
  const auto rows = static_cast<double>(data.size()), threads = static_cast<double>(options.thread_count());
  const auto classes = static_cast<double>(data.classes->size());
  const auto features = static_cast<double>(data.space->features);
  const double row_bytes = static_cast<double>(data.nonzeros()) * 8 + rows * 32;
  const bool known = options.epochs < kUnlimitedEpochs && !options.open.epochs;
  double cpu = 0, bytes = row_bytes;
  if (options.learnt() || options.open.encoder) {
    const double hidden = options.hidden > 0 ? static_cast<double>(options.hidden) : kUnknownHidden;
    const double drawn =
        std::min(classes, static_cast<double>(std::max<std::uint64_t>(options.classes_per_step, 1)));
    const double epochs = known ? static_cast<double>(options.epochs) : kLearntEpochs;
    cpu = epochs * rows * 6 * drawn * hidden / (kProducts * threads);
    bytes += 8 * hidden * (classes + features);
  }
  if (!options.learnt()) {
    const StepCost cost = step_cost(data);
    const double epochs = known ? static_cast<double>(options.epochs) : kEpochs;
    const double blocks =
        options.open.shape ? kBlocks : 1 + static_cast<double>(options.classes_per_step) / kBlockClasses;
    cpu += epochs * rows * cost.step(blocks) * cost.seconds_per_line / std::min(threads, 4.0);
    bytes += classes * features * sizeof(float);
  }
  if (options.seconds > 0) cpu = std::max(cpu, 10 * options.seconds);  // more steps fit into the same time
  return {cpu, kOpening + bytes / kSending};
}

void decide_device(const DataView& data, TrainOptions& options) {
  if (options.device != device::kAuto) return;
  options.device = device::kCpu;
  if (data.streamed() != nullptr || (options.open.newton && newton_is_cheap(data, options.seconds))) return;
  if (!options.learnt() && !DeviceLane::why_not(data, options).empty()) return;
  if (device::find().cards == 0 || !device_cost(data, options).gpu_is_faster()) return;
  const auto engine = device::open({device::Kind::automatic, 0});
  if (engine == nullptr) return;
  const std::uint64_t needed = options.learnt() && options.hidden > 0
                                   ? learnt_bytes(data, options, options.hidden)
                                   : DeviceLane::bytes(data, options);
  if (needed > engine->card().free) return;
  options.device = "cuda";
  options.open.newton = false;
}

void require_device(const DataView& data, const TrainOptions& options) {
  if (!on_gpu(options)) return;
  if (options.learnt()) {
    if (options.hidden == 0) return;
    if (const auto engine = device::open(device::Choice::parse(options.device)))
      require_room(data, options, engine->card());
    return;
  }
  const std::string why = DeviceLane::why_not(data, options);
  if (!why.empty()) throw UserError(fmt::format("--device {}: {}", options.device, why));
}

}  // namespace truemax
