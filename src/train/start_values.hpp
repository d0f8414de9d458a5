// The numbers that trials start from, and that others take who compute what trials would find.
#pragma once

#include <cstdint>

#include "train/problem.hpp"

namespace truemax {

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
