// A run that starts from a model instead of from zero.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "data/options.hpp"
#include "model/model.hpp"
#include "train/run_state.hpp"
#include "train/start_point.hpp"

namespace truemax {

// Throws UserError if the model is of another kind of data: features that are not named alike, or other
// contexts of words.
void require_start(const Model& start, const DataView& data);
// Throws UserError if the model does not have exactly the features of the data.
void require_same_features(const Model& start, const DataView& data);

// What the run of a model goes on with.
Start::Shape shape_of(const Model& start);
// Data are read as those of the model were, but for options that the user has given. Throws UserError if
// those would change what a feature is; `notes` tells of what changes its values.
void continue_reading(const Model& start, const std::function<bool(const char* option)>& given,
                      ReadOptions& read, PreprocessOptions& preprocess, std::vector<std::string>& notes);

// What a model and data have in common, matched as start_from() does.
struct StartMatch {
  std::size_t classes = 0, features = 0;
};
// Throws UserError if that is nothing at all.
StartMatch require_match(const Model& start, const DataView& data);

// Puts the weights of the model into a fresh state, classes and words by name, other features by number;
// those that the model lacks stay as they are, with intercepts moved to the level of the others. Estimates u
// that the method starts at their exact value are exact again, which costs an evaluation.
void start_from(const Model& start, const DataView& data, const Recipe& recipe, RunState& state);

}  // namespace truemax
