// The engine of device/engine.hpp over a Runtime: CUDA's (cuda/engine.cu), or the CPU's for tests
// (cuda/emulated_runtime.hpp). A Runtime allocates, copies, launches kernels and measures time.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/error.hpp"
#include "core/files.hpp"
#include "cuda/pass.hpp"
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

  void upload(const device::HostRows& rows, const device::HostExamples& examples,
              const device::HostWeights& weights, std::span<const double> u, std::span<const float> norms,
              const device::HostDraw& draw) override {
    const std::uint64_t needed = rows.begin.size_bytes() + rows.index.size_bytes() + rows.value.size_bytes() +
                                 examples.row.size_bytes() + examples.label.size_bytes() +
                                 examples.weight.size_bytes() + weights.weight.size_bytes() +
                                 weights.intercept.size_bytes() + u.size_bytes() + norms.size_bytes() +
                                 draw.cells.size() * (sizeof(Cell) + sizeof(float));
    require_room(needed, weights);
    rows_ = RowsThere(runtime_, rows, examples);
    weight_ = {runtime_, std::span<const float>(weights.weight)};
    intercept_ = {runtime_, std::span<const float>(weights.intercept)};
    classes_ = weights.classes, features_ = weights.features, scale_ = 1;
    u_ = {runtime_, u};
    norm_ = {runtime_, norms};
    std::vector<Cell> cells;
    for (const device::AliasCell& cell : draw.cells) cells.push_back({cell.keep, cell.other, 0});
    cells_ = {runtime_, std::span<const Cell>(cells.data(), cells.size())};
    over_mean_ = {runtime_, draw.over_mean};
    head_ = draw.head, draws_ = draw.cells.empty() ? 0 : draw.draws;
    report_ = {runtime_, 1};
    largest_ = {runtime_, 1};
  }

  device::LegReport take(const device::Leg& leg) override {
    const std::uint32_t slots = std::min(head_ + 1 + draws_, matrix().blocks());
    runtime_.clear(report_.data(), sizeof(StepReport));
    runtime_.start_clock();
    if (slots <= 2)
      take_with<2>(leg);
    else if (slots <= 4)
      take_with<4>(leg);
    else if (slots <= 8)
      take_with<8>(leg);
    else if (slots <= 16)
      take_with<16>(leg);
    else if (slots <= 32)
      take_with<32>(leg);
    else
      throw UserError(fmt::format(
          "a step on a GPU takes at most 32 blocks of 16 classes, and this one {}; give a smaller --head or "
          "--classes-per-step",
          slots));
    const double seconds = runtime_.stop_clock();
    scale_ *= std::exp(-leg.decay * static_cast<double>(leg.count));
    constexpr double kLeastScale = 1e-6;
    if (scale_ < kLeastScale) fold();
    StepReport report;
    report_.copy_to({&report, 1});
    return {report.growth, report.refused, report.in_double, seconds};
  }

  void download(const device::HostWeights& weights, std::span<double> u) override {
    fold();
    weight_.copy_to(weights.weight);
    if (!weights.intercept.empty()) intercept_.copy_to(weights.intercept);
    u_.copy_to(u);
  }

  double largest_weight() override {
    fold();
    runtime_.clear(largest_.data(), sizeof(std::uint64_t));
    for (const Array<Runtime, float>* of : {&weight_, &intercept_})
      if (of->size() > 0) spread(of->size(), LargestWeight{of->data(), of->size(), largest_.data()});
    std::uint64_t bits = 0;
    largest_.copy_to({&bits, 1});
    float value;
    const auto low = static_cast<std::uint32_t>(bits);
    std::memcpy(&value, &low, sizeof value);
    return static_cast<double>(value);
  }

  std::unique_ptr<device::Evaluated> add_rows(const device::HostRows& rows,
                                              const device::HostExamples& examples) override {
    auto there = std::make_unique<RowsThere>(runtime_, rows, examples);
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
          index(runtime, rows.index),
          value(runtime, rows.value),
          row(runtime, examples.row),
          label(runtime, examples.label),
          weight(runtime, examples.weight) {}
    Rows rows() const { return {begin.data(), index.data(), value.data()}; }
    std::uint32_t row_count() const { return static_cast<std::uint32_t>(begin.size() - 1); }

    Array<Runtime, std::uint64_t> begin;
    Array<Runtime, std::uint32_t> index;
    Array<Runtime, float> value;
    Array<Runtime, std::uint32_t> row, label;
    Array<Runtime, float> weight;
  };

  static constexpr std::uint32_t kThreads = 256;

  Matrix matrix() const { return {weight_.data(), intercept_.data_or_null(), classes_, features_}; }

  void require_room(std::uint64_t needed, const device::HostWeights& weights) const {
    const std::uint64_t there = runtime_.free_memory();
    if (needed <= there) return;
    throw UserError(fmt::format(
        "not enough memory on {}: the run needs {} and {} are free, because {} classes x {} features, in "
        "blocks "
        "of 16 classes, are {}; keep fewer features (--max-features, --hash-features), learn features "
        "(--hidden), or use --device cpu",
        card_.name, size_text(needed), size_text(there), weights.classes, weights.features,
        size_text(weights.weight.size_bytes())));
  }

  template <int kSlots>
  void take_with(const device::Leg& leg) {
    switch (leg.method) {
      case device::Method::prox:
        return launch_steps<ProxMethod, kSlots>(leg);
      case device::Method::implicit:
        return launch_steps<ImplicitMethod, kSlots>(leg);
    }
  }

  template <class Method, int kSlots>
  void launch_steps(const device::Leg& leg) {
    constexpr int kSteps = 32 / kSlots;
    using Kernel = TakeSteps<Method, kSlots, kSteps>;
    const std::uint64_t per_block = kThreads / kBlock * kSteps;
    const auto count = static_cast<std::uint32_t>(rows_.label.size());
    const Kernel kernel{
        .rows = rows_.rows(),
        .examples = {rows_.row.data_or_null(), rows_.label.data(), rows_.weight.data_or_null(), norm_.data(),
                     u_.data(), count},
        .matrix = matrix(),
        .draw = {head_, draws_, matrix().blocks(), cells_.data(), over_mean_.data(), leg.draw_key},
        .terms = {leg.first, leg.count, RandomPermutation(count, leg.order_key), leg.step, leg.rho, scale_,
                  leg.decay, leg.most_growth},
        .method = {},
        .report = report_.data()};
    const std::uint64_t wanted = (leg.count + per_block - 1) / per_block;
    runtime_.launch(kernel,
                    static_cast<std::uint32_t>(std::min<std::uint64_t>(wanted, runtime_.most_blocks())),
                    kThreads, Kernel::kBytes * (kThreads / kBlock));
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
    if (scale_ == 1) return;
    spread(weight_.size(), ScaleWeights{weight_.data(), weight_.size(), static_cast<float>(scale_)});
    scale_ = 1;
  }

  template <int kTop>
  device::Pass pass_with(const RowsThere& there, std::uint32_t top) {
    // Of one chunk, W should stay in the cache while all rows pass.
    constexpr std::uint64_t kNear = std::uint64_t{16} << 20, kMostParts = std::uint64_t{256} << 20;
    const std::uint64_t block_bytes = std::uint64_t{features_} * kBlock * sizeof(float);
    const auto per_chunk = static_cast<std::uint32_t>(
        std::clamp<std::uint64_t>(kNear / std::max<std::uint64_t>(block_bytes, 1), 1, matrix().blocks()));
    const std::uint32_t chunks = (matrix().blocks() + per_chunk - 1) / per_chunk, rows = there.row_count();
    const auto at_once = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(
        kMostParts / (sizeof(RowPart<kTop>) * chunks), 1, std::max<std::uint32_t>(rows, 1)));
    Array<Runtime, RowPart<kTop>> part(runtime_, std::size_t{at_once} * chunks);
    Array<Runtime, double> highest(runtime_, rows), excess(runtime_, rows),
        labels(runtime_, there.label.size());
    Array<Runtime, Best> best(runtime_, std::size_t{rows} * kTop);
    const auto scale = static_cast<float>(scale_);
    runtime_.start_clock();
    for (std::uint32_t first = 0; first < rows; first += at_once) {
      const std::uint32_t here = std::min(at_once, rows - first);
      const std::uint64_t groups = std::uint64_t{here} * chunks * kBlock;
      spread(groups,
             ScoreChunk<kTop>{there.rows(), first, here, matrix(), scale, per_chunk, chunks, part.data()});
      spread(here, JoinChunks<kTop>{here, chunks, part.data(), highest.data() + first, excess.data() + first,
                                    best.data() + std::size_t{first} * kTop});
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
  Array<Runtime, std::uint64_t> largest_;
  std::uint32_t classes_ = 0, features_ = 0, head_ = 0, draws_ = 0;
  double scale_ = 1;  // W is this times its memory
};

}  // namespace truemax::cuda
