// The checkpoint of a run: everything another process needs to continue it to the same bits.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "train/run_state.hpp"
#include "train/search.hpp"

namespace truemax {

// What a checkpoint says besides the state.
struct SavedRun {
  nlohmann::ordered_json asked;                  // options of the run, before anything was chosen
  nlohmann::ordered_json chosen;                 // training options of the fit
  std::string data_hash, valid_hash, test_hash;  // of the contents; empty: no such rows
  std::string init_hash;                         // of the model it started from; empty: none
  std::string model, log;                        // where the outputs go, or "none"
  std::string lines;                             // of the log so far
  double seconds = 0;                            // training time so far
  std::vector<SearchTrial> trials;               // finished trials of the search
  SearchResult search;                           // if it is over
  double trial_seconds = 0;
  bool fitting = false;   // the search is over: there is a state
  bool finished = false;  // the fit came to its end
  std::uint64_t epochs = 0, steps = 0;
};

// Writes aside, syncs, reads the file back and compares its checksum, then renames: `path` always holds a
// good checkpoint. `state`: null unless about.fitting. Throws UserError; the old file is then untouched.
// Over several ranks all call it: the first one writes the file, which does not depend on their number, and
// `about` is its own.
void write_checkpoint(const std::string& path, const SavedRun& about, const RunState* state);

// A checkpoint whose checksum was compared. Throws UserError if the file is not one, or is damaged, or cannot
// be read. Over several ranks all make one, and the first one reads the file for all.
class CheckpointFile {
 public:
  explicit CheckpointFile(const std::string& path);

  const SavedRun& about() const { return about_; }
  // Only if about().fitting; once. `state` is a fresh state of the run, whose memory is reused; throws
  // UserError if the saved one has another shape, or numbers that no run can have.
  void read_state(RunState& state);

 private:
  std::string path_;
  std::unique_ptr<StateSource> from_;
  SavedRun about_;
};

// SavedRun::asked of a file that nothing else is checked of; empty if it is no checkpoint of this version. In
// this process alone.
nlohmann::ordered_json options_asked_in(const std::string& path);

// --checkpoint-every: a number with "epochs", "s", "min" or "h".
struct SaveEvery {
  std::uint64_t epochs = 0;  // 0: by time
  double seconds = 0;
};
SaveEvery parse_save_every(const std::string& text);  // throws UserError

}  // namespace truemax
