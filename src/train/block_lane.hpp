// The block lane: steps of one row and whole blocks of classes, in batches, on one or several threads. The
// number of threads does not change the result (train/turns.hpp), except with --lock-free: then steps do not
// wait for each other, and one may read weights while another writes them. The ridge of lock-free steps waits
// until all threads have taken some of them, so that none of it is lost, and no scale is multiplied into
// memory while others write.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "core/parallel.hpp"
#include "core/team.hpp"
#include "train/block_step.hpp"
#include "train/general_lane.hpp"
#include "train/turns.hpp"

namespace truemax {

// How many threads this draw can keep busy. If steps often wait for each other's blocks, more threads do not
// help.
std::size_t useful_threads(const DataView& data, const Recipe& recipe, const Draw& draw);

class BlockLane final : public Lane {
 public:
  // On at most so many threads: they wait for each other, with more than cores for the scheduler.
  explicit BlockLane(const LaneSetup& setup, std::size_t most_threads = available_threads());

  // At most, for what lock-free threads keep apart.
  static std::uint64_t bytes_apart(const Facts& facts);

  void attach(RunState& state) override;
  bool start_epoch(RunState& state, const std::atomic<bool>& stop, const StepSchedule& plan) override {
    return general_.start_epoch(state, stop, plan);
  }
  void take(const Batch& batch, RunState& state) override;
  std::size_t most_steps() const override { return most_steps_; }
  std::size_t threads() const { return members_.size(); }

 private:
  // Steps that are drawn together, few enough to stay in the cache.
  struct Piece {
    explicit Piece(const LaneSetup& setup);
    BlockStep step(std::size_t i, const DataView& data, bool apart) const;
    LinesAhead lines(std::size_t i, const Weights& w) const;
    std::span<const std::uint32_t> blocks(std::size_t i) const {
      return {&drawn.blocks[i * drawn.capacity], drawn.count[i]};
    }

    std::size_t from = 0, size = 0;  // steps of the batch
    std::vector<ExampleId> examples;
    std::vector<ClassId> labels;
    std::vector<RowView> x;
    SplitRows split;  // where BlockTerms::apart
    BlockBuffer drawn;
  };
  // Steps in double, for rules that do not take blocks. A rule has memory, so each member has its own.
  struct InDouble {
    explicit InDouble(const LaneSetup& setup);
    std::unique_ptr<AnyRule> rule;
    LaneSetup setup;
    GeneralLane general;
  };
  // Written by one thread of the team. Others read growths of steps that are done, and after a meeting what
  // the stepper has delayed.
  struct Member {
    Member(const LaneSetup& setup, std::size_t number, std::size_t members, std::size_t steps,
           std::size_t blocks);
    std::vector<double> growth;         // by its steps of the batch
    double free_growth = 0;             // lock-free: of all its steps
    std::vector<std::size_t> declined;  // lock-free: steps of the batch that are taken at its end
    std::vector<double> shrinks;        // lock-free, with ridge: of its blocks, by all members' steps
    BlockStepper stepper;
    std::unique_ptr<InDouble> in_double;  // null: the stepper takes its steps
    Turns turns;
  };
  // The current batch.
  struct Work {
    const Batch& batch;
    BlockTerms terms;
    RunState& state;
  };

  void keep_heads_apart();
  void run_alone(const Work& work);
  void run_in_order(const Work& work);
  void run_lock_free(const Work& work);
  void take_freely(const Work& work, std::size_t first, std::size_t count);
  struct FreeSteps {
    std::size_t from, size;
  };
  FreeSteps claim(std::size_t count, std::size_t kept);
  void shrink_own(Weights& w, std::size_t number);
  double steps_without_ridge(double step) const;
  double mean_ridge(double step) const;
  void prepare(const Work& work, Piece& piece, std::size_t from, std::size_t size) const;
  bool prepare_together(const Work& work, std::size_t number);
  void take_steps(const Work& work, Member& member, Piece& piece, bool in_order);
  void take_turns(const Work& work, std::size_t number);
  BlockStepper::Outcome take_in_double(const Work& work, InDouble& own, const Batch& drawn,
                                       std::size_t i) const;
  double take_declined(const Work& work, std::size_t t);
  double take_generally(const Work& work, std::size_t t, double bound);
  template <class Await>
  double sum_growths(const Work& work, std::size_t t, std::size_t members, const Await& await) const;
  double bound_after(const Work& work) const;
  double bound_before(const Work& work, std::size_t t, std::size_t members) const;

  const LaneSetup& setup_;
  GeneralLane general_;  // for steps out of the range of float32
  bool far_;             // W does not fit in the cache: prefetch its lines some steps ahead
  bool rows_recur_;      // in a batch
  std::unique_ptr<Team> team_;
  std::unique_ptr<Progress> progress_;
  std::vector<std::unique_ptr<Member>> members_;
  // In order: those of a batch, which all members read; lock-free: one of each member.
  std::vector<std::unique_ptr<Piece>> pieces_;
  std::size_t piece_steps_, most_steps_;
  std::size_t free_steps_;  // lock-free: of a thread, before it adds up what it kept apart
  struct alignas(64) Ready {
    std::atomic<std::uint64_t> batch{0};  // the last one for which the piece is prepared
  };
  std::vector<Ready> ready_;
  std::uint64_t batch_ = 0;
  std::atomic<bool> failed_{false};
  std::unique_ptr<Meeting> meeting_;                   // lock-free, with ridge
  alignas(64) std::atomic<std::size_t> next_free_{0};  // lock-free: the first step that no thread has claimed
  std::mutex declined_;                                // guards general_
  struct Refused {
    std::uint64_t step;
    double update;
  };
  std::optional<Refused> refused_;  // the first step of the batch that would overflow float32
};

}  // namespace truemax
