// Saves a run along the way: --checkpoint.
#pragma once

#include <span>
#include <string>

#include "train/checkpoint.hpp"
#include "train/run_log.hpp"

namespace truemax {

struct PreparedRun;

// An observer of the search, whose trials it saves, and the hook of the fit. A checkpoint that cannot be
// written must not end a run of days: observers are warned, the old one stays, and the next is tried when it
// is due. Only the first one, before any training, and the last one throw UserError.
class CheckpointSaver final : public TrainObserver {
 public:
  // `log` keeps its lines and outlives this, as `run` and `others` do.
  CheckpointSaver(const PreparedRun& run, RunLog& log, std::span<TrainObserver* const> others);

  void begin();  // before the search
  void tried(const SearchTrial& trial) override;
  void searched(const SearchResult& search, double trial_seconds, const Plan& plan);
  void save(const RunState& state, bool finished);
  // Throws UserError if the last one could not be written.
  void require_saved() const;
  // The file has the state of the last call of save().
  bool has_state() const { return about_.fitting && failure_.empty(); }

 private:
  void write(const RunState* state);

  const PreparedRun& run_;
  RunLog& log_;
  std::span<TrainObserver* const> others_;
  SavedRun about_;
  std::uint64_t steps_per_epoch_ = 0;
  bool any_ = false;     // one of this process is on the disk, or the one it was resumed from
  std::string failure_;  // of the last one
  Stopwatch since_;      // the last one
};

}  // namespace truemax
