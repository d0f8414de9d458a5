// The block lane: one row and whole blocks of classes a step, in batches, on one thread or several. Which of
// them takes a step never shows in the result (train/turns.hpp), unless the run was allowed to be lock-free:
// then steps do not wait for each other, and one may read weights that another is writing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "core/team.hpp"
#include "train/block_step.hpp"
#include "train/general_lane.hpp"
#include "train/turns.hpp"

namespace truemax {

// Threads that steps of this draw can keep busy in their order: a step that has to wait for another one's
// blocks might as well be taken by that one's thread.
std::size_t useful_threads(const DataView& data, const TrainOptions& options, const Draw& draw);

class BlockLane final : public Lane {
 public:
  explicit BlockLane(const LaneSetup& setup);

  static bool takes(const LaneSetup& setup);

  void take(const Batch& batch, RunState& state) override;

 private:
  // What one member of the team writes; nothing of it is read by another while steps are taken.
  struct Member {
    Member(const LaneSetup& setup, std::size_t number, std::size_t members, std::size_t blocks);
    BlockStep step(std::size_t i, const DataView& data) const;
    std::span<const std::uint32_t> blocks(std::size_t i) const {
      return {&drawn.blocks[i * drawn.capacity], drawn.count[i]};
    }

    std::size_t from = 0;  // step of the batch that stands at place 0 of what follows
    std::vector<ExampleId> examples;
    std::vector<ClassId> labels;
    std::vector<RowView> x;
    BlockBuffer drawn;
    std::vector<double> growth;
    BlockStepper stepper;
    Turns turns;
  };
  // A batch under way.
  struct Work {
    const Batch& batch;
    BlockTerms terms;
    RunState& state;
  };
  enum class Order { one_thread, turns, none };

  void run_alone(const Work& work);
  void run_in_order(const Work& work);
  void run_lock_free(const Work& work);
  void prepare(const Work& work, Member& member, std::size_t from, std::size_t size) const;
  void take_steps(const Work& work, Member& member, std::size_t start, std::size_t end, std::size_t stride,
                  Order order);
  double take_declined(const Work& work, const Member& member, std::size_t i, Order order);
  double take_generally(const Work& work, std::size_t t, double bound);
  double bound_before(const Work& work, std::size_t t, std::size_t members) const;

  const LaneSetup& setup_;
  GeneralLane general_;  // for steps that float32 cannot hold
  bool far_;             // W does not fit into the nearest caches: its lines are prefetched some steps ahead
  std::unique_ptr<Team> team_;
  std::unique_ptr<Progress> progress_;
  std::vector<std::unique_ptr<Member>> members_;
  std::mutex declined_;    // there is one general lane
  double free_bound_ = 0;  // lock-free: on the weights, with the declined steps so far
  struct Refused {
    std::uint64_t step;
    double update;
  };
  std::optional<Refused> refused_;  // the first step of the batch that would leave float32
};

}  // namespace truemax
