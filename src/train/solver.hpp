// What the table of solvers (train/solvers.hpp) says of each.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "train/facts.hpp"
#include "weights/weights.hpp"

namespace truemax {

class Lane;
struct LaneSetup;
enum class NewtonEnd;

// A way to come to the optimum: a lane, which takes steps, or a method that has none.
struct Solver {
  std::string_view name;
  std::string_view about;  // what it does, in a few words
  // Why it cannot do this run; empty: it can.
  std::string (*why_not)(const Facts&);
  // Counted seconds of an epoch, or of a whole fit without steps, on an ordinary machine.
  double (*seconds)(const Facts&);
  // Memory of the state besides W and the row states, and of the steps, in bytes; and copies of W.
  std::uint64_t (*state_bytes)(const Facts&);
  std::uint64_t (*step_bytes)(const Facts&);
  std::uint64_t (*copies)(const Facts&);
  std::size_t (*steps_ahead)(const Facts&);  // of a batch, at most
  std::unique_ptr<Lane> (*make)(const LaneSetup&);
  // Without steps: moves the weights to the optimum.
  NewtonEnd (*finish)(const DataView&, const Recipe&, Weights&, const std::atomic<bool>& stop,
                      const std::function<bool()>& time_is_up);
};

}  // namespace truemax
