// The file of a checkpoint as a stream of bytes: what they mean is in checkpoint.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/state_stream.hpp"

namespace truemax::checkpoint {

// The file: magic, version, `SavedRun`, the state (of a search: what its trials leave), then the length of
// all that and a checksum of all before it. Numbers lie as in memory (little-endian).
inline constexpr std::array<char, 8> kMagic{'T', 'M', 'X', 'C', 'H', 'K', 'P', 'T'};
// Changes with every change of SavedRun or RunState.
inline constexpr std::uint64_t kFormat = 3;

// Writes aside what `save` puts into its sink, syncs, reads the file back and compares its checksum, then
// renames. Throws UserError; the old file is then untouched. Over several ranks all call it, and what the
// first one puts is written.
void write_file(const std::string& path, const std::function<void(StateSink&)>& save);

// What `save` put, after the checksum was compared. Throws UserError if the file is not a checkpoint of this
// format, or is damaged, or cannot be read. Over several ranks all call it and read the same at the same
// time, and the first one has the file.
std::unique_ptr<StateSource> open_file(const std::string& path);

}  // namespace truemax::checkpoint
