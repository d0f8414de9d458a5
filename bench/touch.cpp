#include "touch.hpp"

#include <algorithm>

#include "core/random.hpp"
#include "train/visit_order.hpp"

namespace truemax {

Trace trace_of(const DataView& data, const Recipe& options, const Draw* draw, std::uint64_t epoch) {
  Trace out;
  VisitOrder order(options.visit, options.seed, data.size());
  order.start_epoch(epoch);
  out.rows.resize(data.size());
  order.fill(0, out.rows);
  if (draw == nullptr) {  // all steps have the same places, stored once
    for (std::size_t k = 0; k < data.classes->size(); k += kLanes)
      out.places.push_back(static_cast<ClassId>(k));
    return out;
  }
  std::vector<ClassId> labels(data.size());
  for (std::size_t t = 0; t < labels.size(); ++t) labels[t] = data.label(out.rows[t]);
  const CounterRandom random(options.seed, Stream::draw, epoch);
  if (draw->whole_blocks()) {
    BlockBuffer buffer;
    draw->fill_blocks(random, 0, data.size(), labels, {}, buffer);
    for (std::size_t t = 0; t < labels.size(); ++t) {
      for (std::size_t i = 0; i < buffer.count[t]; ++i)
        out.places.push_back(static_cast<ClassId>(buffer.blocks[t * buffer.capacity + i] * kLanes));
      out.begin.push_back(out.places.size());
    }
    return out;
  }
  DrawBuffer buffer;
  draw->fill(random, 0, data.size(), labels, out.rows, buffer);
  for (std::size_t t = 0; t < labels.size(); ++t) {
    for (std::size_t i = 0; i < buffer.count[t]; ++i)
      out.places.push_back(buffer.classes[t * buffer.capacity + i]);
    out.places.push_back(labels[t]);
    out.begin.push_back(out.places.size());
  }
  return out;
}

void touch_pages(Weights& weights) {
  constexpr std::size_t kPageFloats = 1024;
  const std::span<float> memory = weights.memory();
  for (std::size_t at = 0; at < memory.size(); at += kPageFloats) {
    launder(memory[at]);
    memory[at] = 0;
  }
}

void touch_epoch(const DataView& data, const Trace& trace, RunState& state, const TouchWay& way) {
  constexpr std::size_t kRowsAhead = 8;
  const bool all = trace.begin.size() == 1;
  const auto places_of = [&](std::size_t t) { return all ? std::span(trace.places) : trace.of(t); };
  const std::size_t steps = trace.rows.size();
  Weights& weights = state.weights;
  for (std::size_t first = 0; first < steps; first += way.together) {
    const std::size_t end = std::min(steps, first + way.together);
    for (std::size_t t = first; t < end; ++t) {
      if (t + way.ahead + 2 * kRowsAhead < steps) data.prefetch(trace.rows[t + way.ahead + 2 * kRowsAhead]);
      if (t + way.ahead + kRowsAhead < steps)
        prefetch_example(data, state, trace.rows[t + way.ahead + kRowsAhead]);
      if (way.ahead == 0 || t + way.ahead >= steps) continue;
      const RowView x = data.x(trace.rows[t + way.ahead]);
      for (const ClassId k : places_of(t + way.ahead)) {
        const float* w = weights.lane(k);
        for (const FeatureId f : x.index) __builtin_prefetch(w + std::size_t{f} * kLanes, 0, 2);
      }
    }
    for (std::size_t t = first; t < end; ++t) {  // the scores
      const RowView x = data.x(trace.rows[t]);
      for (const ClassId k : places_of(t)) {
        const float* w = weights.lane(k);
        for (std::size_t j = 0; j < x.index.size(); ++j) {
          use(x.value[j]);
          use(w[std::size_t{x.index[j]} * kLanes]);
        }
      }
      launder(state.row(trace.rows[t]).u);
    }
    for (std::size_t t = first; t < end; ++t) {  // the updates
      const RowView x = data.x(trace.rows[t]);
      for (const ClassId k : places_of(t)) {
        float* w = weights.lane(k);
        for (std::size_t j = 0; j < x.index.size(); ++j) {
          use(x.value[j]);
          float v = w[std::size_t{x.index[j]} * kLanes];
          launder(v);
          w[std::size_t{x.index[j]} * kLanes] = v;
        }
      }
    }
  }
}

}  // namespace truemax
