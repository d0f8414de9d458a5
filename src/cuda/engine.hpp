// The engine of device/engine.hpp over a Runtime: CUDA's (cuda/engine.cu), or the CPU's for tests
// (cuda/emulated_runtime.hpp). A Runtime allocates, copies, launches kernels and measures time.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "cuda/all_classes.hpp"
#include "cuda/pass.hpp"
#include "cuda/rivals.hpp"
#include "cuda/steps.hpp"
#include "device/engine.hpp"

namespace truemax::cuda {

// W *= factor.
struct ScaleWeights {
  float* weight;
  std::uint64_t count;
  float factor;
  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    const std::uint64_t stride = std::uint64_t{t.blocks()} * t.threads();
    for (std::uint64_t i = std::uint64_t{t.block()} * t.threads() + t.number(); i < count; i += stride)
      weight[i] *= factor;
  }
};

// The bits of the largest absolute number; those of infinity and NaN are above all others.
struct LargestWeight {
  const float* weight;
  std::uint64_t count;
  std::uint64_t* largest;
  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    const std::uint64_t stride = std::uint64_t{t.blocks()} * t.threads();
    std::uint32_t most = 0;
    for (std::uint64_t i = std::uint64_t{t.block()} * t.threads() + t.number(); i < count; i += stride) {
      std::uint32_t bits;
      memcpy(&bits, &weight[i], sizeof bits);
      most = larger(most, bits & 0x7FFFFFFFU);
    }
    if (most > 0) raise(largest, most);
  }
};

// Adds up the squares.
struct SumSquares {
  const float* weight;
  std::uint64_t count;
  double* sum;
  TRUEMAX_KERNEL void operator()(const Thread& t) const {
    const std::uint64_t stride = std::uint64_t{t.blocks()} * t.threads();
    double mine = 0;
    for (std::uint64_t i = std::uint64_t{t.block()} * t.threads() + t.number(); i < count; i += stride)
      mine += static_cast<double>(weight[i]) * static_cast<double>(weight[i]);
    mine = t.group<32>().sum(mine);
    if (t.number() % 32 == 0 && mine > 0) add(sum, mine);
  }
};

// Memory of the device.
template <class Runtime, class T>
class Array {
 public:
  Array() = default;
  Array(Runtime& runtime, std::size_t size)
      : runtime_(&runtime), size_(size), data_(static_cast<T*>(runtime.allocate(size * sizeof(T)))) {}
  Array(Runtime& runtime, std::span<const T> from) : Array(runtime, from.size()) {
    runtime.to_device(data_, from.data(), from.size_bytes());
  }
  Array(Runtime& runtime, const std::vector<T>& from)
      : Array(runtime, std::span<const T>(from.data(), from.size())) {}
  ~Array() {
    if (data_ != nullptr) runtime_->free(data_);
  }
  Array(Array&& other) noexcept { swap(other); }
  Array& operator=(Array&& other) noexcept {
    swap(other);
    return *this;
  }
  T* data() const { return data_; }
  T* data_or_null() const { return size_ == 0 ? nullptr : data_; }
  std::size_t size() const { return size_; }
  void copy_to(std::span<T> to) const { runtime_->to_host(to.data(), data_, to.size_bytes()); }

 private:
  void swap(Array& other) noexcept {
    std::swap(runtime_, other.runtime_);
    std::swap(size_, other.size_);
    std::swap(data_, other.data_);
  }
  Runtime* runtime_ = nullptr;
  std::size_t size_ = 0;
  T* data_ = nullptr;
};

template <class Runtime>
class EngineOver final : public device::Engine {
 public:
  explicit EngineOver(int card) : runtime_(card), card_(runtime_.card()) {}

  const device::Card& card() const override { return card_; }

  void set_weights(const device::HostWeights& weights, bool ridge_intercept) override {
    classes_ = weights.classes, features_ = weights.features, scale_ = 1;
    shrinks_intercept_ = ridge_intercept && !weights.intercept.empty();
    weight_ = {}, intercept_ = {};  // its memory may be needed
    if (weights.weight.empty()) {
      weight_ = {runtime_, std::size_t{matrix().blocks()} * features_ * kBlock};
      runtime_.clear(weight_.data(), weight_.size() * sizeof(float));
    } else {
      weight_ = {runtime_, std::span<const float>(weights.weight)};
    }
    intercept_ = {runtime_, std::span<const float>(weights.intercept)};
    numbers_ = {runtime_, 2};
  }

  void set_rows(const device::HostRows& rows, const device::HostExamples& examples, std::span<const double> u,
                std::span<const float> norms, const device::HostDraw& draw) override {
    rows_ = RowsThere(runtime_, rows, examples);
    row_begin_.assign(rows.begin.begin(), rows.begin.end());
    u_ = {runtime_, u};
    norm_ = {runtime_, norms};
    std::vector<Cell> cells;
    for (const device::AliasCell& cell : draw.cells) cells.push_back({cell.keep, cell.other, 0});
    cells_ = {runtime_, cells};
    over_mean_ = {runtime_, draw.over_mean};
    head_ = draw.head, draws_ = draw.cells.empty() ? 0 : draw.draws;
    report_ = {runtime_, 1};
    runtime_.clear(report_.data(), sizeof(StepReport));
    timed_ = false;
    rivals_ = 0;
  }

  void set_rivals(std::span<const std::uint32_t> blocks, std::uint32_t each) override {
    runtime_.join();
    if (rival_.size() != blocks.size())
      rival_ = {runtime_, blocks};
    else
      runtime_.to_device(rival_.data(), blocks.data(), blocks.size_bytes());
    rivals_ = each;
    if (each > 0) prepare_to_learn();
  }

  void learn_rivals(std::uint32_t part, std::uint32_t parts) override {
    if (rivals_ == 0) return;
    runtime_.join();
    spread(narrow_.size() / NarrowWeights::kWide, NarrowWeights{matrix(), narrow()});
    if (rivals_ < kFewRivals)
      learn_with<kFewRivals>(part, parts);
    else
      learn_with<kManyRivals>(part, parts);
  }

  void download_rivals(std::span<std::uint32_t> blocks) override {
    runtime_.join();
    rival_.copy_to(blocks);
  }

  void take(const device::Leg& given) override {
    device::Leg leg = given;
    if (leg.last_step == 0) leg.last_step = leg.step;
    if (!timed_) runtime_.start_clock();
    timed_ = true;
    // W may shrink so far in one launch that numbers in memory, which grow as it does, keep their digits.
    constexpr double kMostShrinking = 1;
    const std::uint64_t most =
        leg.decay > 0 ? static_cast<std::uint64_t>(larger(1.0, kMostShrinking / leg.decay)) : leg.count;
    if (leg.count == 0) return take_part(leg);
    for (std::uint64_t done = 0; done < leg.count;) {
      device::Leg part = leg;
      part.first += done, part.count = std::min(most, leg.count - done);
      const auto at = [&](std::uint64_t t) {
        return static_cast<double>(t) / static_cast<double>(leg.count);
      };
      part.step = leg.step + at(done) * (leg.last_step - leg.step);
      part.last_step = leg.step + at(done + part.count) * (leg.last_step - leg.step);
      part.rho = leg.rho * (leg.rho_falls ? part.step / leg.step : 1);
      part.decay = leg.decay * (part.step / leg.step);
      take_part(part);
      done += part.count;
      scale_ *= std::exp(-shrinking(part, static_cast<double>(part.count)));
      constexpr double kLeastScale = 0.1;
      if (scale_ < kLeastScale) fold();
    }
    if (leg.most_norm > 0) project(leg.most_norm);
  }

  device::LegReport report() override {
    runtime_.join();
    const double seconds = timed_ ? runtime_.stop_clock() : 0;
    timed_ = false;
    StepReport report{};
    report_.copy_to({&report, 1});
    runtime_.clear(report_.data(), sizeof(StepReport));
    return {report.growth, report.refused, report.in_double, seconds};
  }

  void download(const device::HostWeights& weights, std::span<double> u) override {
    fold();
    if (!weights.weight.empty()) weight_.copy_to(weights.weight);
    if (!weights.intercept.empty()) intercept_.copy_to(weights.intercept);
    if (!u.empty()) u_.copy_to(u);
  }

  double largest_weight() override {
    fold();
    runtime_.clear(numbers_.data(), sizeof(std::uint64_t));
    for (const Array<Runtime, float>* of : {&weight_, &intercept_})
      if (of->size() > 0) spread(of->size(), LargestWeight{of->data(), of->size(), numbers_.data()});
    std::uint64_t bits = 0;
    numbers_.copy_to({&bits, 1});
    float value;
    const auto low = static_cast<std::uint32_t>(bits);
    std::memcpy(&value, &low, sizeof value);
    return static_cast<double>(value);
  }

  std::unique_ptr<device::Evaluated> add_rows(const device::HostRows& rows,
                                              const device::HostExamples& examples) override {
    auto there = std::make_unique<RowsThere>(runtime_, rows, examples);
    there->order = {runtime_, by_length(rows.begin)};
    return there;
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
    RowsThere() = default;
    RowsThere(Runtime& runtime, const device::HostRows& rows, const device::HostExamples& examples)
        : begin(runtime, rows.begin),
          entry(runtime, packed(rows)),
          row(runtime, examples.row),
          label(runtime, examples.label),
          weight(runtime, examples.weight) {}
    PackedRows rows() const { return {begin.data(), entry.data()}; }
    std::uint32_t row_count() const { return static_cast<std::uint32_t>(begin.size() - 1); }

    static std::vector<Entry> packed(const device::HostRows& rows) {
      std::vector<Entry> out(rows.index.size());
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = {rows.index[i], rows.value[i]};
      return out;
    }

    Array<Runtime, std::uint64_t> begin;
    Array<Runtime, Entry> entry;
    Array<Runtime, std::uint32_t> row, label;
    Array<Runtime, float> weight;
    Array<Runtime, std::uint32_t> order;  // of the rows, longest first; to evaluate and to find rivals
  };

  // Longest rows first.
  static std::vector<std::uint32_t> by_length(std::span<const std::uint64_t> begin) {
    std::vector<std::uint32_t> order(begin.size() - 1);
    std::iota(order.begin(), order.end(), 0U);
    const auto length = [&](std::uint32_t r) { return begin[r + 1] - begin[r]; };
    std::stable_sort(order.begin(), order.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return length(a) > length(b); });
    return order;
  }

  static constexpr std::uint32_t kThreads = 256;
  static constexpr std::uint32_t kPassThreads = Runtime::kEmulated ? Runtime::kThreads : 1024;

  Matrix matrix() const {
    return {weight_.data(), intercept_.data_or_null(), classes_, features_, shrinks_intercept_};
  }
  Examples examples() const {
    return {rows_.row.data_or_null(),
            rows_.label.data(),
            rows_.weight.data_or_null(),
            norm_.data(),
            u_.data(),
            static_cast<std::uint32_t>(rows_.label.size())};
  }
  Order order(const device::Leg& leg) const {
    const auto count = static_cast<std::uint32_t>(rows_.label.size());
    return {static_cast<Order::Kind>(leg.order), RandomPermutation(count, leg.order_key), leg.order_key,
            count};
  }

  // How much W has shrunk before step t, as a logarithm: the ridge falls with the step.
  static double shrinking(const device::Leg& leg, double t) { return leg.decay * t * (1 + falling(leg) * t); }
  static double falling(const device::Leg& leg) {
    return leg.count == 0 ? 0 : (leg.last_step / leg.step - 1) / (2 * static_cast<double>(leg.count));
  }

  void take_part(const device::Leg& leg) {
    if (leg.method == device::Method::exact) return take_all_classes(leg);
    const std::uint32_t slots = head_ + 1 + rivals_ + draws_;  // of a warp's memory, even if blocks are fewer
    if (slots <= 2) return take_with<2>(leg);
    if (slots <= 4) return take_with<4>(leg);
    if (slots <= 8) return take_with<8>(leg);
    if (slots <= 16) return take_with<16>(leg);
    static_assert(device::kMostBlocks == 32);
    if (slots <= 32) return take_with<32>(leg);
    throw UserError("a step on a GPU takes at most 32 blocks of 16 classes, and this one " +
                    std::to_string(slots) + "; give a smaller --head or --classes-per-step");
  }

  void take_all_classes(const device::Leg& leg) {
    runtime_.join();
    const std::uint64_t width = std::uint64_t{matrix().blocks()} * kBlock;
    if (score_.size() < width * leg.rows_per_step) {
      score_ = {runtime_, width * leg.rows_per_step};
      shift_ = {runtime_, leg.rows_per_step};
    }
    for (std::uint64_t t = 0; t < leg.count; ++t) {
      const std::uint64_t first = (leg.first + t) * leg.rows_per_step;
      const auto count =
          static_cast<std::uint32_t>(std::min<std::uint64_t>(leg.rows_per_step, rows_.label.size() - first));
      const AllClassesStep step{
          rows_.rows(),
          examples(),
          matrix(),
          order(leg),
          first,
          count,
          static_cast<float>(scale_ * std::exp(-shrinking(leg, static_cast<double>(t)))),
          (leg.step + (leg.last_step - leg.step) * static_cast<double>(t) / static_cast<double>(leg.count)) /
              leg.rows_per_step,
          leg.most_growth,
          score_.data(),
          shift_.data(),
          report_.data()};
      spread(width * count, ScoreAllClasses{step});
      runtime_.launch(NormaliseAllClasses{step}, count, kThreads, NormaliseAllClasses::kBytes);
      spread(width * count, ApplyAllClasses{step});
    }
  }

  // W *= most/|W| if |W| is larger.
  void project(double most) {
    fold();
    runtime_.clear(numbers_.data(), sizeof(std::uint64_t));
    auto* const sum = reinterpret_cast<double*>(numbers_.data());
    spread(weight_.size(), SumSquares{weight_.data(), weight_.size(), sum});
    double square = 0;
    runtime_.to_host(&square, sum, sizeof square);
    if (square > most * most) scale_ = most / std::sqrt(square);
    fold();
  }

  template <int kSlots>
  void take_with(const device::Leg& leg) {
    switch (leg.method) {
      case device::Method::prox:
        return launch_steps<kSlots>(leg, ProxMethod{});
      case device::Method::implicit:
        return launch_steps<kSlots>(leg, ImplicitMethod{});
      case device::Method::scent:
        return launch_steps<kSlots>(leg, ScentMethod{});
      case device::Method::umax:
        return launch_steps<kSlots>(leg, UmaxMethod{leg.delta, leg.most_u});
      case device::Method::touch:
        return launch_steps<kSlots>(leg, TouchMethod{});
      case device::Method::exact:
        break;  // not by slots
    }
  }

  template <int kSlots, class Method>
  void launch_steps(const device::Leg& leg, const Method& method) {
    // Two sizes are enough for methods in double: kernels take long to compile.
    constexpr int kUsed = Method::kInFloat ? kSlots : kSlots <= 4 ? 4 : 32;
    using Kernel = TakeSteps<Method, kUsed, 1>;
    constexpr std::uint32_t kWarps = kThreads / 32;
    constexpr std::size_t kShared = Kernel::kBytes * kWarps;
    const Kernel kernel{.rows = rows_.rows(),
                        .examples = examples(),
                        .matrix = matrix(),
                        .draw = {head_, draws_, matrix().blocks(), cells_.data(), over_mean_.data(),
                                 leg.draw_key, rivals_, rival_.data()},
                        .terms = {leg.first, leg.count, order(leg), leg.step, leg.last_step, leg.rho,
                                  leg.rho_falls, scale_, leg.decay, falling(leg), leg.most_growth},
                        .method = method,
                        .report = report_.data()};
    // A block of threads has a warp for each step that it takes at a time.
    const std::uint64_t beside = std::max<std::uint64_t>(1, std::min<std::uint64_t>(leg.beside, leg.count));
    const auto warps = static_cast<std::uint32_t>(std::min<std::uint64_t>(kWarps, beside));
    const std::uint64_t wanted = std::max<std::uint64_t>(1, beside / warps);
    const auto blocks = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(wanted, runtime_.template resident_blocks<Kernel>(kThreads, kShared)));
    if (wanted > blocks)
      runtime_.launch_beside(kernel, blocks, warps * 32, Kernel::kBytes * warps);
    else
      runtime_.join(), runtime_.launch(kernel, blocks, warps * 32, Kernel::kBytes * warps);
  }

  // A kernel whose threads share `count` things.
  template <class Kernel>
  void spread(std::uint64_t count, const Kernel& kernel) {
    const std::uint64_t wanted = (count + kThreads - 1) / kThreads;
    runtime_.launch(kernel,
                    static_cast<std::uint32_t>(std::min<std::uint64_t>(wanted, runtime_.most_blocks())),
                    kThreads, 0);
  }

  // Multiplies the scale into memory.
  void fold() {
    runtime_.join();
    if (scale_ == 1) return;
    spread(weight_.size(), ScaleWeights{weight_.data(), weight_.size(), static_cast<float>(scale_)});
    if (shrinks_intercept_)
      spread(intercept_.size(),
             ScaleWeights{intercept_.data(), intercept_.size(), static_cast<float>(scale_)});
    scale_ = 1;
  }

  // The blocks that a pass finds: the rivals and the label's.
  static constexpr int kFewRivals = 5, kManyRivals = 33;

  NarrowMatrix narrow() const { return {narrow_.data(), features_}; }

  void prepare_to_learn() {
    const std::size_t numbers =
        std::size_t{NarrowMatrix::wide_blocks(matrix().blocks())} * NarrowMatrix::kClasses * features_;
    if (narrow_.size() != numbers) {
      narrow_ = {runtime_, numbers};
      runtime_.clear(narrow_.data(), numbers * sizeof(Bfloat16));  // of the blocks beyond the last
    }
    const std::vector<std::uint32_t> order = by_length(row_begin_);
    std::vector<std::uint32_t> place(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) place[order[i]] = static_cast<std::uint32_t>(i);
    rows_.order = {runtime_, order};
    place_ = {runtime_, place};
    best_block_ = {runtime_, order.size() * (rivals_ < kFewRivals ? kFewRivals : kManyRivals)};
  }

  template <int kTop>
  void learn_with(std::uint32_t part, std::uint32_t parts) {
    constexpr std::uint32_t kItemsEach = 16;  // of a multiprocessor
    constexpr std::uint64_t kMostScores = std::uint64_t{128} << 20;
    const std::uint32_t blocks = matrix().blocks(), wide = NarrowMatrix::wide_blocks(blocks);
    const std::uint32_t rows = (rows_.row_count() + parts - 1 - part) / parts;
    if (rows == 0) return;
    const auto at_once = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(kMostScores / blocks, 1, rows));
    if (block_score_.size() < std::uint64_t{at_once} * blocks)
      block_score_ = {runtime_, std::size_t{at_once} * blocks};
    const std::uint32_t shares = (runtime_.multiprocessors() * kItemsEach + wide - 1) / wide;
    for (std::uint32_t first = 0; first < rows; first += at_once) {
      const RowsOfPart of{rows_.order.data(), part, parts, first, std::min(at_once, rows - first)};
      runtime_.launch(HighestOfBlocks{rows_.rows(), of, matrix(), narrow(), static_cast<float>(scale_),
                                      shares, block_score_.data()},
                      std::min(wide * shares, runtime_.multiprocessors()), kPassThreads, 0);
      spread(std::uint64_t{of.count} * BestBlocks<kTop>::kThreads,
             BestBlocks<kTop>{of, head_, blocks, block_score_.data(), best_block_.data()});
    }
    spread(rows_.label.size(), RememberRivals{examples(), place_.data(), part, parts, head_, kTop, rivals_,
                                              best_block_.data(), rival_.data()});
  }

  template <int kTop>
  device::Pass pass_with(const RowsThere& there, std::uint32_t top) {
    // Chunks: some for each multiprocessor, so that all end at about the same time.
    constexpr std::uint32_t kChunksEach = 4;
    constexpr std::uint64_t kMostParts = std::uint64_t{512} << 20;
    const std::uint32_t wanted = runtime_.multiprocessors() * kChunksEach;
    const std::uint32_t per_chunk = std::max(1U, (matrix().blocks() + wanted - 1) / wanted);
    const std::uint32_t chunks = (matrix().blocks() + per_chunk - 1) / per_chunk, rows = there.row_count();
    const auto at_once = static_cast<std::uint32_t>(
        std::clamp<std::uint64_t>(kMostParts / ((sizeof(RowPart) + sizeof(BestList<kTop>)) * chunks), 1,
                                  std::max<std::uint32_t>(rows, 1)));
    Array<Runtime, RowPart> part(runtime_, std::size_t{at_once} * chunks);
    Array<Runtime, BestList<kTop>> list(runtime_, std::size_t{at_once} * chunks);
    Array<Runtime, double> highest(runtime_, rows), excess(runtime_, rows),
        labels(runtime_, there.label.size());
    Array<Runtime, Best> best(runtime_, std::size_t{rows} * kTop);
    const auto scale = static_cast<float>(scale_);
    runtime_.join();
    runtime_.start_clock();
    for (std::uint32_t first = 0; first < rows; first += at_once) {
      const std::uint32_t here = std::min(at_once, rows - first);
      runtime_.launch(ScoreChunk<kTop>{there.rows(), there.order.data(), first, here, matrix(), scale,
                                       per_chunk, chunks, part.data(), list.data()},
                      std::min(chunks, runtime_.multiprocessors()), kPassThreads, 0);
      spread(here, JoinChunks<kTop>{there.order.data(), first, here, chunks, part.data(), list.data(),
                                    highest.data(), excess.data(), best.data()});
    }
    if (there.label.size() > 0)
      spread(there.label.size(),
             ScoreLabels{there.rows(), there.row.data_or_null(), there.label.data(), 0,
                         static_cast<std::uint32_t>(there.label.size()), matrix(), scale, labels.data()});
    device::Pass out;
    out.seconds = runtime_.stop_clock();
    out.top = std::min(top, classes_);
    out.highest.resize(rows), out.excess.resize(rows), out.label_score.resize(there.label.size());
    highest.copy_to(out.highest);
    excess.copy_to(out.excess);
    labels.copy_to(out.label_score);
    std::vector<Best> all(std::size_t{rows} * kTop);
    best.copy_to(all);
    for (std::size_t r = 0; r < rows; ++r)
      for (std::uint32_t i = 0; i < out.top; ++i) {
        out.best.push_back(all[r * kTop + i].number);
        out.best_score.push_back(all[r * kTop + i].score);
      }
    return out;
  }

  Runtime runtime_;
  device::Card card_;
  RowsThere rows_;
  Array<Runtime, float> weight_, intercept_, norm_, over_mean_;
  Array<Runtime, double> u_;
  Array<Runtime, Cell> cells_;
  Array<Runtime, StepReport> report_;
  Array<Runtime, std::uint64_t> numbers_;
  Array<Runtime, float> score_, shift_;  // of steps over all classes
  std::uint32_t classes_ = 0, features_ = 0, head_ = 0, draws_ = 0, rivals_ = 0;
  Array<Runtime, std::uint32_t> rival_;
  Array<Runtime, Bfloat16> narrow_;  // W, for passes that find rivals
  Array<Runtime, float> block_score_;
  Array<Runtime, std::uint32_t> best_block_, place_;  // of rows; their places in the order
  std::vector<std::uint64_t> row_begin_;              // on the host
  double scale_ = 1;                                  // W is this times its memory
  bool shrinks_intercept_ = false;
  bool timed_ = false;  // the clock runs
};

}  // namespace truemax::cuda
