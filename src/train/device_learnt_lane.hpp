// The lane of learnt features on a device: it sends the order of the rows and the drawn classes there, and
// the steps are taken from what is there since attach(). The same steps as LearntLane's, up to the order of
// sums.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/huge_pages.hpp"
#include "core/parallel.hpp"
#include "core/team.hpp"
#include "device/learnt.hpp"
#include "rule/mirror_rate.hpp"
#include "train/encoder.hpp"
#include "train/lane.hpp"

namespace truemax {

// Rows of a view in the order of its examples, without gaps.
struct PackedRows {
  explicit PackedRows(const DataView& data, std::size_t threads = available_threads());
  device::HostRows rows() const { return {begin, index, value}; }

  HugeVector<std::uint64_t> begin;
  HugeVector<std::uint32_t> index;
  HugeVector<float> value;        // empty if all are 1 or do not count
  HugeVector<std::uint32_t> row;  // of examples; empty: its own
  HugeVector<std::uint32_t> label;
  HugeVector<float> weight;  // empty: all 1
  std::size_t longest = 0;
};

// What a device needs to know of a run, with steps of so many rows and drawn classes.
device::LearntShape learnt_shape(const DataView& data, const Recipe& recipe, std::size_t rows,
                                 std::size_t drawn, std::size_t longest_row);
device::HostTables host_tables(LearntState& learnt);

class DeviceLearntLane final : public Lane {
 public:
  DeviceLearntLane(const LaneSetup& setup, std::unique_ptr<device::LearntEngine> engine);

  void attach(RunState& state) override;
  void take(const Batch& batch, RunState& state) override;
  void publish(RunState& state) override;
  void settle(RunState& /*state*/) override { engine_->finish(); }
  device::Passer* passer() override { return there_ ? engine_.get() : nullptr; }

 private:
  // A step, filled by one thread.
  struct Step {
    std::vector<ExampleId> examples;
    std::vector<std::uint32_t> group;  // the first example of each row, and the end
    DrawBuffer drawn;
    std::vector<float> log_weight;
  };

  void admit(RunState& state, double rate, double rho, std::size_t steps);
  void fill(const Batch& batch, std::size_t t);
  void pack(std::size_t steps);

  const LaneSetup& setup_;
  std::unique_ptr<device::LearntEngine> engine_;
  std::unique_ptr<Encoder> encoder_;  // for its bounds
  MirrorRate rho_;
  Team team_;
  std::vector<Step> steps_;
  bool there_ = false;  // the state is on the device
  bool moved_ = false;  // and newer than the host's
  // Of a batch, as device::LearntSteps has them.
  std::vector<std::uint32_t> first_, example_, drawn_first_, drawn_, group_first_, group_;
  std::vector<float> log_weight_;
};

}  // namespace truemax
