// The options of training, each listed and described once: Asked has what somebody said of them, Recipe
// (train/recipe.hpp) what was chosen.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/options.hpp"
#include "core/row_encoder.hpp"
#include "device/open.hpp"
#include "draw/draw.hpp"
#include "evaluate/sampled.hpp"
#include "rule/rule.hpp"

namespace truemax {

enum class Visit { random, shuffle, file };
enum class Schedule { decay, linear };
enum class Target { valid, train };

inline constexpr double kLargestStep = 1e15;
// More epochs than any run takes: it ends by time or steps.
inline constexpr std::uint64_t kUnlimitedEpochs = 1000000000;

inline constexpr std::uint64_t kMostGroup = 65536;  // rows
inline constexpr char kAutomatic[] = "auto";
// Shown in the help as the default of options that are chosen where nothing is said.
inline constexpr char kFoundByTrials[] = "found by trials", kChosenFromData[] = "chosen from the data";

// The defaults are those of named methods.
// Ordered for the reader; padding does not matter for a struct with few instances.
// NOLINTBEGIN(clang-analyzer-optin.performance.Padding)
template <template <class> class As>
struct TrainFields {
  As<std::string> method = by_default<As, std::string>("prox");
  As<Target> target = by_default<As>(Target::valid);  // of what trials find
  As<double> step = by_default<As>(0.1);              // eta N
  As<Schedule> schedule = by_default<As>(Schedule::decay);
  As<double> decay = by_default<As>(0.9);  // epoch e uses step * decay^e, unless the schedule is linear
  As<std::uint64_t> epochs = by_default<As, std::uint64_t>(50);
  As<std::uint64_t> steps = by_default<As, std::uint64_t>(0);   // at most, in the whole run; 0: no limit
  As<std::uint64_t> newton = by_default<As, std::uint64_t>(0);  // steps of Newton's method after the epochs
  As<double> seconds = by_default<As>(0.0);                     // at most, of training; 0: no limit
  As<std::uint64_t> classes_per_step = by_default<As, std::uint64_t>(1);  // m
  As<std::uint64_t> rows_per_step = by_default<As, std::uint64_t>(1);     // n
  As<std::uint64_t> group = by_default<As, std::uint64_t>(0);  // rows that are solved side by side; 0: none
  As<std::string> draw = by_default<As, std::string>("uniform");
  DrawFields<As> draws;
  As<Visit> visit = by_default<As>(Visit::random);
  As<EncoderKind> encoder = by_default<As>(EncoderKind::automatic);
  As<std::uint64_t> hidden = by_default<As, std::uint64_t>(0);  // h, learnt features of a row; 0: linear
  As<std::uint64_t> layers = by_default<As, std::uint64_t>(0);  // tanh, between the words of a context and x
  As<bool> tied = by_default<As>(false);             // the vectors of classes are those of the words
  As<bool> row_state = by_default<As>(false);        // one running mean of squared gradients for a vector
  As<double> dropout = by_default<As>(0.0);          // share of the numbers of x that a step leaves out
  As<bool> shard_embedding = by_default<As>(false);  // ranks share the vectors of the features out
  As<bool> intercept = by_default<As>(false);
  As<double> ridge = by_default<As>(0.0);            // mu, added to the sum of the row losses
  As<bool> ridge_intercept = by_default<As>(false);  // the intercept is in the ridge
  As<bool> ridge_by_spread = by_default<As>(false);  // weights count in units of the spread of their feature
  As<bool> start_at_frequencies = by_default<As>(false);  // the intercept, at the log class frequencies
  As<std::uint64_t> seed = by_default<As, std::uint64_t>(1);
  As<std::uint64_t> eval_every = by_default<As, std::uint64_t>(10);  // 0: only after the last epoch
  As<double> valid_share = by_default<As>(0.0);                      // of the rows, set aside for validation
  As<std::uint64_t> patience = by_default<As, std::uint64_t>(0);     // evaluations without a gain; 0: off
  As<bool> eval_train = by_default<As>(true);                        // evaluate the training rows too
  EvaluateFields<As> evaluation;                                     // exact, or an estimate
  As<std::uint64_t> threads = by_default<As, std::uint64_t>(0);      // 0: all cores
  As<std::string> device = by_default<As, std::string>(device::kCpu);  // as device::Choice reads it
  As<bool> lock_free = by_default<As>(false);  // steps on several threads do not wait for each other
  RuleFields<As> rule;

  void describe(OptionTable& table);
};

// NOLINTEND(clang-analyzer-optin.performance.Padding)

// What somebody said, and nothing else: what is empty was left open. The same from the command line, Python,
// C and C++.
struct Asked : TrainFields<std::optional> {
  bool ridge_auto = false;  // --ridge auto

  // Without a method, or with "auto", options that were not said are chosen.
  bool automatic() const { return !method || *method == kAutomatic; }
};

// --encoder, which also says how plain text is read.
void describe_encoder(OptionTable& table, const Place<EncoderKind>& encoder);

}  // namespace truemax
