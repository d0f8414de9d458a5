#include <algorithm>

#include "train/encoder.hpp"
#include "weights/complex.hpp"

namespace truemax {
namespace {
constexpr std::size_t kTripleRows = 16;  // a task of a thread
constexpr std::uint32_t kRoles = 3;      // of an example: its entity, its relation, its label
}  // namespace

ComplexEncoder::ComplexEncoder(const DataView& data, const Recipe& recipe)
    : data_(data), hidden_(recipe.hidden), penalty_(3 * recipe.ridge) {
  for (const ExampleId i : data.examples()) largest_weight_ = std::max(largest_weight_, data.weight(i));
}

void ComplexEncoder::reserve(std::size_t rows, std::size_t others, std::size_t vectors, const Team& team) {
  slope_.resize(2 * rows * hidden_);
  uses_.reserve(vectors, rows, kRoles, others, hidden_, team);
}

void ComplexEncoder::forward(const LearntState& /*state*/, const StepRows& rows, float* x, Team& team) {
  const ComplexRows encoded(rows.vectors());
  team.share_chunks(rows.size(), kTripleRows, [&](std::size_t /*member*/, std::size_t i) {
    encoded.encode_row(rows.row(i), x + i * hidden_);
  });
}

// The penalty of a use depends only on the vector that it moves, so it is added where that vector is moved.
// The gradients depend on other vectors and are computed before any of them moves.
void ComplexEncoder::backward(LearntState& state, const StepRows& rows, float* dx,
                              const OtherGradients& others, const LearntRate& rate, Team& team) {
  const Embedding& vectors = rows.vectors();
  const double share = penalty_ / static_cast<double>(rows.size());
  const auto each_use = [&](std::size_t i, const auto& add) {
    const std::span<const FeatureId> of = rows.row(i).index;
    const auto penalty = static_cast<float>(share * data_.weight(rows.example(i)));
    const auto first = static_cast<std::uint32_t>(kRoles * i);
    const auto add_own = [&](FeatureId own, std::uint32_t role) {
      if (own != StepRows::kNotOwn) add(own, VectorUses::Use{first + role, penalty});
    };
    add_own(rows.own(of[0]), 0);
    add_own(rows.own(of[1]), 1);
    if (penalty > 0) add_own(rows.own_class(data_.label(rows.example(i))), 2);
  };
  team.share_near(VectorUses::lists_of(rows.size()), [&](std::size_t /*member*/, std::size_t list) {
    const std::size_t start = list * VectorUses::kRowsAtOnce;
    for (std::size_t i = start; i < std::min(rows.size(), start + VectorUses::kRowsAtOnce); ++i) {
      const std::span<const FeatureId> of = rows.row(i).index;
      float* const slope = slope_.data() + 2 * i * hidden_;
      multiply_conjugate(slope, dx + i * hidden_, vectors.row(of[1]), hidden_);
      multiply_conjugate(slope + hidden_, dx + i * hidden_, vectors.row(of[0]), hidden_);
    }
    uses_.list(list, rows.size(), each_use);
  });
  LearntRate without_ridge = rate;
  without_ridge.ridge = 0;
  uses_.step(rows.size(), state.tables.features, state.features_square, others, without_ridge, team,
             [&](float* sum, const VectorUses::Use& use, const float* vector) {
               const std::uint32_t i = use.row / kRoles, role = use.row % kRoles;
               if (role < 2)
                 add_scaled(sum, slope_.data() + (2 * std::size_t{i} + role) * hidden_, 1, hidden_);
               if (use.value > 0) add_cubed(sum, vector, use.value, hidden_);
             });
}

double ComplexEncoder::largest_x(double parameter) const {
  return std::max(1.0, 2 * parameter) * parameter;
}

// A part of a product has two terms. The penalty of all uses together is at most 3 sqrt(2) penalty p^2; the
// lane multiplies what is returned here by at least 2 p.
double ComplexEncoder::largest_gradient(double parameter) const {
  return std::max(1.0, 2 * parameter) + 2.2 * penalty_ * std::max(1.0, largest_weight_) * parameter;
}

}  // namespace truemax
