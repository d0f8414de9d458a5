// The options of training.
#pragma once

#include <cstdint>
#include <functional>
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
inline constexpr double kAutomaticRidge = -1;
// Shown in the help as the default of options that auto chooses.
inline constexpr char kFoundByTrials[] = "found by trials", kChosenFromData[] = "chosen from the data";

// The largest h that trials take.
inline constexpr std::uint64_t kMostHidden = 1024;

// What --method auto may still choose.
struct OpenChoices {
  bool shape = false, step = false, ridge = false, epochs = false;
  bool newton = false;                                 // Newton's method instead of steps, if it is cheap
  bool by_weight = false;                              // adam, where it is faster
  bool layers = false, tied = false, dropout = false;  // of plain text
  bool row_state = false;                              // chosen by the memory, not by trials
  bool device = false;                                 // --device was not given
  bool encoder = false;                                // linear or learnt features
  bool hidden = false;                                 // h, if they are learnt
  std::uint64_t most_hidden = kMostHidden;             // the largest h that fits in memory
  bool any() const { return shape || encoder || searches(); }
  bool searches() const { return step || ridge || epochs || hidden || layers || tied || dropout; }
};

// Ordered for the reader; padding does not matter for a struct with few instances.
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding)
struct TrainOptions {
  std::string method = kAutomatic;
  Target target = Target::valid;  // of auto
  double step = 0.1;              // eta N
  Schedule schedule = Schedule::decay;
  double decay = 0.9;  // epoch e uses step * decay^e, unless the schedule is linear
  std::uint64_t epochs = 50;
  std::uint64_t steps = 0;             // at most, in the whole run; 0: no limit
  std::uint64_t newton = 0;            // steps of Newton's method after the epochs, at most
  double seconds = 0;                  // at most, of training; 0: no limit
  std::uint64_t classes_per_step = 1;  // m
  std::uint64_t rows_per_step = 1;     // n
  std::uint64_t group = 0;             // rows that are solved side by side; 0: chosen, or no groups
  std::string draw = "uniform";
  DrawOptions draws;
  Visit visit = Visit::random;
  EncoderKind encoder = EncoderKind::automatic;
  std::uint64_t hidden = 0;  // h, learnt features of a row; 0: the features of the data, or not chosen yet
  std::uint64_t layers = 0;  // tanh layers between the words of a context and x
  bool tied = false;         // the vectors of classes are those of the words
  bool row_state = false;    // one running mean of squared gradients for a vector, not one for each number
  double dropout = 0;        // share of the numbers of x that a step leaves out
  bool shard_embedding = false;  // ranks share the vectors of the features out
  bool intercept = false;
  double ridge = 0;                   // mu, added to the sum of the row losses
  bool ridge_intercept = false;       // the intercept is in the ridge
  bool ridge_by_spread = false;       // the ridge counts weights in units of the spread of their feature
  bool start_at_frequencies = false;  // the intercept starts at the log class frequencies
  std::uint64_t seed = 1;
  std::uint64_t eval_every = 10;  // 0: only after the last epoch
  double valid_share = 0;         // share of the rows set aside for validation
  std::uint64_t patience = 0;     // evaluations without a lower validation log-loss before stopping; 0: off
  bool eval_train = true;         // evaluate the training rows too
  EvaluateOptions evaluation;     // exact, or an estimate
  std::uint64_t threads = 0;      // 0: all cores
  std::string device = device::kCpu;  // as device::Choice reads it
  bool lock_free = false;             // steps on several threads do not wait for each other
  RuleOptions rule;
  OpenChoices open;  // set by complete()

  void describe(OptionTable& table);
  // Sets defaults that depend on other options, for options that were not given. `of_data`: the encoder that
  // the data ask for (context or cbow for plain text, complex for triples), automatic if they ask for none.
  // `groups`: the run has groups of rows, whatever --group says, as one that continues such a run.
  void complete(const std::function<bool(const char* option)>& given,
                EncoderKind of_data = EncoderKind::automatic, bool groups = false);
  // Checks combinations, such as whether method and draw take this n and m. Throws UserError.
  void check() const;
  bool automatic() const { return method == kAutomatic; }
  bool learnt() const {
    return hidden > 0 || (encoder != EncoderKind::automatic && encoder != EncoderKind::linear);
  }
  // Whether trials decide between linear and learnt features. They take too long for --seconds.
  bool compares_encoders() const { return open.encoder && seconds == 0; }
  std::string method_used() const { return !automatic() ? method : learnt() ? "scent" : "prox"; }
  std::size_t thread_count() const;
  double step_at(std::uint64_t epoch) const;  // for --schedule decay
  // The part of complete() that is for learnt features.
  void complete_learnt(const std::function<bool(const char* option)>& given, bool text = false);

 private:
  void complete_encoder(const std::function<bool(const char* option)>& given);
};

// --encoder, which also says how plain text is read.
void describe_encoder(OptionTable& table, EncoderKind* encoder);

}  // namespace truemax
