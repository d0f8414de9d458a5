// The best recipe so far, and trials of others near it.
#pragma once

#include <functional>
#include <limits>

#include "train/recipe.hpp"

namespace truemax {

// A number of a recipe that trials move by a factor.
struct Axis {
  const char* about;
  void (*move)(Recipe& recipe, double by);
  double factor = 2;
  int most = 1;                       // trials
  double gain_up = 0, gain_down = 0;  // the share by which a move must win; a tie is not a gain
  int more = 0;                       // moves beyond `most`, if those before won by much
};

class Climb {
 public:
  // The log-loss of a recipe, infinity if there was no time for it or it diverged.
  using Loss = std::function<double(const char* about, const Recipe& recipe)>;
  using Over = std::function<bool()>;

  Climb(Recipe from, Over over) : best(std::move(from)), over_(std::move(over)) {}

  // Adopts the recipe if it is better by the share `gain`.
  bool adopt(const char* about, const Recipe& with, double gain, const Loss& loss);
  // Moves while the loss falls, first up, else down.
  void along(const Axis& axis, const Loss& loss);
  bool tried() const { return least < std::numeric_limits<double>::infinity(); }

  Recipe best;
  double least = std::numeric_limits<double>::infinity();
  double last = 0;  // the loss of the last trial

 private:
  Over over_;
};

}  // namespace truemax
