// Draws choose the classes of a step. A draw fills a buffer some steps ahead with distinct classes and
// weights o such that every class has expected weight 1, given that it is not the row's label: that sentence
// is its property test, by enumeration. A step of one row has classes of its own, never the label; the rows
// of a larger step share theirs, and a class that is the label of one of them counts for the others only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/random.hpp"
#include "core/types.hpp"

namespace truemax {

// Classes of some steps: step t has count[t] distinct classes at classes[t * capacity ...], with their
// weights.
struct DrawBuffer {
  std::size_t capacity = 0;
  std::vector<ClassId> classes;
  std::vector<double> weights;
  std::vector<std::uint32_t> count;

  void shape(std::size_t steps, std::size_t most_classes);
};

class Draw {
 public:
  virtual ~Draw() = default;
  virtual std::size_t most_classes() const = 0;  // of one step
  // Steps first_step ... first_step + steps - 1 of an epoch. `labels`: of each step's row; empty where rows
  // share.
  virtual void fill(const CounterRandom& random, std::uint64_t first_step, std::size_t steps,
                    std::span<const ClassId> labels, DrawBuffer& out) const = 0;
  // The probability that class k is among the drawn ones of a step, given that it is not the label.
  virtual double inclusion(ClassId k) const = 0;
  // The mean number of times it is drawn in a step, given the same.
  virtual double mean_count(ClassId k) const = 0;
};

struct DrawInfo {
  std::string_view name, description;
};

// The table of draws, and the one of that name.
std::span<const DrawInfo> draws();
std::unique_ptr<Draw> make_draw(std::string_view name, std::size_t classes, std::size_t classes_per_step,
                                bool shared);

}  // namespace truemax
