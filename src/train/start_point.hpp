// What a run begins from, besides what was asked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

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

}  // namespace truemax
