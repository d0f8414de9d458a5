// Decides --device auto, and refuses what a GPU cannot do.
#pragma once

#include "data/data_view.hpp"
#include "device/open.hpp"
#include "train/options.hpp"

namespace truemax {

// Whether the device of a run is a GPU; auto has been decided.
inline bool on_gpu(const TrainOptions& options) {
  return device::Choice::parse(options.device).kind == device::Kind::cuda;
}

// About how long a plain run takes on the CPU, and how long a GPU needs before its first step: starting it,
// and sending W and the rows there. By counted work, so that the same data and options give the same choice
// on machines with the same card.
struct DeviceCost {
  double cpu = 0, start = 0;  // seconds
  bool gpu_is_faster() const { return cpu > 2 * start; }
};
DeviceCost device_cost(const DataView& data, const TrainOptions& options);

// Replaces auto by cpu or cuda, once the data are known and before the shape of a step is chosen.
void decide_device(const DataView& data, TrainOptions& options);
// Throws UserError if the device is a GPU that cannot do the run.
void require_device(const DataView& data, const TrainOptions& options);

}  // namespace truemax
