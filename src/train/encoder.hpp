// An encoder makes the dense rows x_i of a step and takes the gradients of their losses back to its own
// parameters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/team.hpp"
#include "data/data_view.hpp"
#include "train/learnt_state.hpp"

namespace truemax {

// How far parameters move along a gradient.
struct LearntRate {
  float rate = 0, keep = 0;  // of rms_step
  float ridge = 0;           // gradient of the ridge per unit of a parameter
};

class Encoder {
 public:
  Encoder() = default;
  virtual ~Encoder() = default;
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;

  // Takes the memory for steps of up to so many rows of length h.
  virtual void reserve(std::size_t rows, std::size_t h, const Team& team) = 0;
  // x [examples][h]
  virtual void forward(const LearntState& state, std::span<const ExampleId> examples, float* x,
                       Team& team) = 0;
  // Moves the parameters along the gradients dx [examples][h] of the mean loss.
  virtual void backward(LearntState& state, std::span<const ExampleId> examples, const float* dx,
                        const LearntRate& rate, Team& team) = 0;
  // Upper bounds, if no parameter exceeds 1 in absolute value: of a number of x, and of a parameter's
  // gradient if no number of dx exceeds 1.
  virtual double largest_x() const = 0;
  virtual double largest_gradient() const = 0;
};

// x_i = sum_f v_f E_f over the features of row i.
class BagEncoder final : public Encoder {
 public:
  explicit BagEncoder(const DataView& data);

  void reserve(std::size_t rows, std::size_t h, const Team& team) override;
  void forward(const LearntState& state, std::span<const ExampleId> examples, float* x, Team& team) override;
  void backward(LearntState& state, std::span<const ExampleId> examples, const float* dx,
                const LearntRate& rate, Team& team) override;
  double largest_x() const override { return largest_x_; }
  double largest_gradient() const override { return largest_value_; }

 private:
  // The rows of a step that have a feature.
  struct Use {
    std::uint32_t row;
    float value;
  };
  void gather_uses(std::span<const ExampleId> examples);

  const DataView& data_;
  double largest_x_ = 0, largest_value_ = 0;
  std::size_t longest_row_ = 0;
  std::vector<std::uint32_t> place_;  // by feature: its place in features_, kNone if the step lacks it
  std::vector<FeatureId> features_;   // of the step, in order of first use
  std::vector<std::uint32_t> begin_;  // by place: its uses in uses_
  std::vector<Use> uses_;
  std::vector<std::vector<float>> gradient_;  // by member
};

}  // namespace truemax
