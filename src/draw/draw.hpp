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

// Options that belong to single draws.
struct DrawOptions {
  double power = 1;            // label mass to this power; 0: uniform
  double uniform_share = 0.1;  // of the draws, so that every class can be drawn
  std::uint64_t head = 64;     // classes always taken, rounded up to whole blocks
  std::uint64_t active = 8;    // classes remembered for each row
  void describe(OptionTable& table);
};

class Draw {
 public:
  // `shared`: several rows share the drawn classes, which may then be anybody's label.
  explicit Draw(bool shared) : shared_(shared) {}
  virtual ~Draw() = default;
  Draw(const Draw&) = delete;
  Draw& operator=(const Draw&) = delete;

  virtual std::size_t most_classes() const = 0;  // of one step
  // Every step has all classes (but the label), with weight 1.
  virtual bool complete() const { return false; }
  // Every step has most_classes() of them.
  virtual bool always_full() const { return false; }
  // Random words that a step uses up.
  virtual std::size_t words() const = 0;
  // One step as a function of its words, which it may overwrite: its classes and their weights go to places
  // for most_classes(); returns how many there are. `label`: of the step's row; kUnseenClass where rows
  // share. `example`: the row itself, for draws that learn.
  virtual std::size_t step(std::span<std::uint64_t> words, ClassId label, ExampleId example, ClassId* classes,
                           double* weights) const = 0;
  // Steps first_step ... first_step + steps - 1 of an epoch. `labels` and `examples`: of each step's row; not
  // looked at where rows share.
  virtual void fill(const CounterRandom& random, std::uint64_t first_step, std::size_t steps,
                    std::span<const ClassId> labels, std::span<const ExampleId> examples,
                    DrawBuffer& out) const;

  // The probability that class k is among the drawn ones of a step, given that the label is another class
  // (and, where the label's block is always taken, in another block). Not for draws that learn.
  virtual double inclusion(ClassId k) const = 0;
  // The mean number of times it is drawn in a step, over rows and draws: the measure of the noise for
  // methods that want one. Any would do, as weights have mean 1: weight times this is an unbiased count.
  virtual double mean_count(ClassId k) const = 0;

  // Draws of whole blocks can give the blocks instead of the classes. For one row the label's block is always
  // among them, with weight 1.
  virtual bool whole_blocks() const { return false; }
  virtual std::size_t most_blocks() const { return 0; }
  virtual void fill_blocks(const CounterRandom& random, std::uint64_t first_step, std::size_t steps,
                           std::span<const ClassId> labels, BlockBuffer& out) const;
  bool takes_label_block() const { return whole_blocks() && !shared_; }

  // Draws that learn are told after a step which classes its row saw and how they scored; they cannot be
  // filled ahead of that.
  virtual bool learns() const { return false; }
  virtual void learn(ExampleId /*example*/, std::span<const ClassId> /*classes*/, const double* /*score*/) {}
  // Where such a draw keeps what it learns: part of the state of training.
  virtual void attach(std::vector<ClassId>& /*memory*/) {}

  // Beside the buffer; what attach() will fill included.
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

// A line of the table of draws: a new draw is a file in this folder and one of these.
struct DrawInfo {
  std::string_view name, description;
  std::string_view memory;  // in words
  std::unique_ptr<Draw> (*make)(const DrawRequest& request);
  bool takes_count;  // --classes-per-step has an effect
  bool takes_rows;   // several rows can share it
  bool whole_blocks = false;
};

// The table of draws.
std::span<const DrawInfo> draws();
// The line of that name. Throws UserError where there is none.
const DrawInfo& find_draw(std::string_view name);

// The draw that the table has under that name. Throws UserError where there is none.
std::unique_ptr<Draw> make_draw(const DrawRequest& request);

}  // namespace truemax
