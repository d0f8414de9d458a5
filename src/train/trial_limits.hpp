// The numbers that searches go by (linear_search.cpp, learnt_search.cpp, newton_search.cpp), for who tells
// what trials will do before they begin (trials.hpp).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace truemax {

// Linear models that take steps.
namespace linear_trials {

// Steps of --target train, in units of 1/mean |x|^2.
inline constexpr double kTrainStep = 10, kStepFactor = 6, kValidStepFactor = 3;
// If trials would take too much of the time.
inline constexpr double kUntriedTrainStep = 30;
inline constexpr double kRidgeFactor = 3.1622776601683795;
inline constexpr int kMostTrials = 10, kFewestTrials = 4;  // of ridge and step, before longer runs
inline constexpr int kRidgeMoves = 2, kMoreSteps = 4, kTrainMoves = 2, kRidgeMovesAgain = 4;
inline constexpr std::uint64_t kMostEpochs = 64, kMostEpochsOfFewRows = 1024, kUntriedEpochs = 10;
inline constexpr double kManyRows = 1e6;
inline constexpr double kMostVisits = 1e7;  // most row visits of a trial on all rows
inline constexpr double kFewVisits =
    5e5;  // with at most so many, a trial may be four times as long as the best
inline constexpr double kFewestJudges = 4000, kFewestTimedJudges = 500, kMostJudges = 20000;

// Of a trial. With few rows, classes that can be told apart gain from hundreds.
inline std::uint64_t most_epochs(double rows) {
  return std::clamp(static_cast<std::uint64_t>(kFewVisits / rows), kMostEpochs, kMostEpochsOfFewRows);
}
inline std::uint64_t first_epochs(double rows) {
  return rows > kManyRows ? 1 : rows > 1e5 ? 2 : 4;
}
// Ridge and step are found on so many rows, in so many passes over them.
inline double early_rows(double rows) {
  return std::min(rows, std::max(25000.0, rows > 5e5 ? rows / 8 : rows / 4));
}
inline double early_passes(double rows) {
  return early_rows(rows) < rows ? 2 : 4;
}
inline int step_moves(int most) {
  return most > 7 ? 3 : 2;
}
// Large changes of the ridge, by the square of its factor.
inline int large_ridge_moves(int most) {
  return std::max(2, most - 6);
}
inline double train_steps(double rows) {
  return std::clamp(rows / 2, std::min(2 * rows, 5000.0), 1e5);
}

}  // namespace linear_trials

namespace learnt_trials {

inline constexpr double kRidgeMove = 3.1622776601683795, kStepMove = 2;
inline constexpr int kMostRidgeMoves = 4, kMostStepMoves = 2;
inline constexpr std::uint64_t kMostEpochs = 80;
inline constexpr std::size_t kMostJudges = 20000, kFewestTrialRows = 20000;
// Counted, not measured: the same choices on every machine.
inline constexpr double kTrialSeconds = 10, kFlops = 8e10;
// A GPU has time for trials on all rows of most data.
inline constexpr double kDeviceTrialSeconds = 2, kDeviceFlops = 2e13;
// Trials of triples may take longer, because they are of no use on a part.
inline constexpr double kTripleTimes = 4;
inline constexpr double kLabel = 32;       // examples of one row share its scores; each still moves its label
inline constexpr double kMuchFewer = 0.8;  // of the rows
// A longer run may take so many times kTrialSeconds, more learnt features so many.
inline constexpr double kLongestEpochs = 4, kLongestHidden = 2;

}  // namespace learnt_trials

namespace newton_trials {

inline constexpr std::size_t kFewestForFolds = 10;  // rows
// Decades of the ridge, in units of mean |x|^2.
inline constexpr int kFirstDecade = 1, kHighestDecade = 6, kLowestDecade = -8, kUntriedDecade = -2;

}  // namespace newton_trials

}  // namespace truemax
