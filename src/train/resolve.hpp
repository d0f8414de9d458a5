// The one place where a run is decided: from what was asked and what the data and the machine are to a
// recipe. No files, no clock, no globals. What is decided before rows are read is in resolve_reading.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/machine.hpp"
#include "train/options.hpp"
#include "train/problem.hpp"
#include "train/reasons.hpp"
#include "train/recipe.hpp"
#include "train/start_point.hpp"

namespace truemax {

struct Reading {
  Recipe draft;                   // what follows from the options alone
  std::vector<std::string> open;  // the options that are still to be chosen
  bool automatic = false;
  Wanted wanted;  // facts of the data that resolve will ask for

  EncoderKind encoder() const { return draft.encoder; }  // how plain text is read
  bool is_open(std::string_view option) const;
  // The options, with "auto" for open ones that have this word.
  nlohmann::ordered_json to_json() const;
};
// Refuses what cannot be whatever the data are. Throws UserError.
Reading resolve_reading(const Asked& asked, const Sniffed& sniffed, const Start& start);

struct Resolved {
  Recipe recipe;
  Reasons reasons;
  std::vector<std::string> notes;  // for the user
  bool needs_card = false;         // the recipe depends on Machine::card: find out, and call again
};
// Throws UserError.
Resolved resolve(const Asked& asked, const Problem& problem, const Machine& machine, const Start& start);

}  // namespace truemax
