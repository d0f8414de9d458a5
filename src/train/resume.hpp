// --checkpoint and --resume: what may be continued, and with which options.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "train/checkpoint.hpp"
#include "train/prepared_run.hpp"

namespace truemax {

// Checks the options of checkpoints, before any file is read. Throws UserError.
void require_checkpoint_options(const RunOptions& options);

// The rows of a group in the checkpoint that is resumed, if it has groups; 0: it has none, there is no such
// file, or --resume was not given. What is not given goes by it, such as the draw: whether this process is
// truemax or truemax-mpi, the run goes on as it began. Damage is found later.
std::uint64_t group_to_continue(const RunOptions& options);

// Claims the name of --checkpoint and, with --resume, opens the file if there is one: run.resumed. The names
// of outputs that were not given are those of the earlier process. Throws UserError if the checkpoint is
// damaged or of other options, or if there is a file and no --resume. `claims` false: it is only read.
void open_checkpoint(RunOptions& options, bool claims, const std::function<Reading()>& read,
                     PreparedRun& run);

// Throws UserError if the disk has no room for them.
void require_room_for_checkpoints(const PreparedRun& run);

// Throws UserError if the data are not those of the checkpoint, or if --epochs asks for less than was done.
void require_resumed_data(const PreparedRun& run);

}  // namespace truemax
