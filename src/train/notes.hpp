// What a user is told about a recipe.
#pragma once

#include <string>
#include <vector>

#include "train/draft.hpp"
#include "train/problem.hpp"

namespace truemax {

// Empty: nothing.
std::string note_on_classes(const Recipe& recipe, const Problem& problem);
std::string note_on_short_rows(const Draft& draft, const Problem& problem);
// What was said and has no effect.
std::vector<std::string> notes_of_unused(Asked asked, const Draft& draft);
// Of a recipe, whoever said it.
std::vector<std::string> notes_on(const Recipe& recipe, bool automatic);

}  // namespace truemax
