// The format of a checkpoint file, for the code that writes and reads it.
#pragma once

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/checksum.hpp"
#include "core/error.hpp"
#include "train/checkpoint.hpp"

namespace truemax::checkpoint {

// The file: magic, version, `SavedRun`, the state, then the length of all that and a checksum of all before
// it. Numbers lie as in memory (little-endian).
inline constexpr std::array<char, 8> kMagic{'T', 'M', 'X', 'C', 'H', 'K', 'P', 'T'};
// Changes with every change of SavedRun or RunState.
inline constexpr std::uint64_t kFormat = 3;
inline constexpr std::size_t kStart = sizeof kMagic + sizeof kFormat, kEnd = 2 * sizeof(std::uint64_t);
inline constexpr std::size_t kPiece = RunningSum::kPiece;

// One list of fields for reading and writing.
template <class Saved, class Archive>
void each_field(Saved& s, Archive& archive) {
  archive(s.asked);
  archive(s.chosen);
  archive(s.data_hash);
  archive(s.valid_hash);
  archive(s.test_hash);
  archive(s.init_hash);
  archive(s.model);
  archive(s.log);
  archive(s.lines);
  archive(s.seconds);
  archive(s.trials);
  archive(s.search);
  archive(s.trial_seconds);
  archive(s.fitting);
  archive(s.finished);
  archive(s.epochs);
  archive(s.steps);
}
template <class Trial, class Archive>
void each_field_of_trial(Trial& t, Archive& archive) {
  archive(t.about);
  archive(t.number);
  archive(t.hidden);
  archive(t.step);
  archive(t.ridge);
  archive(t.rows);
  archive(t.steps);
  archive(t.judged_on);
  archive(t.rows_per_step);
  archive(t.log_loss);
  archive(t.seconds);
}

}  // namespace truemax::checkpoint
