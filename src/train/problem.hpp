// What the data are: the facts that decisions are made from. Numbers only, no rows.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/row_encoder.hpp"
#include "train/sets.hpp"

namespace truemax {

// Facts that take a pass over all rows; only those that a run asks for are gathered.
struct Wanted {
  bool norms = false;    // mean |x|^2 and weight
  bool squares = false;  // whether float32 holds the sums of a row's squares
  bool units = false;    // whether features of these sizes fit beside each other in float32
  bool cosines = false;  // how alike rows are
};

struct Problem {
  std::uint64_t rows = 0;      // some may have no example
  std::uint64_t examples = 0;  // N: a row with one of its labels
  std::uint64_t inputs = 0;    // examples of one input share its scores
  std::uint64_t features = 0, classes = 0, nonzeros = 0;
  double nonzeros_per_row = 0;
  bool shares_inputs = false;
  bool groups_inputs = false;  // rows of several examples are visited together
  bool has_weights = false, has_example_weights = false;
  bool normalized = false;  // --normalize is not none
  bool hashed = false;      // features are buckets of n-grams

  EncoderKind encoder = EncoderKind::linear;  // that the data ask for: of plain text and triples
  bool triples = false;
  bool windows = false;     // rows are consecutive windows of a text
  std::uint64_t width = 0;  // words of such a row

  struct Stream {
    std::uint64_t blocks = 0, window_blocks = 0, buffer_bytes = 0, most_copied = 0;
  };
  std::optional<Stream> stream;  // empty: the rows are in memory

  bool has_valid = false;  // validation rows of their own
  std::uint64_t valid_rows = 0, test_rows = 0;
  std::uint64_t bytes = 0;           // of all sets in memory
  std::uint64_t grouping_bytes = 0;  // of the order in which rows of several examples are visited

  // Total weight of the training rows, by label.
  std::shared_ptr<const std::vector<double>> label_mass;

  // If wanted; the last two without and with an intercept.
  std::optional<double> mean_square;  // |x|^2 of a row, at least kLeastNorm
  double mean_weight = 1;             // of an example
  std::optional<bool> squares_fit;    // of every row
  std::optional<std::array<bool, 2>> units_fit;
  std::optional<std::array<double, 2>> cosine;  // of two rows, on average

  bool is_text() const { return reads_words(encoder); }
  std::uint64_t blocks() const;  // of 16 classes
  // The rank that a linear model can have: as many learnt features are no restriction.
  std::uint64_t full_rank() const { return classes < features ? classes : features; }
};

inline constexpr double kLeastNorm = 1e-300;

// Total weight of the training rows, by label.
std::vector<double> label_mass(const DataView& data);

// Without the facts of Wanted.
Problem facts_of(const DataView& data);
// Of a run.
Problem facts_of(const TrainSets& sets, bool normalized, const Wanted& wanted, std::size_t threads);

// Of other rows of the same data.
Problem of_other_rows(const Problem& all, const TrainSets& sets);

}  // namespace truemax
