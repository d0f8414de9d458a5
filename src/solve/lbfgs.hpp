// L-BFGS (Nocedal, 1980): the direction of Newton's method, with the curvature known only from the last moves
// s of the weights and the changes y of the gradient that they made.
//
// The two-loop recursion needs only inner products of these vectors with each other and with the gradient
// (Byrd, Nocedal & Schnabel, 1994). CurvaturePairs keeps them: a new pair costs one pass over all vectors,
// the direction, a sum of them, another; the recursion between the two is of a few hundred numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace truemax {

// The inner products of up to `room` pairs, in slots 0 ... room - 1. The newest pair replaces the oldest.
class CurvaturePairs {
 public:
  CurvaturePairs() = default;
  explicit CurvaturePairs(std::size_t room)
      : move_change(room * room), change_change(room * room), rooms(room) {}

  std::size_t room() const { return rooms; }
  std::size_t count() const { return used; }
  // The slot of pair i, the oldest first.
  std::size_t slot(std::size_t i) const { return (oldest + i) % rooms; }
  // Where the next pair goes. Makes room for it: the oldest is forgotten if there is none.
  std::size_t next_slot();
  // The pair at next_slot(). By slot: the moves of all pairs, and their changes, times the new change.
  void add(std::span<const double> moves_by_change, std::span<const double> changes_by_change);
  void clear() { used = 0; }

  // The direction -H g is  of_gradient g + sum of_move s + of_change y,  all by slot.
  struct Factors {
    std::span<double> of_move, of_change;
    double of_gradient = -1;
  };
  void direction(std::span<const double> moves_by_gradient, std::span<const double> changes_by_gradient,
                 Factors& out) const;

  // Plain data, saved with a run. Of slots i and j: s_i y_j for j not older than i, and y_i y_j.
  std::vector<double> move_change, change_change;
  std::uint64_t rooms = 0, oldest = 0, used = 0;
};

// How far to go along a direction: the whole length, or after a failure less, until the loss falls enough.
// Losses that rounding cannot tell apart are judged by the slope (Hager & Zhang, 2005): it says which way the
// optimum lies long after differences of losses do not.
struct LineSearch {
  enum class Verdict { accepted, shorter, failed };

  // From a point with this loss and slope (below 0) along the direction; `most` is the longest step.
  void start(double loss_here, double slope_here, double most);
  // Of the loss and the slope after `length`. Shorter: length is the next one to try.
  Verdict judge(double loss_there, double slope_there);

  double loss = 0, slope = 0, length = 0;
  double least = 0;  // loss so far in the run
  std::uint64_t tries = 0;
};

}  // namespace truemax
