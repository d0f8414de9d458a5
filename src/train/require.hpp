// What cannot be done, refused with what to do instead. All throw UserError.
#pragma once

#include "train/facts.hpp"
#include "train/options.hpp"

namespace truemax {

// While a run is decided.
struct Stage {
  const Asked* asked = nullptr;  // null: a recipe by itself
  bool shape_is_open = false;    // draw and classes per step are still to be chosen
  bool searches = false;         // trials will find something
  bool in_groups = false;        // as Machine::in_groups
};
// Combinations of options, such as whether method and draw take this n and m.
void require_possible(const Recipe& recipe, const Stage& stage = {});
// Rows and classes per step, and the encoder, against the data. `may_learn`: features may still be learnt.
void require_shape(const Recipe& recipe, const Problem& problem, bool may_learn = false);
// What can be said of triples before they are read.
void require_triples_shape(const Recipe& recipe);
// Something must end the run, and --patience needs validation rows.
void require_end(const Recipe& recipe, bool has_valid);
// A run that has groups, or that is on a GPU.
void require_groups(const Facts& facts);
void require_device(const Facts& facts);

}  // namespace truemax
