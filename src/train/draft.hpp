// A recipe that is being decided: what follows from the options alone.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "train/options.hpp"
#include "train/reasons.hpp"
#include "train/recipe.hpp"
#include "train/start_point.hpp"

namespace truemax {

// With what is still open besides what trials shall find.
struct Draft {
  Recipe recipe;
  bool automatic = false;
  bool shape = false;                     // draw and classes of a step, or its rows
  bool ridge = false;                     // nothing was said of it
  bool newton = false;                    // Newton's method instead of steps, if it is cheap
  bool by_weight = false;                 // adam or lbfgs, where they are faster
  std::string not_newton, not_by_weight;  // why they are not open
  Reasons reasons;
  bool encoder = false;  // linear or learnt features
  bool row_state = false;
  std::optional<std::uint64_t> rivals;  // as said

  bool searches() const { return recipe.sought.any(); }
  bool any() const { return shape || encoder || searches(); }
  // `why_not`: why this solver is not taken; empty: it is.
  bool takes(const char* solver, std::string why_not) {
    if (why_not.empty()) return true;
    reasons.passed_over.push_back({solver, std::move(why_not)});
    return false;
  }
};

// The defaults of named methods, with what was said in their place.
Recipe over_defaults(const Asked& asked);

// A linear model to start from continues as one, learnt features with their h, layers and ties: as if that
// had been said. Throws UserError if something else was said.
Asked with_shape_of(const Start& start, const Asked& asked);
// What was asked, and what follows from that alone.
Draft draft_of(const Asked& asked, const Sniffed& sniffed, const Start& start);
// The options that are still to be chosen.
std::vector<std::string> open_options(const Draft& draft);
// Throws UserError, also for a GPU in the program of many ranks.
void require_possible(const Asked& asked, const Draft& draft, const Sniffed& sniffed);
void require_cpu(const Recipe& recipe);

bool runs_on_card(const Recipe& recipe);
// Steps of learnt features: many rows share many drawn classes, so that scores are matrix products.
void use_learnt_steps(const Asked& asked, bool text, Draft& draft);

}  // namespace truemax
