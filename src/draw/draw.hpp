// Draws choose the classes of a step. A draw fills a buffer some steps ahead with distinct classes and
// weights o such that, given the row's label y, every class k != y has expected weight 1 and y is never
// drawn: that sentence is its property test, by enumeration.
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
  // Steps first_step ... first_step + labels.size() - 1 of an epoch, one row with the given label each.
  virtual void fill(const CounterRandom& random, std::uint64_t first_step, std::span<const ClassId> labels,
                    DrawBuffer& out) const = 0;
};

struct DrawInfo {
  std::string_view name, description;
};

// The table of draws, and the one of that name.
std::span<const DrawInfo> draws();
std::unique_ptr<Draw> make_draw(std::string_view name, std::size_t classes, std::size_t classes_per_step);

}  // namespace truemax
