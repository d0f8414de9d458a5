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
#include "train/recipe.hpp"

namespace truemax {

// What a run begins from, if not from nothing.
struct Start {
  std::string name;  // of the model or log, for messages; empty: it has none
  // --init
  struct Shape {
    bool learnt = false, tied = false, intercept = false;
    std::uint64_t hidden = 0, layers = 0;
    EncoderKind encoder = EncoderKind::linear;
    bool of_triples = false;
  };
  std::optional<Shape> model;
  std::string init;              // its name, for messages; empty: it has none
  std::optional<Recipe> recipe;  // of a fit that is resumed, or repeated
  std::uint64_t epochs_done = 0;
  bool repeats = false;     // --replay: the recipe as it is
  std::uint64_t group = 0;  // of a checkpoint: the rows of its groups
};

// Before rows are read.
struct Sniffed {
  EncoderKind encoder = EncoderKind::automatic;  // that the format asks for; automatic: none
  bool triples = false;                          // --format triples
  bool has_valid = false;                        // validation rows of their own
  bool in_groups = false;                        // as Machine::in_groups
};
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

// A solver that a run without a method might have taken, and why it does not.
struct PassedOver {
  std::string solver, why;
};
struct Resolved {
  Recipe recipe;
  struct Reasons {
    std::vector<PassedOver> passed_over;
    std::string device;  // why there; empty: it was said
  } reasons;
  std::vector<std::string> notes;  // for the user
  bool needs_card = false;         // the recipe depends on Machine::card: find out, and call again
};
// Throws UserError.
Resolved resolve(const Asked& asked, const Problem& problem, const Machine& machine, const Start& start);

// The defaults of named methods, with what was said in their place.
Recipe over_defaults(const Asked& asked);

// For the searches, and for who computes a value that trials would find.
inline constexpr std::size_t kFewestRows = 50;  // with fewer there are no trials
inline constexpr double kShortRows = 0.1;       // a mean |x|^2 that is small beside an intercept
double clamped_step(double step);
double clamped_ridge(double ridge);
// The unit of step sizes, from the norms and weights of the rows. The intercept counts as a feature of value
// 1, so that tiny features do not make steps on it huge.
double unit_of_step(const Problem& problem, bool intercept);
// Where a search starts, for --target valid.
double first_step(const Problem& problem, bool intercept);
double first_ridge(const Problem& problem);
// The step of adam (train/adam_lane.hpp) and its rows.
double adam_step(const Problem& problem, bool intercept);
std::uint64_t adam_rows(const Problem& problem);
// The h of the first trials; 0 if the rank is too small for trials.
std::uint64_t first_hidden(const Problem& problem);
inline constexpr std::uint64_t kFewestHidden = 64;  // of trials

}  // namespace truemax
