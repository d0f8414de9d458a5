// The engine of device/learnt.hpp over a Runtime, as cuda/engine.hpp is for linear models.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <vector>

#include "core/files.hpp"
#include "core/random.hpp"
#include "cuda/engine.hpp"
#include "cuda/learnt_pass.hpp"
#include "cuda/learnt_steps.hpp"
#include "cuda/matrix.hpp"
#include "device/learnt.hpp"

namespace truemax::cuda {

template <class Runtime>
class LearntEngineOver final : public device::LearntEngine {
 public:
  explicit LearntEngineOver(int card) : runtime_(card), card_(runtime_.card()) {}

  const device::Card& card() const override { return card_; }

  void upload(const device::LearntShape& shape, const device::HostRows& rows,
              const device::HostLearntExamples& examples, const device::HostTables& tables, bool fresh,
              std::span<const double> u) override {
    shape_ = shape;
    const char* const exact = std::getenv("TRUEMAX_EXACT_PRODUCTS");  // for tests
    if (exact != nullptr && *exact == '1') shape_.exact_products = true;
    stride_ = padded(shape.hidden);
    require_room(rows, examples, tables, u);
    begin_ = {runtime_, rows.begin}, index_ = {runtime_, rows.index}, value_ = {runtime_, rows.value};
    row_ = {runtime_, examples.row}, label_ = {runtime_, examples.label};
    input_ = {runtime_, examples.input}, weight_ = {runtime_, examples.weight};
    u_ = {runtime_, u};
    last_ = {runtime_, examples.input.empty() ? 0 : u.size()};
    runtime_.clear(last_.data(), last_.size() * sizeof(std::uint64_t));
    features_ = table(tables.features), mixing_ = table(tables.mixing), classes_ = table(tables.classes);
    features_square_ = squares(tables.features_square, features_, shape.features, fresh);
    classes_square_ = squares(tables.classes_square, classes_, shape.classes, fresh);
    mixing_square_ = fresh ? zeros(mixing_.size()) : table(tables.mixing_square);
    intercept_ = {runtime_, std::span<const float>(tables.intercept)};
    intercept_square_ = {runtime_, std::span<const float>(tables.intercept_square)};
    make_arrays();
    steps_ = 0;
    runtime_.start_clock();
  }

  void take(const device::LearntSteps& steps) override {
    const auto count = static_cast<std::uint32_t>(steps.first.size() - 1);
    const Sent sent = send(steps);
    for (std::uint32_t t = 0; t < count; ++t) {
      // As in Adam: the running means start at 0, and this makes up for it.
      const double started = std::sqrt(1 - std::pow(shape_.keep, static_cast<double>(steps.updates + t + 1)));
      if (++steps_ == 0) restart_stamps();
      LearntTerms terms{};
      terms.example = sent.example + steps.first[t];
      terms.examples = steps.first[t + 1] - steps.first[t];
      terms.inputs = terms.examples;
      if (!steps.group.empty()) {
        terms.group = sent.group + t + steps.group_first[t];
        terms.inputs = steps.group_first[t + 1] - steps.group_first[t];
      }
      terms.drawn = sent.drawn + steps.drawn_first[t];
      terms.log_weight = sent.log_weight + steps.drawn_first[t];
      terms.drawn_count = steps.drawn_first[t + 1] - steps.drawn_first[t];
      terms.stamp = steps_;
      terms.updates = steps.updates + t;
      terms.rho = steps.rho;
      terms.rate = static_cast<float>(steps.step * started);
      terms.ridge = static_cast<float>(steps.ridge);
      take_one({run(), arrays(), terms});
    }
  }

  double largest() override {
    runtime_.clear(largest_.data(), sizeof(std::uint64_t));
    for (const Array<Runtime, float>* of : {&features_, &mixing_, &classes_, &intercept_})
      if (of->size() > 0) spread(of->size(), LargestWeight{of->data(), of->size(), largest_.data()});
    std::uint64_t bits = 0;
    largest_.copy_to({&bits, 1});
    float value;
    const auto low = static_cast<std::uint32_t>(bits);
    std::memcpy(&value, &low, sizeof value);
    return static_cast<double>(value);
  }

  void download(const device::HostTables& tables, std::span<double> u) override {
    fetch(features_, tables.features, false),
        fetch(features_square_, tables.features_square, shape_.row_state);
    fetch(mixing_, tables.mixing, false), fetch(mixing_square_, tables.mixing_square, false);
    fetch(classes_, tables.classes, false), fetch(classes_square_, tables.classes_square, shape_.row_state);
    fetch(intercept_, tables.intercept, true), fetch(intercept_square_, tables.intercept_square, true);
    if (!u.empty()) u_.copy_to(u);
  }

  double finish() override {
    const double seconds = runtime_.stop_clock();
    runtime_.start_clock();
    return seconds;
  }

  std::unique_ptr<device::Evaluated> add_rows(const device::HostRows& rows,
                                              const device::HostExamples& examples) override {
    return std::make_unique<RowsThere>(runtime_, rows, examples);
  }

  device::Pass pass(const device::Evaluated& of, std::uint32_t top) override {
    const auto& there = static_cast<const RowsThere&>(of);
    if (top <= 1) return pass_with<1>(there, top);
    if (top <= 5) return pass_with<5>(there, top);
    if (top <= 16) return pass_with<16>(there, top);
    throw UserError("a GPU finds at most the best 16 classes of a row; ask for fewer, or use --device cpu");
  }

 private:
  struct RowsThere final : device::Evaluated {
    RowsThere(Runtime& runtime, const device::HostRows& rows, const device::HostExamples& examples)
        : begin(runtime, rows.begin),
          index(runtime, rows.index),
          value(runtime, rows.value),
          row(runtime, examples.row),
          label(runtime, examples.label),
          host_row(examples.row.begin(), examples.row.end()) {}
    Rows rows() const { return {begin.data(), index.data(), value.data_or_null()}; }
    std::uint32_t row_count() const { return static_cast<std::uint32_t>(begin.size() - 1); }
    // The first example of this row or a later one.
    std::uint32_t first_example(std::uint32_t r) const {
      if (host_row.empty()) return r;
      return static_cast<std::uint32_t>(std::lower_bound(host_row.begin(), host_row.end(), r) -
                                        host_row.begin());
    }

    Array<Runtime, std::uint64_t> begin;
    Array<Runtime, std::uint32_t> index;
    Array<Runtime, float> value;
    Array<Runtime, std::uint32_t> row, label;
    std::vector<std::uint32_t> host_row;
  };
  // Where the parts of a batch of steps are on the device.
  struct Sent {
    const std::uint32_t *example, *drawn, *group;
    const float* log_weight;
  };

  static constexpr std::uint32_t kThreads = Runtime::kThreads, kRowThreads = Runtime::kRowThreads;
  static std::uint32_t padded(std::uint64_t n) { return static_cast<std::uint32_t>((n + 7) / 8 * 8); }

  bool places() const {
    return shape_.kind == device::LearntKind::places || shape_.kind == device::LearntKind::layer;
  }
  bool layer() const { return shape_.kind == device::LearntKind::layer; }
  std::uint32_t wide() const { return shape_.width * stride_; }
  // Rows of the host's mixing table are p h + d of a layer, and here p stride + d.
  std::uint64_t place_of_row(std::uint64_t r, std::uint64_t rows) const {
    if (!layer() || rows != std::uint64_t{shape_.width} * shape_.hidden + 1) return r;
    return r / shape_.hidden * stride_ + r % shape_.hidden;
  }

  void require_room(const device::HostRows& rows, const device::HostLearntExamples& examples,
                    const device::HostTables& tables, std::span<const double> u) const {
    const std::uint64_t wider = stride_ / std::max(shape_.hidden, 1U) + 1;
    std::uint64_t vectors = 0;
    for (const std::span<float>& of : {tables.features, tables.mixing, tables.classes})
      vectors += (shape_.row_state ? 1 : 2) * of.size_bytes() * (stride_ == shape_.hidden ? 1 : wider);
    const std::uint64_t uses = std::min<std::uint64_t>(most_places(), shape_.features);
    const std::uint64_t of_step =
        sizeof(float) * (std::uint64_t{shape_.most_rows} * (3 * stride_ + padded(shape_.most_drawn)) +
                         (std::uint64_t{shape_.most_drawn} + shape_.most_rows + uses) * stride_ +
                         (layer() ? 2 * std::uint64_t{shape_.most_rows} * wide() : 0));
    const std::uint64_t of_rows =
        rows.begin.size_bytes() + rows.index.size_bytes() + rows.value.size_bytes() +
        examples.row.size_bytes() + examples.label.size_bytes() + examples.input.size_bytes() +
        examples.weight.size_bytes() + (examples.input.empty() ? 1 : 2) * u.size_bytes();
    const std::uint64_t needed = vectors + of_step + of_rows, there = runtime_.free_memory();
    if (needed <= there) return;
    throw UserError(fmt::format(
        "not enough memory on {}: the run needs {} and {} are free, because {} vectors of {} numbers with "
        "their running means are {}; give a smaller --hidden or --rows-per-step, or use --device cpu",
        card_.name, size_text(needed), size_text(there), shape_.features + (shape_.tied ? 0 : shape_.classes),
        shape_.hidden, size_text(vectors)));
  }

  std::uint64_t most_places() const {
    return shape_.most_uses + (shape_.tied ? std::uint64_t{shape_.most_rows} + shape_.most_drawn : 0);
  }

  Array<Runtime, float> zeros(std::size_t count) {
    Array<Runtime, float> there(runtime_, count);
    runtime_.clear(there.data(), count * sizeof(float));
    return there;
  }
  Array<Runtime, float> table(std::span<const float> from) {
    if (from.empty()) return {};
    if (stride_ == shape_.hidden) return {runtime_, from};
    const std::uint64_t rows = from.size() / shape_.hidden;
    const std::uint64_t last = place_of_row(rows - 1, rows);
    std::vector<float> wide((last + 1) * stride_);
    for (std::uint64_t r = 0; r < rows; ++r)
      std::copy_n(from.data() + r * shape_.hidden, shape_.hidden,
                  wide.data() + place_of_row(r, rows) * stride_);
    return {runtime_, std::span<const float>(wide.data(), wide.size())};
  }
  // Of the vectors of a table, which may be none.
  Array<Runtime, float> squares(std::span<const float> from, const Array<Runtime, float>& of,
                                std::size_t rows, bool fresh) {
    if (of.size() == 0) return {};
    if (fresh) return zeros(shape_.row_state ? rows : of.size());
    return shape_.row_state ? Array<Runtime, float>(runtime_, from) : table(from);
  }
  void fetch(const Array<Runtime, float>& from, std::span<float> to, bool by_row) const {
    if (to.empty()) return;
    if (by_row || stride_ == shape_.hidden) return from.copy_to(to);
    std::vector<float> wide(from.size());
    from.copy_to({wide.data(), wide.size()});
    const std::uint64_t rows = to.size() / shape_.hidden;
    for (std::uint64_t r = 0; r < rows; ++r)
      std::copy_n(wide.data() + place_of_row(r, rows) * stride_, shape_.hidden,
                  to.data() + r * shape_.hidden);
  }

  void make_arrays() {
    const std::size_t rows = shape_.most_rows, drawn = shape_.most_drawn;
    p_stride_ = padded(drawn);
    x_ = zeros(rows * stride_), dx_ = zeros(rows * stride_);
    p_ = zeros(rows * p_stride_);
    before_ = zeros(layer() ? rows * stride_ : 0);
    words_ = zeros(layer() ? rows * wide() : 0), slope_ = zeros(layer() ? rows * wide() : 0);
    offset_ = zeros(drawn), of_label_ = zeros(rows), label_score_ = zeros(rows);
    scale_ = {runtime_, rows}, next_u_ = {runtime_, rows};
    const auto uses = static_cast<std::size_t>(std::min<std::uint64_t>(most_places(), shape_.features));
    feature_place_ = PlacesThere(runtime_, shape_.features, uses);
    class_place_ = PlacesThere(runtime_, shape_.classes, drawn + rows);
    feature_gradient_ = zeros(uses * stride_);
    class_gradient_ = zeros((drawn + rows) * stride_);
    intercept_gradient_ = {runtime_, drawn + rows};
    mixing_gradient_ = zeros(mixing_.size());
    largest_ = {runtime_, 1};
  }

  struct PlacesThere {
    PlacesThere() = default;
    PlacesThere(Runtime& runtime, std::size_t vectors, std::size_t places)
        : stamp(runtime, vectors), place(runtime, vectors), vector(runtime, places), count(runtime, 1) {
      clear(runtime);
    }
    void clear(Runtime& runtime) { runtime.clear(stamp.data(), stamp.size() * sizeof(std::uint32_t)); }
    Places there() const { return {stamp.data(), place.data(), vector.data(), count.data()}; }
    Array<Runtime, std::uint32_t> stamp, place, vector, count;
  };
  // After 2^32 steps.
  void restart_stamps() {
    feature_place_.clear(runtime_);
    class_place_.clear(runtime_);
    runtime_.clear(last_.data(), last_.size() * sizeof(std::uint64_t));
    steps_ = 1;
  }

  LearntRun run() const {
    LearntRun run{};
    run.kind = shape_.kind;
    run.h = shape_.hidden, run.stride = stride_, run.width = shape_.width, run.left_out = shape_.left_out;
    run.most_drawn = shape_.most_drawn;
    run.tied = shape_.tied, run.fixed_factors = shape_.fixed_factors;
    run.ridge_intercept = shape_.ridge_intercept, run.row_state = shape_.row_state;
    run.keep = static_cast<float>(shape_.keep);
    run.penalty = shape_.penalty;
    run.rows = {begin_.data(), index_.data(), value_.data_or_null()};
    run.examples = {row_.data_or_null(),    label_.data(), input_.data_or_null(),
                    weight_.data_or_null(), u_.data(),     last_.data_or_null()};
    run.tables = {features_.data(),
                  features_square_.data(),
                  mixing_.data(),
                  mixing_square_.data(),
                  shape_.tied ? features_.data() : classes_.data(),
                  classes_square_.data(),
                  intercept_.data_or_null(),
                  intercept_square_.data_or_null()};
    run.dropout = {shape_.seed, static_cast<std::uint64_t>(Stream::dropout) << 56,
                   static_cast<std::uint64_t>(std::lround(shape_.dropout * 65536)),
                   static_cast<float>(1 / (1 - shape_.dropout))};
    return run;
  }
  LearntArrays arrays() const {
    LearntArrays a{};
    a.x = x_.data(), a.dx = dx_.data(), a.before_dropout = before_.data();
    a.words = words_.data(), a.slope = slope_.data();
    a.p = p_.data(), a.p_stride = p_stride_, a.offset = offset_.data();
    a.of_label = of_label_.data(), a.label_score = label_score_.data();
    a.scale = scale_.data(), a.next_u = next_u_.data();
    a.features = feature_place_.there(), a.classes = class_place_.there();
    a.feature_gradient = feature_gradient_.data(), a.class_gradient = class_gradient_.data();
    a.intercept_gradient = intercept_gradient_.data(), a.mixing_gradient = mixing_gradient_.data();
    return a;
  }

  Sent send(const device::LearntSteps& steps) {
    const std::size_t examples = steps.example.size(), drawn = steps.drawn.size(), group = steps.group.size();
    const std::size_t needed = examples + 2 * drawn + group;
    if (sent_.size() < needed) sent_ = {runtime_, needed};
    packed_.resize(needed);
    std::uint32_t* at = std::copy(steps.example.begin(), steps.example.end(), packed_.data());
    at = std::copy(steps.drawn.begin(), steps.drawn.end(), at);
    std::memcpy(at, steps.log_weight.data(), drawn * sizeof(float));
    std::copy(steps.group.begin(), steps.group.end(), at + drawn);
    runtime_.send(sent_.data(), packed_.data(), needed * sizeof(std::uint32_t));
    const std::uint32_t* const there = sent_.data();
    return {there, there + examples, there + examples + 2 * drawn,
            reinterpret_cast<const float*>(there + examples + drawn)};
  }

  void take_one(const LearntStepData& step) {
    const LearntTerms& terms = step.terms;
    const std::uint32_t rows = terms.inputs, drawn = terms.drawn_count;
    const bool exact = shape_.exact_products;
    const DeviceRows x{x_.data(), stride_, nullptr}, dx{dx_.data(), stride_, nullptr},
        p{p_.data(), p_stride_, nullptr}, words{words_.data(), wide(), nullptr};
    const DeviceRows w{step.run.tables.classes, stride_, terms.drawn};
    const DeviceRows layer_rows{mixing_.data(), stride_, nullptr};
    spread(shape_.most_drawn + terms.examples, StartStep{step});
    each(rows, Encode{step});
    if (layer()) {
      multiply<Form::plain>(runtime_, {words, layer_rows, x_.data(), stride_, rows, stride_, wide()}, exact);
      each(rows, tanh_rows(x_.data(), before_.data(), rows, step.run.dropout, terms.updates));
    }
    multiply<Form::rows_by_rows>(runtime_, {x, w, p_.data(), p_stride_, rows, drawn, stride_}, exact);
    runtime_.launch(Solve{step}, blocks_for(rows), kThreads, Solve::kBytes);
    multiply<Form::plain>(runtime_, {p, w, dx_.data(), stride_, rows, stride_, drawn}, exact);
    each(rows, Backward{step});
    multiply<Form::columns_first>(runtime_, {p, x, class_gradient_.data(), stride_, drawn, stride_, rows},
                                  exact);
    if (intercept_.size() > 0) spread(std::uint64_t{drawn} * ((rows + 63) / 64), SumColumns{step});
    each(rows, LabelGradients{step});
    if (layer()) {
      multiply<Form::rows_by_rows>(runtime_, {dx, layer_rows, slope_.data(), wide(), rows, wide(), stride_},
                                   exact);
      multiply<Form::columns_first>(
          runtime_, {words, dx, mixing_gradient_.data(), stride_, wide(), stride_, rows}, exact);
      each(rows, ScatterWords{step});
    }
    runtime_.launch(MoveClasses{step}, blocks_for(drawn + terms.examples), row_threads(),
                    MoveClasses::kBytes);
    runtime_.launch(MoveFeatures{step},
                    blocks_for(std::min<std::uint64_t>(feature_place_.vector.size(), shape_.features)),
                    row_threads(), MoveFeatures::kBytes);
    if (places() && !shape_.fixed_factors) {
      const std::uint64_t of_words = layer() ? std::uint64_t{wide()} * stride_ : 0;
      spread(mixing_.size(), MoveMixing{step, mixing_.size(), of_words, of_words});
    }
  }

  TanhRows tanh_rows(float* x, float* before, std::uint32_t rows, const DeviceDropout& dropout,
                     std::uint64_t updates) const {
    return {x,       before, mixing_.data() + std::uint64_t{wide()} * stride_, rows, shape_.hidden, stride_,
            dropout, updates};
  }

  std::uint32_t blocks_for(std::uint64_t rows) const {
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>(rows, std::uint64_t{runtime_.most_blocks()} * 4));
  }
  // Threads take four numbers of a row each.
  std::uint32_t row_threads() const { return std::min(kRowThreads, (stride_ / 4 + 31) / 32 * 32); }
  // A kernel whose blocks take a row each.
  template <class Kernel>
  void each(std::uint32_t rows, const Kernel& kernel) {
    runtime_.launch(kernel, blocks_for(rows), row_threads(), 0);
  }
  // A kernel whose threads share `count` things.
  template <class Kernel>
  void spread(std::uint64_t count, const Kernel& kernel) {
    const std::uint64_t wanted = (count + kThreads - 1) / kThreads;
    runtime_.launch(kernel,
                    static_cast<std::uint32_t>(std::min<std::uint64_t>(wanted, runtime_.most_blocks())),
                    kThreads, 0);
  }

  template <int kTop>
  device::Pass pass_with(const RowsThere& there, std::uint32_t top) {
    constexpr std::uint64_t kMostScores = std::uint64_t{1} << 28;  // 1 GB
    const std::uint32_t rows = there.row_count(), scores_stride = padded(shape_.classes);
    const auto at_once = static_cast<std::uint32_t>(
        std::clamp<std::uint64_t>(kMostScores / std::max(scores_stride, wide()), 1, std::max(rows, 1U)));
    const LearntRun run = this->run();
    Array<Runtime, float> x = zeros(std::size_t{at_once} * stride_),
                          words = zeros(layer() ? std::size_t{at_once} * wide() : 0);
    Array<Runtime, float> scores(runtime_, std::size_t{at_once} * scores_stride);
    Array<Runtime, double> highest(runtime_, rows), excess(runtime_, rows),
        labels(runtime_, there.label.size());
    Array<Runtime, Best> best(runtime_, std::size_t{rows} * kTop);
    DeviceDropout none = run.dropout;
    none.dropped = 0;
    finish();
    for (std::uint32_t first = 0; first < rows; first += at_once) {
      const std::uint32_t here = std::min(at_once, rows - first);
      each(here, EncodeRows{run, there.rows(), first, here, x.data(), words.data()});
      if (layer()) {
        multiply<Form::plain>(runtime_,
                              {{words.data(), wide(), nullptr},
                               {mixing_.data(), stride_, nullptr},
                               x.data(),
                               stride_,
                               here,
                               stride_,
                               wide()},
                              true);
        each(here, tanh_rows(x.data(), nullptr, here, none, 0));
      }
      multiply<Form::rows_by_rows>(runtime_,
                                   {{x.data(), stride_, nullptr},
                                    {run.tables.classes, stride_, nullptr},
                                    scores.data(),
                                    scores_stride,
                                    here,
                                    shape_.classes,
                                    stride_},
                                   true);
      runtime_.launch(SumScores<kTop>{scores.data(), scores_stride, here, shape_.classes,
                                      run.tables.intercept, highest.data() + first, excess.data() + first,
                                      best.data() + std::size_t{first} * kTop},
                      blocks_for(here), kThreads, SumScores<kTop>::kBytes);
      const std::uint32_t from = there.first_example(first), to = there.first_example(first + here);
      if (to > from)
        spread(std::uint64_t{to - from} * 32,
               ScoreRowLabels{there.row.data_or_null(), there.label.data(), from, to, first, x.data(),
                              run.tables.classes, run.tables.intercept, shape_.hidden, stride_,
                              shape_.classes, labels.data()});
    }
    device::Pass out;
    out.seconds = finish();
    out.top = std::min(top, shape_.classes);
    out.highest.resize(rows), out.excess.resize(rows), out.label_score.resize(there.label.size());
    highest.copy_to({out.highest.data(), rows});
    excess.copy_to({out.excess.data(), rows});
    labels.copy_to({out.label_score.data(), out.label_score.size()});
    std::vector<Best> all(std::size_t{rows} * kTop);
    best.copy_to({all.data(), all.size()});
    for (std::size_t r = 0; r < rows; ++r)
      for (std::uint32_t i = 0; i < out.top; ++i) {
        out.best.push_back(all[r * kTop + i].number);
        out.best_score.push_back(all[r * kTop + i].score);
      }
    return out;
  }

  Runtime runtime_;
  device::Card card_;
  device::LearntShape shape_;
  std::uint32_t stride_ = 0, steps_ = 0;
  std::uint64_t p_stride_ = 0;
  Array<Runtime, std::uint64_t> begin_, largest_, last_;
  Array<Runtime, std::uint32_t> index_, row_, label_, input_, sent_;
  Array<Runtime, float> value_, weight_;
  Array<Runtime, float> features_, features_square_, mixing_, mixing_square_, classes_, classes_square_,
      intercept_, intercept_square_;
  Array<Runtime, double> u_, scale_, next_u_, intercept_gradient_;
  Array<Runtime, float> x_, dx_, p_, before_, words_, slope_, offset_, of_label_, label_score_;
  Array<Runtime, float> feature_gradient_, class_gradient_, mixing_gradient_;
  PlacesThere feature_place_, class_place_;
  std::vector<std::uint32_t> packed_;
};

}  // namespace truemax::cuda
