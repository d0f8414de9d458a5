// Draws choose the classes of a step. A draw fills a buffer some steps ahead with distinct classes and
// weights o such that every class has expected weight 1, given that it is not the row's label. The tests
// check this by enumeration. A step of one row never draws its label; the rows of a larger step share the
// drawn classes, and a class that is the label of one row counts only for the other rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/options.hpp"
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
  std::vector<std::uint64_t> words;  // of one step

  void shape(std::size_t steps, std::size_t most_classes);
};

// Whole blocks of some steps: step t has count[t] distinct blocks at blocks[t * capacity ...], with their
// weights.
struct BlockBuffer {
  std::size_t capacity = 0;
  std::vector<std::uint32_t> blocks;
  std::vector<double> weights;
  std::vector<std::uint32_t> count;
  std::vector<std::uint64_t> words;  // of all steps

  void shape(std::size_t steps, std::size_t most_blocks);
};

inline constexpr std::uint64_t kMostRivals = 64;

// Options of individual draws.
template <template <class> class As>
struct DrawFields {
  As<double> power = by_default<As>(1.0);          // label mass to this power; 0: uniform
  As<double> uniform_share = by_default<As>(0.1);  // share of uniform draws, so that every class can be drawn
  As<std::uint64_t> head = by_default<As>(std::uint64_t{64});   // classes always taken, in whole blocks
  As<std::uint64_t> active = by_default<As>(std::uint64_t{8});  // classes remembered per row
  As<std::uint64_t> rivals = by_default<As>(std::uint64_t{0});  // blocks remembered per row
  void describe(OptionTable& table);
};
using DrawOptions = DrawFields<Plain>;

class Draw {
 public:
  // `shared`: several rows share the drawn classes, which may then be the label of any of them.
  explicit Draw(bool shared) : shared_(shared) {}
  virtual ~Draw() = default;
  Draw(const Draw&) = delete;
  Draw& operator=(const Draw&) = delete;

  virtual std::size_t most_classes() const = 0;  // of one step
  // Every step has all classes (except the label), with weight 1.
  virtual bool complete() const { return false; }
  // Every step has exactly most_classes() classes.
  virtual bool always_full() const { return false; }
  // Random words used by a step.
  virtual std::size_t words() const = 0;
  // One step as a function of its words, which it may overwrite. Writes classes and weights to arrays of size
  // most_classes() and returns their number. `label`: of the step's row; kUnseenClass if rows share.
  // `example`: the row itself, for draws that learn.
  virtual std::size_t step(std::span<std::uint64_t> words, ClassId label, ExampleId example, ClassId* classes,
                           double* weights) const = 0;
  // Steps first_step ... first_step + steps - 1 of an epoch. `labels` and `examples`: of each step's row;
  // ignored if rows share.
  virtual void fill(const CounterRandom& random, std::uint64_t first_step, std::size_t steps,
                    std::span<const ClassId> labels, std::span<const ExampleId> examples,
                    DrawBuffer& out) const;

  // The probability that a step draws class k, given that the label is another class (and in another block,
  // if the label's block is always taken). Not for draws that learn.
  virtual double inclusion(ClassId k) const = 0;
  // The mean number of times class k is drawn in a step, over rows and draws: a measure of noise for some
  // methods. Any value would be unbiased: weights have mean 1, so weight times the value has it as mean.
  virtual double mean_count(ClassId k) const = 0;

  // Draws of whole blocks can deliver blocks instead of classes. For one row they always include the label's
  // block, with weight 1.
  virtual bool whole_blocks() const { return false; }
  virtual std::size_t most_blocks() const { return 0; }
  // Blocks 0, 1, ... that every step has, in this order before its other blocks.
  virtual std::size_t head_blocks() const { return 0; }
  virtual void fill_blocks(const CounterRandom& random, std::uint64_t first_step, std::size_t steps,
                           std::span<const ClassId> labels, std::span<const ExampleId> examples,
                           BlockBuffer& out) const;
  bool takes_label_block() const { return whole_blocks() && !shared_; }

  // Draws that learn are told after a step which classes its row saw and their scores; they cannot be filled
  // ahead of that.
  virtual bool learns() const { return false; }
  virtual void learn(ExampleId /*example*/, std::span<const ClassId> /*classes*/, const double* /*score*/) {}
  // Draws of whole blocks may remember, for each row, the blocks of the classes that scored highest with it
  // when all were scored. Its steps take them all, with weight 1.
  virtual std::size_t most_rivals() const { return 0; }
  // `best`: by falling score, may include the label. Several threads may do so for different examples.
  virtual void remember(ExampleId /*example*/, ClassId /*label*/, std::span<const ClassId> /*best*/) {}
  virtual std::span<const ClassId> rivals_of(ExampleId /*example*/) const { return {}; }

  // Where such a draw stores what it learns or remembers: part of the training state.
  virtual void attach(std::vector<ClassId>& /*memory*/) {}

  // Memory outside the buffer, including what attach() will fill.
  virtual std::uint64_t memory_bytes() const { return 0; }

 protected:
  bool shared() const { return shared_; }

 private:
  bool shared_;
};

struct DrawRequest {
  std::string_view name = {};
  std::size_t classes = 0, classes_per_step = 1;
  bool shared = false;                      // several rows share the drawn classes
  std::span<const double> label_mass = {};  // [classes]: weight of the training rows with that label
  std::size_t examples = 0;                 // N
  DrawOptions options = {};
};

// An entry of the table of draws. A new draw is a file in this folder and one entry.
struct DrawInfo {
  std::string_view name, description;
  std::string_view memory;  // in words
  std::unique_ptr<Draw> (*make)(const DrawRequest& request);
  bool takes_count;  // --classes-per-step has an effect
  bool takes_rows;   // several rows can share the drawn classes
  bool whole_blocks = false;
};

std::span<const DrawInfo> draws();
// The entry with this name. Throws UserError if there is none.
const DrawInfo& find_draw(std::string_view name);

// The draw with this name. Throws UserError if there is none.
std::unique_ptr<Draw> make_draw(const DrawRequest& request);

}  // namespace truemax
