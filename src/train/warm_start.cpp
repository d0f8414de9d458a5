#include "train/warm_start.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/error.hpp"
#include "rule/methods.hpp"
#include "solve/log_sum.hpp"
#include "weights/fast_tile.hpp"
#include "weights/kernels.hpp"
#include "weights/pass.hpp"

namespace truemax {
namespace {

// Sets the intercepts of known classes to those of the model, and moves the others by as much as the log-sum
// of the known ones moved, so that the share of new classes stays what it was.
void start_intercepts(const Model& start, std::span<const ClassId> known, std::span<float> intercept) {
  std::vector<double> here, there;
  for (ClassId k = 0; k < known.size(); ++k) {
    if (known[k] == kUnseenClass) continue;
    here.push_back(static_cast<double>(intercept[k]));
    there.push_back(start.weights.intercept_of(known[k]));
  }
  const std::vector<double> ones(here.size(), 1.0);
  const auto log_sum = [&](const std::vector<double>& b) {
    return log_weighted_sum_exp(b.data(), ones.data(), b.size(), 0);
  };
  const double moved = here.empty() ? 0 : log_sum(there) - log_sum(here);
  for (ClassId k = 0; k < known.size(); ++k)
    intercept[k] = static_cast<float>(known[k] == kUnseenClass ? static_cast<double>(intercept[k]) + moved
                                                               : start.weights.intercept_of(known[k]));
}

// u = -log p_y of every example.
void exact_losses(const DataView& rows, std::size_t threads, RunState& state) {
  constexpr std::size_t kSlice = 4096;
  const Weights& weights = state.weights;
  Csr scratch;
  PassResult pass;
  for (std::size_t first = 0; first < rows.row_count();) {
    const RowSlice slice = rows.slice(first, kSlice, scratch);
    softmax_pass(weights, slice.x(), {.top = 1, .threads = threads, .tie_rank = {}}, pass);
    std::size_t next = slice.first_example(0);
    for (std::size_t r = 0; r < slice.rows(); ++r) {
      const IdRange<ExampleId> examples = slice.examples(r, next);
      next += examples.size();
      for (const ExampleId i : examples)
        state.row(i).u = std::max(0.0, pass.loss(r, score(weights, slice.x().row(r), rows.label(i))));
    }
    first += slice.rows();
  }
}

}  // namespace

void require_start(const Model& start, const DataView& data) {
  if (reads_words(start.space->encoder) || start.space->of_triples() || reads_words(data.space->encoder) ||
      data.space->of_triples())
    throw UserError("a run of plain text or triples cannot start from a model; leave the model out");
  if (start.space->features != data.space->features || start.space->words != data.space->words ||
      start.space->buckets != data.space->buckets)
    throw UserError(fmt::format(
        "the model to start from has {} features, the data {}, or they have other names; give data with the "
        "features of the model",
        start.space->features, data.space->features));
}

void continue_shape(const Model& start, const std::function<bool(const char* option)>& given,
                    TrainOptions& options) {
  const std::uint64_t hidden = start.encoder.empty() ? 0 : start.weights.features();
  if ((given("hidden") && options.hidden != hidden) || (hidden == 0 && options.encoder == EncoderKind::bag) ||
      (hidden > 0 && options.encoder == EncoderKind::linear))
    throw UserError(
        hidden == 0
            ? std::string("--hidden: the model to start from is linear; leave --hidden and --encoder out")
            : fmt::format("--hidden: the model to start from has {} learnt features; give --hidden {}, or "
                          "leave it out",
                          hidden, hidden));
  options.hidden = hidden;
  if (hidden == 0 && options.encoder == EncoderKind::automatic) options.encoder = EncoderKind::linear;
}

void start_from(const Model& start, const DataView& data, const TrainOptions& options, RunState& state) {
  std::vector<ClassId> known;
  for (const std::string& name : data.classes->names()) known.push_back(start.classes->find(name));
  std::vector<float> row(start.weights.features());
  for (ClassId k = 0; k < known.size(); ++k) {
    if (known[k] == kUnseenClass) continue;
    start.weights.copy_class(known[k], row);
    state.weights.set_class(k, row);
    if (!state.learnt.empty()) std::copy(row.begin(), row.end(), state.learnt.classes.row(k));
  }
  if (options.intercept) start_intercepts(start, known, state.weights.intercept().first(known.size()));
  state.largest_weight = state.weights.largest();
  DataView rows = data;
  if (!state.learnt.empty()) {
    EncoderTables& tables = state.learnt.tables;
    tables.features.numbers = start.encoder.features.numbers;
    if (options.intercept)
      std::copy_n(state.weights.intercept().begin(), known.size(), state.learnt.intercept.begin());
    state.largest_weight =
        std::max<double>(state.largest_weight,
                         largest_absolute(tables.features.numbers.data(), tables.features.numbers.size()));
    rows = data.encoded(make_row_encoder(data.space->encoder, tables));
  }
  if (find_method(options.method).exact_start) exact_losses(rows, options.thread_count(), state);
}

}  // namespace truemax
