// The lane of linear models on a device: rows, W and u are there from the first batch on, and a batch is one
// order to take steps. Rows are visited and blocks drawn by the device, from keys of seed and epoch. Steps
// run side by side without locks, so that runs are not repeated to the bit.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/engine.hpp"
#include "rule/mirror_rate.hpp"
#include "train/lane.hpp"
#include "train/rivals.hpp"

namespace truemax {

class DeviceLane final : public Lane {
 public:
  // Steps of a batch at most: a few milliseconds.
  static constexpr std::size_t kMostSteps = std::size_t{1} << 18;

  DeviceLane(const LaneSetup& setup, std::unique_ptr<device::Engine> engine);

  // Why a device cannot do the run and what to do about it; empty if it can.
  static std::string why_not(const Facts& facts);
  // Of W, rows and u on the device.
  static std::uint64_t bytes(const Facts& facts);

  void attach(RunState& state) override;
  bool start_epoch(RunState& state, const std::atomic<bool>& stop, const StepSchedule& plan) override;
  void take(const Batch& batch, RunState& state) override;
  void publish(RunState& state) override;
  void settle(RunState& state) override;
  void tighten(RunState& state) override;
  bool visits_itself() const override { return true; }
  device::Passer* passer() override { return there_ ? engine_.get() : nullptr; }

 private:
  void require_room() const;
  [[noreturn]] void diverged(RunState& state, double update);
  device::Leg leg_of(const Batch& batch, const RunState& state) const;

  const LaneSetup& setup_;
  std::unique_ptr<device::Engine> engine_;
  MirrorRate rho_;
  bool there_ = false;         // the state is on the device
  bool moved_ = false;         // and newer than the host's
  std::uint64_t pending_ = 0;  // steps without a report
  std::uint32_t beside_ = 1;   // steps that run side by side
  std::optional<RivalPlan> rivals_;
};

}  // namespace truemax
