// An encoder makes the dense rows x_i of a step and takes the gradients of their losses back to its own
// parameters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/team.hpp"
#include "data/data_view.hpp"
#include "train/dropout.hpp"
#include "train/facts.hpp"
#include "train/learnt_state.hpp"
#include "train/step_rows.hpp"
#include "train/vector_uses.hpp"

namespace truemax {

class Encoder {
 public:
  Encoder() = default;
  virtual ~Encoder() = default;
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;

  // The most features of a row.
  virtual std::size_t longest_row() const = 0;
  // Takes the memory for steps of up to so many rows, with gradients of up to `others` vectors from
  // elsewhere. `vectors`: of this rank.
  virtual void reserve(std::size_t rows, std::size_t others, std::size_t vectors, const Team& team) = 0;
  // x [rows][h]
  virtual void forward(const LearntState& state, const StepRows& rows, float* x, Team& team) = 0;
  // Moves the parameters along the gradients dx [rows][h] of the mean loss, of the rows that forward()
  // made last, and along `others`. May change dx.
  virtual void backward(LearntState& state, const StepRows& rows, float* dx, const OtherGradients& others,
                        const LearntRate& rate, Team& team) = 0;
  // Upper bounds, if no parameter exceeds `parameter` in absolute value: of a number of x and of what it is
  // made from, and of a parameter's gradient if no number of dx exceeds 1.
  virtual double largest_x(double parameter) const = 0;
  virtual double largest_gradient(double parameter) const = 0;
};

// Whether the vectors of the classes are those of the first features.
inline bool has_tied_vectors(const Recipe& recipe, bool triples) {
  return recipe.tied || triples;
}
// Which vectors of E are this rank's; null: all of them. Tied vectors are those of its classes and a part of
// the others: E is then W, which no rank has whole.
std::shared_ptr<const BlockShare> vector_share(const DataView& data, const Recipe& recipe);
// The encoder of the data's rows; h and layers are those of the options.
std::unique_ptr<Encoder> make_encoder(const DataView& data, const Recipe& recipe);
// The row with the largest sum of |value|, if rows are sums of learnt vectors times values; else 0.
struct LargestBag {
  double sum = 0;
  std::size_t place = 0;  // of the view
};
LargestBag largest_bag(const DataView& data);
// Of rows that a run will evaluate. Learnt vectors are rarely so small that rows of larger values would stay
// inside float32: better refused now than at the first evaluation. Training rows are refused by the first
// step.
void require_bags_in_float(const DataView& rows, const std::string& name);
// Its parameters before the first step, and the bytes they take on the rank that has most of them.
EncoderTables start_tables(const DataView& data, const Recipe& recipe);
std::uint64_t most_vectors(const Facts& facts);
std::uint64_t table_bytes(const Facts& facts);
// The bytes of a step of so many rows of plain text or triples, and of the vectors that ranks send each
// other; a bag takes next to none.
std::uint64_t encoder_step_bytes(const Facts& facts, std::uint64_t rows);

// x_i = sum_f v_f E_f over the features of row i.
class BagEncoder final : public Encoder {
 public:
  BagEncoder(const DataView& data, const Recipe& recipe);

  std::size_t longest_row() const override { return longest_row_; }
  void reserve(std::size_t rows, std::size_t others, std::size_t vectors, const Team& team) override;
  void forward(const LearntState& state, const StepRows& rows, float* x, Team& team) override;
  void backward(LearntState& state, const StepRows& rows, float* dx, const OtherGradients& others,
                const LearntRate& rate, Team& team) override;
  double largest_x(double parameter) const override { return largest_x_ * parameter; }
  double largest_gradient(double /*parameter*/) const override { return largest_value_; }

 private:
  std::size_t hidden_;
  double largest_x_ = 0, largest_value_ = 0;
  std::size_t longest_row_ = 0;
  VectorUses uses_;
};

// x_i = sum_p C_p o E[word_p], where C is learnt (context) or fixed (cbow).
class ContextEncoder final : public Encoder {
 public:
  ContextEncoder(const DataView& data, const Recipe& recipe);

  std::size_t longest_row() const override { return width_; }
  void reserve(std::size_t rows, std::size_t others, std::size_t vectors, const Team& team) override;
  void forward(const LearntState& state, const StepRows& rows, float* x, Team& team) override;
  void backward(LearntState& state, const StepRows& rows, float* dx, const OtherGradients& others,
                const LearntRate& rate, Team& team) override;
  double largest_x(double parameter) const override;
  double largest_gradient(double parameter) const override;

 private:
  void update_factors(LearntState& state, const StepRows& rows, const float* dx, const LearntRate& rate,
                      Team& team);

  std::size_t hidden_, width_;
  bool fixed_;
  std::vector<float> factors_;   // C before the step [width][h]
  std::vector<float> gradient_;  // of C
  VectorUses uses_;
};

// ComplEx: x_i = E_entity E_relation, number by number, for a row of triples (data/triples.hpp). In place of
// the ridge every example adds lambda = options.ridge times N3 = sum |v|^3 of the vectors of its entity, its
// relation and its label.
class ComplexEncoder final : public Encoder {
 public:
  ComplexEncoder(const DataView& data, const Recipe& recipe);

  std::size_t longest_row() const override { return 2; }
  void reserve(std::size_t rows, std::size_t others, std::size_t vectors, const Team& team) override;
  void forward(const LearntState& state, const StepRows& rows, float* x, Team& team) override;
  void backward(LearntState& state, const StepRows& rows, float* dx, const OtherGradients& others,
                const LearntRate& rate, Team& team) override;
  double largest_x(double parameter) const override;
  double largest_gradient(double parameter) const override;

 private:
  const DataView& data_;
  std::size_t hidden_;
  double penalty_;             // 3 lambda
  double largest_weight_ = 0;  // of an example
  std::vector<float> slope_;   // [rows][2][h]: gradients of entity and relation
  VectorUses uses_;
};

// x_i = tanh(sum_p L_p E[word_p] + a), with dropout of the words' numbers.
class LayerEncoder final : public Encoder {
 public:
  LayerEncoder(const DataView& data, const Recipe& recipe);

  std::size_t longest_row() const override { return width_; }
  void reserve(std::size_t rows, std::size_t others, std::size_t vectors, const Team& team) override;
  void forward(const LearntState& state, const StepRows& rows, float* x, Team& team) override;
  void backward(LearntState& state, const StepRows& rows, float* dx, const OtherGradients& others,
                const LearntRate& rate, Team& team) override;
  double largest_x(double parameter) const override;
  double largest_gradient(double parameter) const override;

 private:
  void update_layer(LearntState& state, std::size_t rows, const float* dx, const LearntRate& rate,
                    Team& team);

  std::size_t hidden_, width_;
  Dropout dropout_;
  std::vector<float> words_, slope_;  // [rows][width h]: vectors side by side, and their gradients
  std::vector<float> x_;              // [rows][h]
  std::vector<float> gradient_;       // of the layer, [width h + 1][h]
  DenseProduct to_x_, to_words_, to_layer_;
  VectorUses uses_;
};

}  // namespace truemax
