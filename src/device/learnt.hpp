// A device that trains learnt features: an interface without a word of CUDA, as device/engine.hpp is for
// linear models. Rows, tables and u live on the device from upload() to download(); take() only queues steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "device/engine.hpp"

namespace truemax::device {

enum class LearntKind : std::uint32_t {
  bag,      // x = sum_f v_f E_f
  places,   // x = sum_p C_p o E[word_p]
  layer,    // x = tanh(sum_p L_p E[word_p] + a)
  complex,  // x = E_entity E_relation over the complex numbers
};

// What stays the same in a run.
struct LearntShape {
  LearntKind kind = LearntKind::bag;
  std::uint32_t hidden = 0, classes = 0, features = 0;
  std::uint32_t width = 0;       // places of a row: places and layer
  std::uint32_t left_out = ~0U;  // a place that is not part of x (cbow)
  bool fixed_factors = false;    // C is not learnt
  bool tied = false;             // W is the first rows of E
  bool ridge_intercept = false;
  bool row_state = false;       // one running mean of squared gradients for a row of E or W
  bool exact_products = false;  // float32 instead of TF32 on tensor cores
  double dropout = 0;
  std::uint64_t seed = 0;
  double penalty = 0;                           // complex: 3 times the weight of N3 in an example's loss
  double keep = 0;                              // of the running means, per step
  std::uint32_t most_rows = 0, most_drawn = 0;  // of a step
  std::uint64_t most_uses = 0;                  // of vectors by the rows of a step
};

// The tables of train/learnt_state.hpp, row by row and without gaps. Empty where there is none.
struct HostTables {
  std::span<float> features, features_square;
  std::span<float> mixing, mixing_square;
  std::span<float> classes, classes_square;  // empty if tied
  std::span<float> intercept, intercept_square;
};

struct HostLearntExamples {
  std::span<const std::uint32_t> row;  // empty: example i is row i
  std::span<const std::uint32_t> label;
  std::span<const std::uint32_t> input;  // empty: each example keeps its own u; else its place in u
  std::span<const float> weight;         // empty: all 1
};

// Steps that follow each other, with one step size.
struct LearntSteps {
  std::span<const std::uint32_t> first;  // [steps + 1]: of step t, examples first[t] ... first[t + 1]
  std::span<const std::uint32_t> example;
  std::span<const std::uint32_t> drawn_first;  // [steps + 1]: the same of the drawn classes
  std::span<const std::uint32_t> drawn;
  std::span<const float> log_weight;  // of the drawn classes
  // Examples of one row that follow each other share its x: of step t, row r has the examples
  // group[t + group_first[t] + r] ... group[... + 1] of the step. Empty: one example each.
  std::span<const std::uint32_t> group_first;  // [steps + 1]
  std::span<const std::uint32_t> group;
  std::uint64_t updates = 0;  // steps of the run before these
  double step = 0, rho = 1;
  double ridge = 0;  // gradient of the ridge per unit of a parameter
};

class LearntEngine : public Passer {
 public:
  virtual const Card& card() const = 0;

  // Throws UserError if the card has too little memory. `fresh`: all squares are zero and are not read; they
  // may be missing.
  virtual void upload(const LearntShape& shape, const HostRows& rows, const HostLearntExamples& examples,
                      const HostTables& tables, bool fresh, std::span<const double> u) = 0;
  // Queues the steps and returns; everything in `steps` has been read by then.
  virtual void take(const LearntSteps& steps) = 0;
  // The largest absolute value of a parameter, once all steps are done.
  virtual double largest() = 0;
  // Empty spans are left out.
  virtual void download(const HostTables& tables, std::span<double> u) = 0;
  // Waits for all steps; seconds that they took on the device since the last call.
  virtual double finish() = 0;
};

}  // namespace truemax::device
