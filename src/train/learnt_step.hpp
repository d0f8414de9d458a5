// A step of learnt features: n rows share the drawn classes, so scores and gradients are three matrix
// products. u moves by the mirror step (solve/mirror.hpp); W, the intercept and the encoder by RMSprop along
// the gradient of the double sum at the new u, only where the step touches them. The gradient is divided by
// its running size, so the step is about the most by which a parameter moves.
//
// Examples that share an input (DataView::input_of) share the estimate U of its log-normaliser: a step starts
// from u = max(0, U - z_y) and writes u + z_y back (shared_step). Those of one row that follow each other
// have the same scores, which are computed once.
//
// Several ranks take a step together. Each has the classes of its own blocks: it scores those that were
// drawn, and moves them. All know the draws, x and u. They exchange, of n rows:
//   - the scores of the labels, which their owners know (n numbers, while the others are computed),
//   - the highest score and the sum of the exponentials of each row (2 n),
//   - the gradient of x (n h, while the classes are moved).
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "core/team.hpp"
#include "train/drawn_batch.hpp"
#include "train/encoder.hpp"
#include "train/lane.hpp"
#include "train/step_rows.hpp"

namespace truemax {

inline constexpr double kLearntKeep = 0.999;  // of the running mean of squared gradients, per step

// Every number that a step computes stays far inside float32 if no parameter exceeds `largest`.
bool learnt_step_fits(const Encoder& encoder, double dropout, double largest, double rho);

class LearntStep {
 public:
  LearntStep(const LaneSetup& setup, std::size_t threads);

  // Takes step t of a batch. Several LearntSteps may do so at the same time on one state: then some of their
  // updates of a vector are lost. `meanwhile`: one of the threads calls it while others work.
  void take(const DrawnBatch& visited, std::size_t t, double step, double rho, RunState& state,
            const std::function<void()>& meanwhile = {});

  bool fits(double largest, double rho) const;

  Team& team() { return team_; }

  // Bytes of its arrays.
  static std::uint64_t bytes(const Facts& facts);

 private:
  // Classes of a rank are numbered as its LearntState has them.
  // A class that a step changes: drawn at place `column` (kNotDrawn: not drawn), and the label of the rows
  // labelled_[first ... end].
  struct Touched {
    ClassId k;
    std::uint32_t column, first, end;
  };
  struct Labelled {
    ClassId label;
    std::uint32_t row;
  };

  void prepare(const RunState& state, const DrawnBatch& visited, std::size_t t);
  template <class Work>
  void share_rows(bool with_touched, const Work& work);
  void pack_classes(const LearntState& learnt);
  void score_and_solve(const RunState& state, double rho);
  void score_labels(const LearntState& learnt, std::size_t first, std::size_t end);
  void score_rows(std::size_t first, std::size_t end, std::size_t member);
  void differentiate_rows(const LearntState& learnt, std::size_t first, std::size_t end, std::size_t member);
  void sum_row(std::size_t r);
  void sum_over_ranks();
  void solve_row(const RunState& state, std::size_t r, double rho);
  void solve_one(const RunState& state, std::size_t i, double rho);
  void solve_together(const RunState& state, std::size_t r, double rho);
  void scale_columns(std::size_t r, double sum, double factor);
  bool is_label(ClassId k, std::size_t first, std::size_t end) const;  // of examples first ... end
  void find_inputs();
  ClassId own_class(ClassId k) const {  // kNotOwn: another rank has it
    if (setup_.share == nullptr) return k;
    return setup_.share->owns_class(k) ? setup_.share->local_class(k) : kNotOwn;
  }
  // The column of an example's label; at least the number of columns if it has none here.
  std::size_t label_column(std::size_t i) const {
    return labels_[i] == kNotOwn ? kNotOwn : column_of_[labels_[i]];
  }
  float* scores_of(std::size_t r) { return p_.data() + r * classes_.size(); }
  // The weight of an example in the mean of the step.
  double share_of(std::size_t i) const {
    return setup_.data.weight(examples_[i]) * (1 / static_cast<double>(examples_.size()));
  }
  void apply(RunState& state, double step, const std::function<void()>& meanwhile);
  void move_classes(RunState& state, const LearntRate& rate, const std::function<void()>& meanwhile);
  void prefetch_class(const LearntState& learnt, ClassId k) const;
  double class_gradient(const LearntState& learnt, std::size_t n, float* g) const;
  void update_class(LearntState& learnt, const LearntRate& rate, std::size_t n, std::size_t member);
  void find_touched();
  DenseRows all_x() const { return {x_.data(), inputs_.size(), hidden_, hidden_}; }
  DenseRows all_p() const { return {p_.data(), inputs_.size(), classes_.size(), classes_.size()}; }

  static constexpr ClassId kNotOwn = 0xFFFFFFFF;

  Team team_;
  const LaneSetup& setup_;
  std::unique_ptr<Encoder> encoder_;
  std::size_t hidden_;
  StepRows rows_;
  // Of the current step: rows, drawn classes and the numbers between them.
  std::span<const ExampleId> examples_;
  std::vector<ClassId> labels_;           // kNotOwn: of another rank
  std::vector<ExampleId> inputs_;         // the first example of each row x
  std::vector<std::uint32_t> begin_;      // by input: its examples, begin_[r] ... begin_[r + 1]
  std::vector<std::uint32_t> input_;      // by example: its input
  std::vector<ClassId> classes_;          // drawn, of this rank
  std::vector<float> offset_;             // by column: intercept + log of the draw weight
  std::vector<std::uint32_t> column_of_;  // by class; kNotDrawn
  std::vector<float> x_, dx_;             // [inputs][h]
  std::vector<float> p_;                  // [inputs][columns]: scores, then weight times probability
  std::vector<float> of_label_;           // by example: what the label loses, the sum of its part of p_
  std::vector<float> label_score_;        // by example
  std::vector<double> u_, scale_;         // by example; of p_, for those that share a row
  std::vector<float> highest_, most_;     // by input: the highest score of this rank's columns, of all ranks'
  // By example: the logarithm of the sum of the exponentials of all other classes' scores; for those that
  // share a row, the sum itself, relative to the highest score.
  std::vector<double> others_;
  LeftPanels panels_;               // p_ transposed
  std::vector<float> gradient_;     // [columns][h]
  std::vector<double> column_sum_;  // of p_, over all rows
  std::vector<Labelled> labelled_;  // by label
  std::vector<Touched> touched_;
  std::vector<std::vector<float>> scratch_;  // by member: [h]
  std::vector<ClassId> moved_;               // of tied vectors: the classes of touched_,
  std::vector<float> moved_by_;              // and their gradients [touched][h]
  Dropout dropout_;
  DenseProduct scores_, to_rows_, to_classes_;
};

}  // namespace truemax
