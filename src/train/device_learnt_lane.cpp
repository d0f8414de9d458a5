#include "train/device_learnt_lane.hpp"

#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "core/parallel.hpp"
#include "train/learnt_lane.hpp"
#include "train/step_shape.hpp"

namespace truemax {

// Threads count the rows and the features of their examples, and then copy them to where they belong.
PackedRows::PackedRows(const DataView& data, std::size_t threads) {
  struct Part {
    std::size_t rows = 0, entries = 0, longest = 0;
  };
  constexpr std::size_t kChunk = std::size_t{1} << 15;
  const std::size_t examples = data.size(), chunks = (examples + kChunk - 1) / kChunk;
  const bool values = !reads_words(data.space->encoder) || data.space->encoder == EncoderKind::skipgram;
  const auto each = [&](std::size_t chunk, const auto& visit) {
    for (std::size_t n = chunk * kChunk; n < std::min(examples, (chunk + 1) * kChunk); ++n) {
      const ExampleId i{static_cast<std::uint32_t>(n)};
      const bool again = n > 0 && data.row_of(i) == data.row_of(ExampleId{static_cast<std::uint32_t>(n - 1)});
      visit(i, n, again);
    }
  };
  std::vector<Part> parts(chunks + 1);
  parallel_for(chunks, threads, [&](std::size_t chunk) {
    Part& part = parts[chunk + 1];
    each(chunk, [&](ExampleId i, std::size_t /*n*/, bool again) {
      if (again) return;
      const std::size_t length = data.x(i).index.size();
      ++part.rows, part.entries += length, part.longest = std::max(part.longest, length);
    });
  });
  for (std::size_t c = 1; c <= chunks; ++c) {
    longest = std::max(longest, parts[c].longest);
    parts[c].rows += parts[c - 1].rows, parts[c].entries += parts[c - 1].entries;
  }
  const std::size_t rows = parts[chunks].rows;
  resize_with(begin, rows + 1, threads);
  resize_with(index, parts[chunks].entries, threads);
  if (values) resize_with(value, parts[chunks].entries, threads);
  resize_with(label, examples, threads);
  if (data.has_example_weights()) resize_with(weight, examples, threads);
  if (rows < examples) resize_with(row, examples, threads);
  parallel_for(chunks, threads, [&](std::size_t chunk) {
    std::size_t r = parts[chunk].rows, at = parts[chunk].entries;
    each(chunk, [&](ExampleId i, std::size_t n, bool again) {
      label[n] = data.label(i);
      if (!weight.empty()) weight[n] = static_cast<float>(data.weight(i));
      if (!again) {
        const RowView x = data.x(i);
        std::copy(x.index.begin(), x.index.end(), index.data() + at);
        if (values) std::copy(x.value.begin(), x.value.end(), value.data() + at);
        at += x.index.size();
        begin[++r] = at;
      }
      if (!row.empty()) row[n] = static_cast<std::uint32_t>(r - 1);
    });
  });
}

DeviceLearntLane::DeviceLearntLane(const LaneSetup& setup, std::unique_ptr<device::LearntEngine> engine)
    : setup_(setup),
      engine_(std::move(engine)),
      encoder_(make_encoder(setup.data, setup.recipe)),
      rho_(setup.recipe.rule),
      team_(setup.recipe.thread_count()),
      steps_(setup.plan.steps_ahead) {
  if (setup.data.streamed() != nullptr)
    throw UserError("a GPU cannot learn features from --stream yet: use --device cpu, or leave --stream out");
}

device::LearntShape learnt_shape(const DataView& data, const Recipe& recipe, std::size_t rows,
                                 std::size_t drawn, std::size_t longest_row) {
  device::LearntShape shape;
  const EncoderKind kind = data.space->encoder;
  shape.kind = data.space->of_triples() ? device::LearntKind::complex
               : !mixes_places(kind)    ? device::LearntKind::bag
               : recipe.layers > 0      ? device::LearntKind::layer
                                        : device::LearntKind::places;
  shape.hidden = static_cast<std::uint32_t>(recipe.hidden);
  shape.classes = static_cast<std::uint32_t>(data.classes->size());
  shape.features = static_cast<std::uint32_t>(data.space->features);
  if (mixes_places(kind)) shape.width = static_cast<std::uint32_t>(data.space->width());
  if (shape.kind == device::LearntKind::places && kind == EncoderKind::cbow)
    shape.left_out = shape.width / 2, shape.fixed_factors = true;
  shape.tied = has_tied_vectors(recipe, data.space->of_triples());
  shape.ridge_intercept = recipe.ridge_intercept;
  shape.row_state = recipe.row_state;
  shape.dropout = recipe.dropout;
  shape.seed = recipe.seed;
  if (data.space->of_triples()) shape.penalty = 3 * recipe.ridge;
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
  const PackedRows packed(data, setup_.recipe.thread_count());
  std::vector<std::uint32_t> input;
  if (data.shares_inputs())
    for (const ExampleId i : data.examples()) input.push_back(static_cast<std::uint32_t>(data.input_of(i)));
  std::vector<double> u;
  u.reserve(state.rows.size());
  for (const RowState& row : state.rows) u.push_back(row.u);
  const StepShape step = setup_.plan.shape;
  engine_->upload(learnt_shape(data, setup_.recipe, step.rows, step.drawn, packed.longest), packed.rows(),
                  {packed.row, packed.label, input, packed.weight}, host_tables(state.learnt),
                  state.learnt.updates == 0, u);
  there_ = true;
}

void DeviceLearntLane::take(const Batch& batch, RunState& state) {
  const double rho = rho_.at(batch.decayed, setup_.draw->complete());
  admit(state, batch.step, rho, batch.count);
  team_.share(batch.count, [&](std::size_t /*member*/, std::size_t t) { fill(batch, t); });
  pack(batch.count);
  device::LearntSteps steps;
  steps.first = first_, steps.example = example_;
  steps.drawn_first = drawn_first_, steps.drawn = drawn_, steps.log_weight = log_weight_;
  if (setup_.data.shares_inputs()) steps.group_first = group_first_, steps.group = group_;
  steps.updates = state.learnt.updates;
  steps.step = batch.step, steps.rho = rho;
  steps.ridge = setup_.recipe.ridge / std::max(setup_.problem.total_weight, 1e-300);
  engine_->take(steps);
  moved_ = true;
  state.learnt.updates += batch.count;
  state.step += batch.count;
}

void DeviceLearntLane::fill(const Batch& batch, std::size_t t) {
  const DataView& data = setup_.data;
  Step& step = steps_[t];
  const std::size_t together = setup_.recipe.rows_per_step;
  const std::uint64_t first = (batch.first + t) * together;
  step.examples.resize(std::min<std::uint64_t>(together, data.size() - first));
  batch.order.fill(first, step.examples);
  if (data.shares_inputs()) {
    step.group.clear();
    for (std::size_t i = 0; i < step.examples.size(); ++i)
      if (i == 0 || data.row_of(step.examples[i]) != data.row_of(step.examples[i - 1]))
        step.group.push_back(static_cast<std::uint32_t>(i));
    step.group.push_back(static_cast<std::uint32_t>(step.examples.size()));
  }
  // One label is enough: of a step with one row, which does not draw it.
  const ClassId label = data.label(step.examples[0]);
  setup_.draw->fill(batch.random, batch.first + t, 1, {&label, 1}, {step.examples.data(), 1}, step.drawn);
  step.log_weight.resize(step.drawn.count[0]);
  for (std::size_t j = 0; j < step.log_weight.size(); ++j)
    step.log_weight[j] = static_cast<float>(std::log(step.drawn.weights[j]));
}

void DeviceLearntLane::pack(std::size_t steps) {
  first_.assign(1, 0), drawn_first_.assign(1, 0), group_first_.assign(1, 0);
  example_.clear(), drawn_.clear(), group_.clear(), log_weight_.clear();
  for (std::size_t t = 0; t < steps; ++t) {
    const Step& step = steps_[t];
    for (const ExampleId i : step.examples) example_.push_back(static_cast<std::uint32_t>(number_of(i)));
    first_.push_back(static_cast<std::uint32_t>(example_.size()));
    if (setup_.data.shares_inputs()) {
      group_.insert(group_.end(), step.group.begin(), step.group.end());
      group_first_.push_back(static_cast<std::uint32_t>(group_.size() - t - 1));
    }
    const auto drawn = step.drawn.classes.begin();
    drawn_.insert(drawn_.end(), drawn, drawn + static_cast<std::ptrdiff_t>(step.log_weight.size()));
    log_weight_.insert(log_weight_.end(), step.log_weight.begin(), step.log_weight.end());
    drawn_first_.push_back(static_cast<std::uint32_t>(drawn_.size()));
  }
}

// As LearntLane does: every number that a step computes is bounded by the parameters, the data and rho.
void DeviceLearntLane::admit(RunState& state, double rate, double rho, std::size_t steps) {
  const double dropout = setup_.recipe.dropout;
  const double of_row = setup_.recipe.row_state ? static_cast<double>(setup_.recipe.hidden) : 1;
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
  LearntLane::add_squares(state.learnt, setup_.recipe);
  if (there_ && moved_) {
    std::vector<double> u(state.rows.size());
    engine_->download(host_tables(state.learnt), u);
    for (std::size_t r = 0; r < u.size(); ++r) state.rows[r].u = u[r];
    moved_ = false;
  }
  LearntLane::copy_weights(state, team_);
}

}  // namespace truemax
