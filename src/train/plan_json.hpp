// Plans, and what they are made from, as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "train/plan.hpp"
#include "train/resolve.hpp"

namespace truemax {

nlohmann::ordered_json to_json(const Plan& plan);

// A plan that a log or a checkpoint has must be that of the run that goes on, or is repeated. Throws
// UserError with what differs. `saved`: null or no plan in older files, which is taken as it is.
void verify(const nlohmann::json& saved, const Plan& plan);

// As facts of tests, and for who asks on what a plan is based.
nlohmann::ordered_json to_json(const Problem& problem);
nlohmann::ordered_json to_json(const Machine& machine);
nlohmann::ordered_json to_json(const Start::Shape& model);
// Throw UserError where something is missing or of another kind.
Problem problem_of_json(const nlohmann::json& json);
Start::Shape shape_of_json(const nlohmann::json& json);

}  // namespace truemax
