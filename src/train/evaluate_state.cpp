#include "train/evaluate_state.hpp"

#include <utility>

#include "evaluate/ranking.hpp"

namespace truemax {

std::optional<Metrics> evaluate(const EvaluateOptions& options, std::uint64_t seed, const RunState& state,
                                const DataView& data, std::size_t threads, const std::atomic<bool>* stop,
                                const RowWatch& watch) {
  if (state.learnt.empty()) return evaluate(options, seed, state.weights, data, threads, stop, watch);
  const DataView encoded = data.encoded(make_row_encoder(data.space->encoder, state.learnt.tables));
  std::optional<Metrics> metrics = evaluate(options, seed, state.weights, encoded, threads, stop, watch);
  if (!metrics || !data.ranking || options.kind != EvalKind::exact) return metrics;
  const EncoderTables& tables = state.learnt.tables;
  metrics->ranking = rank_triples(tables.features, *data.ranking, threads, stop, tables.share.get());
  if (!metrics->ranking) return std::nullopt;
  return metrics;
}

}  // namespace truemax
