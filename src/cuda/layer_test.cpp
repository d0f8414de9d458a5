// The kernels of the layer, run on the CPU, against the CPU's layer. tests/test_torch_cuda.py compares both
// through Python, with all reductions and types.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "cuda/layer_run.hpp"
#include "layer/layer.hpp"
#include "layer/layer_oracle.hpp"

namespace truemax::cuda {
namespace {

struct Launcher {
  std::uint64_t processors() const { return 3; }
  template <class Kernel>
  void launch(const Kernel& kernel, std::uint32_t blocks, std::uint32_t threads, std::size_t shared_bytes) {
    run_emulated(blocks, threads, shared_bytes, kernel);
  }
};

// What python/truemax/_card.py does: memory, and the products between the kernels, all in float32.
class CardLayer {
 public:
  CardLayer(TestLayer& layer, const LayerOptions& options, std::size_t most_rows)
      : layer_(layer), d_(options.features), rows_(most_rows) {
    const std::size_t drawn = std::min(options.drawn, options.classes);
    slots_ = (drawn + kSlotsAtOnce - 1) / kSlotsAtOnce * kSlotsAtOnce;
    layer.counters.resize(3);
    layer.counters[2] = 1;  // the seed of LayerArrays
    call.size = sizeof(LayerCall), call.classes = options.classes, call.features = d_, call.slots = slots_;
    call.drawn = drawn, call.splits = 1, call.rho = options.rho, call.ignore_index = -100;
    call.draw = CallDraw::uniform;
    if (options.draw == LayerDraw::counts) {
      const std::vector<double> q = mixed_probabilities(options.counts, 1, kLayerUniformShare);
      const AliasTable table(q);
      cells_.assign(table.cells().begin(), table.cells().end());
      probability_ = doubles(q.size());
      std::copy(q.begin(), q.end(), probability_);
      call.draw = CallDraw::counts, call.cells = cells_.data(), call.probability = probability_;
    } else if (options.draw == LayerDraw::recent) {
      call.draw = CallDraw::recent;
      call.recent = layer.recent.data(), call.recent_size = layer.recent.size();
      call.recent_count = layer.recent_count.data();
    }
    if (drawn == options.classes) call.draw = CallDraw::all;
    call.weight = layer.weight.data(), call.weight_stride = static_cast<std::int64_t>(layer.stride);
    call.bias = layer.bias.empty() ? nullptr : layer.bias.data();
    call.moments = layer.moments.data(), call.columns = layer.columns.data(), call.u = layer.u.data();
    call.u_rows = layer.u.size(), call.counters = layer.counters.data();
    call.x_copy = floats(rows_ * d_), call.label_w = floats(rows_ * d_), call.drawn_w = floats(slots_ * d_);
    call.offset = floats(slots_), call.drawn_class = wholes(slots_);
    call.label = wholes(rows_), call.place = wholes(rows_), call.rows_of = wholes(rows_);
    for (float** array :
         {&call.label_score, &call.sum_p, &call.share, &call.new_u, &call.base, &call.label_bias, &call.loss})
      *array = floats(rows_);
    call.label_gradient = floats(rows_ * d_), call.column_p = floats(slots_);
    call.p = call.scores = floats(rows_ * slots_);
    call.total_loss = floats(1), call.counted = wholes(1), call.rank = wholes(rows_);
    call.gradient = floats(slots_ * d_), call.column_sums = floats(2 * d_), call.direction = floats(2 * d_);
    call.slot_of = slot_of_.data();
    call.scalars = &scalars_, call.fault = &fault;
  }

  // Returns the losses. `gradient`: of each row's loss, or null: the objective is their mean.
  std::vector<float> step(const LayerBatch& batch, const float* gradient, double step, float* dx) {
    Launcher launcher;
    LayerRun<Launcher> run(call, launcher);
    call.x = batch.x, call.x_stride = batch.x_stride, call.rows = batch.rows;
    call.target = batch.target, call.index = batch.index;
    call.reduction = gradient == nullptr ? CallReduction::mean : CallReduction::none;
    const float one = 1;
    call.gradient_in = gradient == nullptr ? &one : gradient;
    call.step = &step, call.dx = dx;
    const auto *x = static_cast<const float*>(call.x_copy), *w = static_cast<const float*>(call.drawn_w);
    auto* const p = static_cast<float*>(call.p);
    run.take();
    for (std::size_t i = 0; i < batch.rows; ++i)
      for (std::size_t j = 0; j < slots_; ++j) {
        double sum = 0;
        for (std::size_t c = 0; c < d_; ++c) sum += double{x[i * d_ + c]} * double{w[j * d_ + c]};
        p[i * slots_ + j] = static_cast<float>(sum);
      }
    run.estimate();
    std::vector<float> loss(call.loss, call.loss + batch.rows);
    if (gradient != nullptr) run.scale();
    for (std::size_t j = 0; j < slots_; ++j)
      for (std::size_t c = 0; c < d_; ++c) {
        double sum = 0;
        for (std::size_t i = 0; i < batch.rows; ++i) sum += double{p[i * slots_ + j]} * double{x[i * d_ + c]};
        static_cast<float*>(call.gradient)[j * d_ + c] = static_cast<float>(sum);
      }
    for (std::size_t i = 0; i < batch.rows; ++i)
      for (std::size_t c = 0; c < d_; ++c) {
        double sum = 0;
        for (std::size_t j = 0; j < slots_; ++j) sum += double{p[i * slots_ + j]} * double{w[j * d_ + c]};
        dx[i * d_ + c] = static_cast<float>(sum);
      }
    run.move();
    return loss;
  }

  LayerCall call{};
  FaultReport fault{};

 private:
  float* floats(std::size_t n) { return floats_.emplace_back(n + 4).data(); }
  double* doubles(std::size_t n) { return doubles_.emplace_back(n).data(); }
  std::int32_t* wholes(std::size_t n) { return wholes_.emplace_back(n + 4).data(); }

  TestLayer& layer_;
  std::size_t d_, rows_, slots_ = 0;
  std::vector<std::vector<float>> floats_;
  std::vector<std::vector<double>> doubles_;
  std::vector<std::vector<std::int32_t>> wholes_;
  std::vector<AliasTable::Cell> cells_;
  double* probability_ = nullptr;
  std::vector<std::uint64_t> slot_of_ = std::vector<std::uint64_t>(layer_.classes);
  CallScalars scalars_{};
};

// Relative to the largest number. NaN equals NaN.
double difference(std::span<const float> a, std::span<const float> b) {
  double most = 0, scale = 1e-30;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) return std::numeric_limits<double>::infinity();
    most = std::max(most, std::abs(double{a[i]} - double{b[i]}));
    scale = std::max(scale, std::abs(double{a[i]}));
  }
  return most / scale;
}

struct Case {
  LayerDraw draw;
  std::size_t classes, features, drawn;
  double rho = 0.1, scale = 1;
  bool bias = true, index = true, means = false;
};

void expect_the_steps_of_the_cpu(const Case& c, double tolerance) {
  constexpr std::size_t kRows = 30;
  LayerOptions options;
  options.classes = c.classes, options.features = c.features, options.drawn = c.drawn, options.draw = c.draw;
  options.rho = c.rho;
  if (c.draw == LayerDraw::counts)
    for (std::size_t k = 0; k < c.classes; ++k) options.counts.push_back(static_cast<double>(k % 7));
  TestLayer wanted(c.classes, c.features, kRows, c.bias, 3, 0.3), found = wanted;
  Layer cpu(options);
  CardLayer card(found, options, kRows);
  for (unsigned number = 0; number < 4; ++number) {
    TestBatch batch(kRows, c.features, c.classes, 10 + number, c.scale);
    batch.target[2] = batch.target[9] = -100;
    batch.target[5] = batch.target[6] = batch.target[7] = 3;
    batch.gradient[7] = -0.5F, batch.gradient[8] = 0;
    if (c.means) {
      for (float& g : batch.gradient) g = 1.0F / (kRows - 2);
    }
    std::vector<float> loss(kRows), dx(kRows * c.features), dx_found(kRows * c.features);
    auto pass = cpu.forward(wanted.arrays(), batch.batch(c.index), loss.data());
    cpu.backward(wanted.arrays(), *pass, batch.gradient.data(), 0.01, dx.data(),
                 static_cast<std::ptrdiff_t>(c.features));
    const std::vector<float> loss_found =
        card.step(batch.batch(c.index), c.means ? nullptr : batch.gradient.data(), 0.01, dx_found.data());
    EXPECT_LT(difference(loss, loss_found), tolerance) << "loss of step " << number;
    EXPECT_LT(difference(dx, dx_found), tolerance) << "dx of step " << number;
  }
  EXPECT_EQ(card.fault.kind, 0);
  EXPECT_LT(difference(wanted.weight, found.weight), tolerance);
  EXPECT_LT(difference(wanted.bias, found.bias), tolerance);
  EXPECT_LT(difference(wanted.u, found.u), tolerance);
  EXPECT_LT(difference(wanted.columns, found.columns), tolerance);
  EXPECT_EQ(wanted.counters[0], found.counters[0]);
  if (c.draw == LayerDraw::recent) {
    EXPECT_EQ(wanted.counters[1], found.counters[1]);
    EXPECT_EQ(wanted.recent, found.recent);
    EXPECT_EQ(wanted.recent_count, found.recent_count);
  }
}

TEST(CudaLayer, TakesTheStepsOfTheCpu) {
  for (const LayerDraw draw : {LayerDraw::uniform, LayerDraw::counts, LayerDraw::recent})
    for (const std::size_t features : {1U, 7U, 16U, 264U}) {
      SCOPED_TRACE(testing::Message() << "draw " << static_cast<int>(draw) << ", D = " << features);
      expect_the_steps_of_the_cpu({draw, 100, features, 20}, 1e-5);
      expect_the_steps_of_the_cpu({draw, 100, features, 99, 0.3, 1, false, true, true}, 1e-5);
    }
  expect_the_steps_of_the_cpu({LayerDraw::uniform, 1000, 512, 600, 0.1, 1, true, true, true}, 1e-5);
  expect_the_steps_of_the_cpu({LayerDraw::uniform, 100, 1032, 20, 0.1, 1, true, true, true}, 1e-5);
  expect_the_steps_of_the_cpu({LayerDraw::uniform, 40, 16, 40}, 1e-5);
  expect_the_steps_of_the_cpu({LayerDraw::uniform, 100, 16, 20, 0.1, 1, true, false}, 1e-5);
  expect_the_steps_of_the_cpu({LayerDraw::uniform, 100, 16, 20, std::numeric_limits<double>::infinity()},
                              1e-5);
}

TEST(CudaLayer, TakesExtremeRows) {
  for (const double scale : {1e-30, 1e-6, 1e3})
    expect_the_steps_of_the_cpu({LayerDraw::uniform, 100, 16, 20, 0.1, scale}, 5e-5);
}

TEST(CudaLayer, LeavesOutRowsThatCannotBeUsed) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Fault kind : {Fault::target, Fault::index, Fault::x}) {
    LayerOptions options;
    options.classes = 100, options.features = 16, options.drawn = 20;
    TestLayer with(100, 16, 30, true, 3), without = with;
    CardLayer bad(with, options, 30), good(without, options, 30);
    TestBatch batch(30, 16, 100, 4), ignored = batch;
    ignored.target[4] = -100;
    if (kind == Fault::target) batch.target[4] = 100;
    if (kind == Fault::index) batch.index[4] = 30;
    if (kind == Fault::x) batch.x[4 * 16 + 5] = nan;
    std::vector<float> dx(30 * 16), dx_good(30 * 16);
    const std::vector<float> loss = bad.step(batch.batch(true), nullptr, 0.01, dx.data());
    EXPECT_EQ(difference(loss, good.step(ignored.batch(true), nullptr, 0.01, dx_good.data())), 0);
    EXPECT_EQ(difference(dx, dx_good), 0);
    EXPECT_EQ(difference(with.weight, without.weight), 0);
    EXPECT_EQ(bad.fault.kind, static_cast<std::int64_t>(kind));
    EXPECT_EQ(bad.fault.row, 4);
    EXPECT_EQ(good.fault.kind, 0);
  }
}

TEST(Numbers, AreRoundedToBfloat16) {
  std::mt19937 random(1);
  for (int i = 0; i < 100'000; ++i) {
    const float x = float_of(static_cast<std::uint32_t>(random()));
    if (!finite(x) || std::abs(x) > 3e38F) continue;
    const float down = float_of(bits_of(x) & 0xFFFF0000U),
                up = float_of((bits_of(x) & 0xFFFF0000U) + 0x10000U);
    const float near = wide(narrow<Bfloat16>(x));
    ASSERT_TRUE(near == down || near == up) << x;
    ASSERT_LE(std::abs(double{near} - double{x}),
              std::min(std::abs(double{up} - double{x}), std::abs(double{down} - double{x})))
        << x;
    const float some = wide(narrow_at_random<Bfloat16>(x, static_cast<std::uint32_t>(random())));
    ASSERT_TRUE(some == down || some == up) << x;
  }
}

TEST(Numbers, AreRoundedAtRandomWithoutBias) {
  for (const float x : {1.0F, 1.0001F, -0.3F, 1e-20F, 7e30F}) {
    double sum = 0;
    for (std::uint32_t random = 0; random < 65536; ++random)
      sum += double{wide(narrow_at_random<Bfloat16>(x, random))};
    EXPECT_NEAR(sum / 65536 / double{x}, 1, 1e-7);
  }
}

}  // namespace
}  // namespace truemax::cuda
