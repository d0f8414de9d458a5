// The words of a plan. `truemax train` prints some of these lines, `truemax plan` all of them.
#pragma once

#include <string>
#include <vector>

#include "train/plan.hpp"
#include "train/resolve.hpp"

namespace truemax {

// The limits of a run: "50 epochs", "10 steps or 2 s".
std::string budget_text(const Recipe& recipe);
std::string ridge_text(const Recipe& recipe);

// Lines of the result, each with its name before it and a newline after it.
std::string method_text(const Recipe& recipe);
std::string solver_text(const Plan& plan);
std::string memory_text(const Plan& plan);

// Solvers that are not taken, each with a reason: those that the run might have chosen, and those that stand
// before the one of the plan in the table.
std::vector<PassedOver> not_taken(const Plan& plan, const std::vector<PassedOver>& passed_over);

// All lines.
std::string plan_text(const Plan& plan, const Reasons& reasons);

}  // namespace truemax
