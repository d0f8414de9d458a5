// A device that trains linear models: an interface without a word of CUDA. The program loads it at run time
// (device/open.hpp), so that it starts where there is no GPU and no CUDA.
//
// Rows, W and u live on the device from upload() to download().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace truemax::device {

// Changes with every change of this file: a library of another version is not used.
inline constexpr std::uint32_t kEngineVersion = 6;

struct Card {
  std::string name;
  std::uint64_t memory = 0, free = 0;  // bytes
  int number = 0;
};

// Sparse rows in the memory of the host.
struct HostRows {
  std::span<const std::uint64_t> begin;
  std::span<const std::uint32_t> index;
  std::span<const float> value;
};

struct HostExamples {
  std::span<const std::uint32_t> row;  // empty: example i is row i
  std::span<const std::uint32_t> label;
  std::span<const float> weight;  // empty: all 1
};

// W as weights/weights.hpp has it, unscaled.
struct HostWeights {
  std::span<float> weight;
  std::span<float> intercept;  // empty: none
  std::uint32_t classes = 0, features = 0;
};

struct AliasCell {
  std::uint64_t keep = 0;
  std::uint32_t other = 0;
};
struct HostDraw {
  std::uint32_t head = 0, draws = 0;
  std::span<const AliasCell> cells;  // of the tail
  std::span<const float> over_mean;  // 1 over the mean number of draws, by block of the tail
};

// touch: the accesses to memory of a step without its arithmetic, for benchmarks.
enum class Method : std::uint32_t { prox, implicit, scent, umax, exact, touch };
enum class Order : std::uint32_t { shuffled, random, as_they_are };

inline constexpr std::uint32_t kMostBlocks = 32;  // of a step, 16 classes each
inline constexpr std::uint32_t kMostTop = 16;     // best classes of a row
inline constexpr std::uint32_t kNoRival = ~std::uint32_t{0};
// The most that the ridge may shrink W in one step, as a logarithm.
inline constexpr double kMostDecay = 0.5;

// Steps of one epoch with one step size.
struct Leg {
  Method method = Method::prox;
  Order order = Order::shuffled;
  std::uint32_t rows_per_step = 1;     // exact takes several
  std::uint64_t first = 0, count = 0;  // steps of the epoch
  std::uint64_t order_key = 0, draw_key = 0;
  double step = 1;
  double last_step = 0;             // the step falls to this evenly; 0: it stays
  double rho = 1;                   // 0: u is recomputed from scratch
  bool rho_falls = false;           // with the step
  double decay = 0;                 // W shrinks by exp(-decay) with every step: the ridge
  double most_growth = 0;           // of a number in memory, by one step
  std::uint32_t beside = 1U << 20;  // steps at most that run side by side and do not see each other
  double delta = 1, most_u = 0;     // of umax
  double most_norm = 0;             // of umax: W is projected onto this ball; 0: it is not
};

// Of all legs since the last report.
struct LegReport {
  double growth = 0;            // upper bound on the growth of any number in memory
  std::uint64_t refused = 0;    // 1 + the position of a step that was not taken; 0: none
  std::uint64_t in_double = 0;  // steps that float32 could not solve
  double seconds = 0;           // on the device
};

// Of `rows` rows: the same as PassResult of weights/pass.hpp, and the scores of the labels.
struct Pass {
  std::uint32_t top = 0;
  std::vector<double> highest, excess;
  std::vector<std::uint32_t> best;  // [rows][top]
  std::vector<float> best_score;
  std::vector<double> label_score;  // of the examples
  double seconds = 0;               // on the device
};

// Rows and labels on the device, to be evaluated again and again.
class Evaluated {
 public:
  virtual ~Evaluated() = default;
};

// What evaluation needs of a device that has a model.
class Passer {
 public:
  virtual ~Passer() = default;
  virtual std::unique_ptr<Evaluated> add_rows(const HostRows& rows, const HostExamples& examples) = 0;
  virtual Pass pass(const Evaluated& rows, std::uint32_t top) = 0;
};

class Engine : public Passer {
 public:
  virtual const Card& card() const = 0;

  // W is 0 if `weights.weight` is empty. `ridge_intercept`: the ridge shrinks intercepts too. Throws
  // UserError if the card has no room.
  virtual void set_weights(const HostWeights& weights, bool ridge_intercept) = 0;
  // What else a run needs.
  virtual void set_rows(const HostRows& rows, const HostExamples& examples, std::span<const double> u,
                        std::span<const float> norms, const HostDraw& draw) = 0;
  // The blocks that examples remember (draw/blocks.hpp): [examples][each], after the last one kNoRival. They
  // count towards kMostBlocks. Waits for the steps before.
  virtual void set_rivals(std::span<const std::uint32_t> blocks, std::uint32_t each) = 0;
  // The examples of one of `parts` shares of the rows learn them anew. Queued, as steps are.
  virtual void learn_rivals(std::uint32_t part, std::uint32_t parts) = 0;
  virtual void download_rivals(std::span<std::uint32_t> blocks) = 0;
  // Queues steps.
  virtual void take(const Leg& leg) = 0;
  // Waits for them.
  virtual LegReport report() = 0;
  // W with its ridge, and u; empty spans are left out.
  virtual void download(const HostWeights& weights, std::span<double> u) = 0;
  // The largest absolute number in the memory of W.
  virtual double largest_weight() = 0;
};

}  // namespace truemax::device
