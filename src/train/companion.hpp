// Smoothed weights s <- (1 - b) s + b w, after every step and for all classes, at the cost of only the
// classes touched. Stored as d = s - w, which decays by (1 - b) per step; an update of w by c x changes d by
// -c x. Ridge divides s like w.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "data/data_view.hpp"
#include "train/problem.hpp"
#include "train/run_state.hpp"
#include "weights/kernels.hpp"

namespace truemax {

class Companion {
 public:
  // The most rows in the journal of a class: as many as together have about D non-zeros. Beyond that it is
  // cheaper to clear the whole class.
  static std::size_t journal_limit(std::uint64_t features, double nonzeros_per_row) {
    return 1 + static_cast<std::size_t>(static_cast<double>(features) / std::max(nonzeros_per_row, 1.0));
  }

  // Without the matrix.
  static std::uint64_t bytes(const Problem& p) {
    return p.classes *
           (journal_limit(p.features, p.nonzeros_per_row) * sizeof(ExampleId) + 5 * sizeof(double));
  }

  static void start(CompanionState& state, const DataView& data, bool intercept) {
    const std::size_t classes = data.classes->size();
    state.difference = Weights(classes, data.space->features, intercept);
    state.difference.allow_scaling();
    state.touched.assign(classes, 0.0);
    state.journal_limit = journal_limit(data.space->features, data.nonzeros_per_row());
    state.journal.assign(classes, {});
    for (std::vector<ExampleId>& rows : state.journal)
      rows.reserve(state.journal_limit);  // so that steps do not allocate
  }

  // Applies the pending decay to class k, before its scores are computed.
  static void touch(CompanionState& state, const DataView& data, ClassId k) {
    const double log_factor = state.log_decay - state.touched[k];
    state.touched[k] = state.log_decay;
    if (log_factor == 0) return;
    constexpr double kNothing = -46;  // 1e-20: below the rounding of any weight
    Weights& d = state.difference;
    d.scale_intercept(k, std::exp(log_factor));
    if (log_factor > kNothing) return d.scale_class(k, std::exp(log_factor));
    clear(state, data, k);
  }

  static void add(CompanionState& state, const DataView& data, ExampleId i, std::span<const ClassId> k,
                  const double* minus_c) {
    truemax::add(state.difference, data.x(i), k, minus_c);
    for (std::size_t j = 0; j < k.size(); ++j)
      if (minus_c[j] != 0 && state.journal[k[j]].size() < state.journal_limit)
        state.journal[k[j]].push_back(i);
  }

  // Ridge on class k, after touch().
  static void shrink(CompanionState& state, ClassId k, double factor, bool intercept_too) {
    state.difference.scale_class(k, factor);
    if (intercept_too) state.difference.scale_intercept(k, factor);
  }

  static void decay(CompanionState& state, double rate) {
    // b = 1 discards everything at once.
    state.log_decay += rate >= 1 ? -1e3 : std::log1p(-rate);
  }

 private:
  // Zeroes what was written since the last time: the features of the rows in the journal, or the whole class
  // if that is cheaper or the journal is full.
  static void clear(CompanionState& state, const DataView& data, ClassId k) {
    Weights& d = state.difference;
    std::vector<ExampleId>& rows = state.journal[k];
    std::size_t written = 0;
    for (const ExampleId i : rows) written += data.x(i).index.size();
    if (rows.size() == state.journal_limit || written >= d.features()) {
      d.clear_class(k);
    } else {
      for (const ExampleId i : rows) clear_features(d, data.x(i), k);
      d.reset_scale(k);
    }
    rows.clear();
  }
};

}  // namespace truemax
