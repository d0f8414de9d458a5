#include "train/device_learnt_lane.hpp"

#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "train/learnt_lane.hpp"
#include "train/step_shape.hpp"

namespace truemax {

PackedRows::PackedRows(const DataView& data) {
  const bool values = !reads_words(data.space->encoder) || data.space->encoder == EncoderKind::skipgram;
  std::size_t examples = 0;
  bool several = false;
  RowId last{};
  std::vector<std::uint32_t> rows;
  rows.reserve(data.size());
  for (const ExampleId i : data.examples()) {
    const RowId r = data.row_of(i);
    const bool again = examples > 0 && r == last;
    several |= again, last = r;
    ++examples;
    label.push_back(data.label(i));
    if (data.has_example_weights()) weight.push_back(static_cast<float>(data.weight(i)));
    if (!again) {
      const RowView x = data.x(i);
      index.insert(index.end(), x.index.begin(), x.index.end());
      if (values) value.insert(value.end(), x.value.begin(), x.value.end());
      begin.push_back(index.size());
      longest = std::max(longest, x.index.size());
    }
    rows.push_back(static_cast<std::uint32_t>(begin.size() - 2));
  }
  if (several) row = std::move(rows);
}

DeviceLearntLane::DeviceLearntLane(const LaneSetup& setup, std::unique_ptr<device::LearntEngine> engine)
    : setup_(setup),
      engine_(std::move(engine)),
      encoder_(make_encoder(setup.data, setup.options)),
      visited_(setup),
      rho_(setup.options.rule),
      team_(setup.options.thread_count()) {
  if (setup.data.streamed() != nullptr)
    throw UserError("a GPU cannot learn features from --stream yet: use --device cpu, or leave --stream out");
}

device::LearntShape learnt_shape(const DataView& data, const TrainOptions& options, std::size_t rows,
                                 std::size_t drawn, std::size_t longest_row) {
  device::LearntShape shape;
  const EncoderKind kind = data.space->encoder;
  shape.kind = data.space->of_triples() ? device::LearntKind::complex
               : !mixes_places(kind)    ? device::LearntKind::bag
               : options.layers > 0     ? device::LearntKind::layer
                                        : device::LearntKind::places;
  shape.hidden = static_cast<std::uint32_t>(options.hidden);
  shape.classes = static_cast<std::uint32_t>(data.classes->size());
  shape.features = static_cast<std::uint32_t>(data.space->features);
  if (mixes_places(kind)) shape.width = static_cast<std::uint32_t>(data.space->width());
  if (shape.kind == device::LearntKind::places && kind == EncoderKind::cbow)
    shape.left_out = shape.width / 2, shape.fixed_factors = true;
  shape.tied = has_tied_vectors(data, options);
  shape.ridge_intercept = options.ridge_intercept;
  shape.row_state = options.row_state;
  shape.dropout = options.dropout;
  shape.seed = options.seed;
  if (data.space->of_triples()) shape.penalty = 3 * options.ridge;
  shape.keep = kLearntKeep;
  shape.most_rows = static_cast<std::uint32_t>(rows);
  shape.most_drawn = static_cast<std::uint32_t>(drawn);
  shape.most_uses = std::uint64_t{rows} * longest_row;
  return shape;
}

device::HostTables host_tables(LearntState& learnt) {
  EncoderTables& t = learnt.tables;
  return {t.features.numbers,     learnt.features_square, t.mixing.numbers, learnt.mixing_square,
          learnt.classes.numbers, learnt.classes_square,  learnt.intercept, learnt.intercept_square};
}

void DeviceLearntLane::attach(RunState& state) {
  if (there_) return;
  const DataView& data = setup_.data;
  const PackedRows packed(data);
  std::vector<std::uint32_t> input;
  if (data.shares_inputs())
    for (const ExampleId i : data.examples()) input.push_back(static_cast<std::uint32_t>(data.input_of(i)));
  std::vector<double> u;
  u.reserve(state.rows.size());
  for (const RowState& row : state.rows) u.push_back(row.u);
  const StepShape step = step_shape(data, setup_.options, setup_.draw);
  engine_->upload(learnt_shape(data, setup_.options, step.rows, step.drawn, packed.longest), packed.rows(),
                  {packed.row, packed.label, input, packed.weight}, host_tables(state.learnt),
                  state.learnt.updates == 0, u);
  there_ = true;
}

void DeviceLearntLane::take(const Batch& batch, RunState& state) {
  visited_.fill(batch);
  const double rho = rho_.at(batch.decayed, setup_.draw->complete());
  admit(state, batch.step, rho, batch.count);
  pack(batch.count);
  device::LearntSteps steps;
  steps.first = first_, steps.example = example_;
  steps.drawn_first = drawn_first_, steps.drawn = drawn_, steps.log_weight = log_weight_;
  if (setup_.data.shares_inputs()) steps.group_first = group_first_, steps.group = group_;
  steps.updates = state.learnt.updates;
  steps.step = batch.step, steps.rho = rho;
  steps.ridge = setup_.options.ridge / std::max(setup_.problem.total_weight, 1e-300);
  engine_->take(steps);
  moved_ = true;
  state.learnt.updates += batch.count;
  state.step += batch.count;
}

void DeviceLearntLane::pack(std::size_t steps) {
  const DataView& data = setup_.data;
  first_.assign(1, 0), drawn_first_.assign(1, 0), group_first_.assign(1, 0);
  example_.clear(), drawn_.clear(), group_.clear(), log_weight_.clear();
  for (std::size_t t = 0; t < steps; ++t) {
    const std::span<const ExampleId> examples = visited_.examples(t);
    for (std::size_t i = 0; i < examples.size(); ++i) {
      example_.push_back(static_cast<std::uint32_t>(number_of(examples[i])));
      if (!data.shares_inputs()) continue;
      if (i == 0 || data.row_of(examples[i]) != data.row_of(examples[i - 1]))
        group_.push_back(static_cast<std::uint32_t>(i));
    }
    if (data.shares_inputs()) {
      group_.push_back(static_cast<std::uint32_t>(examples.size()));
      group_first_.push_back(static_cast<std::uint32_t>(group_.size() - t - 1));
    }
    first_.push_back(static_cast<std::uint32_t>(example_.size()));
    const std::span<const ClassId> classes = visited_.classes(t);
    drawn_.insert(drawn_.end(), classes.begin(), classes.end());
    for (std::size_t j = 0; j < classes.size(); ++j)
      log_weight_.push_back(static_cast<float>(std::log(visited_.weights(t)[j])));
    drawn_first_.push_back(static_cast<std::uint32_t>(drawn_.size()));
  }
}

// As LearntLane does: every number that a step computes is bounded by the parameters, the data and rho.
void DeviceLearntLane::admit(RunState& state, double rate, double rho, std::size_t steps) {
  const double dropout = setup_.options.dropout;
  const double of_row = setup_.options.row_state ? static_cast<double>(setup_.options.hidden) : 1;
  const double growth = static_cast<double>(steps) * rate * std::sqrt(of_row / (1 - kLearntKeep));
  if (!learnt_step_fits(*encoder_, dropout, state.largest_weight + growth, rho)) {
    state.largest_weight = engine_->largest();
    if (state.learnt.updates == 0 && !learnt_step_fits(*encoder_, dropout, state.largest_weight, rho))
      throw DivergenceError(
          "the data have feature values that are too large for learnt features: try --encoder linear");
    if (!learnt_step_fits(*encoder_, dropout, state.largest_weight + growth, rho))
      setup_.guard.diverged(state, state.step, growth);
  }
  state.largest_weight += growth;
}

void DeviceLearntLane::publish(RunState& state) {
  if (there_ && moved_) {
    std::vector<double> u(state.rows.size());
    engine_->download(host_tables(state.learnt), u);
    for (std::size_t r = 0; r < u.size(); ++r) state.rows[r].u = u[r];
    moved_ = false;
  }
  LearntLane::copy_weights(state, team_);
}

}  // namespace truemax
