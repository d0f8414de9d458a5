// The lane of learnt features. Its threads share the work of a step, which gives the same bits for any number
// of them; or, lock-free, they form teams, each of which takes steps of its own. Several ranks take each step
// together.
#pragma once

#include <memory>
#include <vector>

#include "core/team.hpp"
#include "rule/mirror_rate.hpp"
#include "train/drawn_batch.hpp"
#include "train/lane.hpp"
#include "train/learnt_step.hpp"

namespace truemax {

class LearntLane final : public Lane {
 public:
  explicit LearntLane(const LaneSetup& setup);

  void take(const Batch& batch, RunState& state) override;
  void publish(RunState& state) override;
  // In a short run the step changes after every few steps: threads that take whole ones would have none.
  bool lets_step_fall() const override { return steps_.size() > 1; }

  // W and the intercepts of state.learnt, as state.weights has them.
  static void copy_weights(RunState& state, Team& team);
  static LearntState start(const DataView& data, const Recipe& recipe);
  // Running means of zero, where there are none yet.
  static void add_squares(LearntState& state, const Recipe& recipe);
  // Bytes of the state, and of the arrays of the steps, of the rank that has most.
  static std::uint64_t state_bytes(const Facts& facts);
  // Whether a thread draws the next batch meanwhile.
  static bool draws_ahead(const Facts& facts);
  static std::uint64_t step_bytes(const Facts& facts);

 private:
  static std::size_t teams(const Facts& facts);
  void admit(RunState& state, double rate, double rho, std::size_t steps) const;

  void fill(const Batch& batch, const RunState& state);
  bool goes_on_after(const Batch& batch) const;

  const LaneSetup& setup_;
  DrawnBatch visited_;
  // In order: the batch after this one, which a thread draws meanwhile.
  struct Ahead {
    DrawnBatch visited;
    std::uint64_t epoch = 0, first = 0;
    std::size_t count = 0;  // 0: none
  };
  std::unique_ptr<Ahead> ahead_;
  MirrorRate rho_;
  Team free_team_;                                  // lock-free: its members lead teams; else one
  std::vector<std::unique_ptr<LearntStep>> steps_;  // of each team
};

}  // namespace truemax
