// A run that starts from a model instead of from zero.
#pragma once

#include "model/model.hpp"
#include "train/run_state.hpp"
#include "train/trainer.hpp"

namespace truemax {

// Throws UserError if the model does not have the features of the data, or is of plain text or triples.
void require_start(const Model& start, const DataView& data);

// Before complete(): a linear model continues as one, learnt features with their h. Throws UserError if the
// options say otherwise.
void continue_shape(const Model& start, const std::function<bool(const char* option)>& given,
                    TrainOptions& options);

// Puts the weights of the model into a fresh state, class by name; classes that it lacks stay as they are,
// their intercepts moved to the level of the others. Estimates u that the method starts at their exact value
// are exact again, which costs an evaluation.
void start_from(const Model& start, const DataView& data, const TrainOptions& options, RunState& state);

}  // namespace truemax
