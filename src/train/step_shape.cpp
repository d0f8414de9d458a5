#include "train/step_shape.hpp"

#include <algorithm>

#include "rule/any_rule.hpp"
#include "rule/methods.hpp"
#include "train/adam_lane.hpp"
#include "train/block_lane.hpp"
#include "train/commuting.hpp"
#include "train/companion.hpp"
#include "train/device_choice.hpp"
#include "train/device_lane.hpp"
#include "train/drawn_batch.hpp"
#include "train/group_lane.hpp"
#include "train/lbfgs_lane.hpp"
#include "train/learnt_lane.hpp"
#include "train/problem.hpp"
#include "train/ridge.hpp"
#include "train/step_arrays.hpp"

namespace truemax {

StepShape step_shape(const DataView& data, const TrainOptions& options, const Draw* draw) {
  const std::size_t drawn = draw != nullptr ? draw->most_classes() : 0;
  const std::size_t blocks = (data.classes->size() + kLanes - 1) / kLanes;
  const std::size_t rows = std::min<std::size_t>(options.rows_per_step, data.size());
  return {rows, drawn, draw == nullptr ? blocks * kLanes : drawn + rows};
}

std::uint64_t steps_per_epoch(std::uint64_t rows, const TrainOptions& options) {
  if (find_method(options.method_used()).all_rows) return rows > 0 ? 1 : 0;
  return (rows + options.rows_per_step - 1) / options.rows_per_step;
}

std::size_t steps_ahead(const DataView& data, const TrainOptions& options, const Draw* draw) {
  if (draw != nullptr && draw->learns()) return 1;
  if (on_gpu(options) && options.hidden == 0) return DeviceLane::kMostSteps;
  constexpr double kAhead = 1 << 16, kWork = 1 << 19;
  if (options.hidden > 0 && options.lock_free) return 4 * options.thread_count();
  // Threads prepare the steps of a GPU; a piece of a schedule has no more in most runs.
  constexpr std::size_t kDeviceAhead = 16;
  if (options.hidden > 0 && on_gpu(options)) return kDeviceAhead;
  if (options.group > 0 || !ranks().alone()) {
    constexpr double kRowsAhead = 1 << 14, kLinesAhead = 1 << 18;  // of W: some milliseconds of one thread
    const std::size_t group = GroupLane::rows_of_group(data, options, draw);
    const double rows = std::min(
        kRowsAhead, kLinesAhead / (std::max(data.nonzeros_per_row(), 1.0) *
                                   static_cast<double>(GroupMember::most_blocks(data, nullptr, draw))));
    return std::max<std::size_t>(1, static_cast<std::size_t>(rows) / group) * group;
  }
  const auto n = static_cast<double>(options.rows_per_step);
  const auto m = static_cast<double>(draw != nullptr ? draw->most_classes() : data.classes->size());
  const double nonzeros = data.nonzeros_per_row();
  const bool gram = find_method(options.method).needs_gram;
  const double work = n * (m + 1) * (nonzeros + 1) + (gram ? n * n * (nonzeros + n * m) : 0.0);
  return static_cast<std::size_t>(
      std::clamp(std::min(kAhead / (n + m), kWork / work), 1.0, static_cast<double>(kStepsAhead)));
}

std::uint64_t step_bytes(const DataView& data, const TrainOptions& options) {
  if (on_gpu(options) && options.hidden == 0) return 0;  // they are on the card
  const MethodInfo& info = find_method(options.method);
  const std::unique_ptr<Draw> draw = draw_for(data, options);
  if (options.hidden > 0)
    return LearntLane::step_bytes(data, options, *draw) + draw->memory_bytes() +
           (LearntLane::draws_ahead(data, options, *draw) ? 2 : 1) *
               DrawnBatch::bytes(steps_ahead(data, options, draw.get()), options.rows_per_step, *draw);
  if (options.group > 0 || !ranks().alone())
    return GroupLane::bytes(data, options, draw.get()) + Ridge::bytes(data, options);
  if (info.all_rows) return LbfgsLane::bytes(data) + Ridge::bytes(data, options);
  if (info.by_weight) return AdamLane::bytes(data, options) + Ridge::bytes(data, options);
  StepShape shape = step_shape(data, options, draw.get());
  shape.rows = options.rows_per_step;
  std::uint64_t bytes =
      StepArrays::bytes(shape.rows, shape.columns) + rule_bytes(info, shape) + Ridge::bytes(data, options);
  if (draw)
    bytes +=
        draw->memory_bytes() + DrawnBatch::bytes(steps_ahead(data, options, draw.get()), shape.rows, *draw);
  if (info.has_companion) bytes += Companion::bytes(data);
  if (options.lock_free && draw && draw->whole_blocks()) bytes += BlockLane::bytes_apart(data, options);
  return bytes;
}

}  // namespace truemax
