// The layer of the C interface: what it refuses, and that it trains.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "truemax/c.h"

namespace truemax {
namespace {

using ::testing::HasSubstr;

// A small layer with its arrays and one batch.
struct LayerCase {
  static constexpr std::uint64_t kClasses = 50, kFeatures = 4, kRows = 20;

  explicit LayerCase(tmx_layer_draw draw = TMX_DRAW_RECENT, std::uint64_t drawn = 10) {
    options.size = sizeof options;
    options.classes = kClasses, options.features = kFeatures, options.drawn = drawn, options.draw = draw;
    options.counts = counts.data(), options.rho = 0.3, options.threads = 1;
    arrays.size = sizeof arrays;
    arrays.device = -1, arrays.type = TMX_FLOAT32;
    arrays.weight = weight.data(), arrays.weight_stride = kFeatures * sizeof(float);
    arrays.bias = bias.data(), arrays.moments = moments.data(), arrays.columns = columns.data(),
    arrays.u = u.data(), arrays.rows = kRows;
    arrays.recent = recent.data(), arrays.recent_size = recent.size();
    arrays.recent_count = recent_count.data(), arrays.counters = counters.data();
    std::mt19937 random(1);
    std::normal_distribution<double> normal;
    for (std::size_t i = 0; i < kRows; ++i) {
      target[i] = index[i] = static_cast<std::int64_t>(i);
      for (std::size_t c = 0; c < kFeatures; ++c) x[i * kFeatures + c] = static_cast<float>(normal(random));
    }
    batch.size = sizeof batch;
    batch.rows = kRows, batch.x = x.data(), batch.x_stride = kFeatures * sizeof(float);
    batch.target = target.data(), batch.ignore_index = -100, batch.index = index.data();
  }
  ~LayerCase() {
    tmx_pass_free(pass);
    tmx_layer_free(layer);
  }
  LayerCase(const LayerCase&) = delete;
  LayerCase& operator=(const LayerCase&) = delete;

  tmx_status create() { return tmx_layer_create(&options, &layer); }
  tmx_status forward() { return tmx_layer_forward(layer, &arrays, &batch, loss.data(), &pass); }
  tmx_status look() { return tmx_layer_forward(layer, &arrays, &batch, loss.data(), nullptr); }
  tmx_status backward() {
    return tmx_layer_backward(&arrays, pass, gradient.data(), 0.1, dx.data(), kFeatures * sizeof(float));
  }
  tmx_status nll() { return tmx_layer_nll(layer, &arrays, &batch, exact.data()); }
  double mean_nll() {
    EXPECT_EQ(nll(), TMX_OK) << tmx_message();
    double sum = 0;
    for (const double l : exact) sum += l;
    return sum / kRows;
  }

  std::vector<double> counts = std::vector<double>(kClasses, 1), exact = std::vector<double>(kRows);
  std::vector<float> weight = std::vector<float>(kClasses * kFeatures), bias = std::vector<float>(kClasses),
                     moments = std::vector<float>(6 * kClasses), columns = std::vector<float>(2 * kFeatures),
                     u = std::vector<float>(kRows, std::numeric_limits<float>::quiet_NaN()),
                     x = std::vector<float>(kRows * kFeatures), loss = std::vector<float>(kRows),
                     gradient = std::vector<float>(kRows, 1), dx = std::vector<float>(kRows * kFeatures);
  std::vector<std::int32_t> recent = std::vector<std::int32_t>(64),
                            recent_count = std::vector<std::int32_t>(kClasses);
  std::vector<std::int64_t> counters = std::vector<std::int64_t>(2),
                            target = std::vector<std::int64_t>(kRows),
                            index = std::vector<std::int64_t>(kRows);
  tmx_layer_options options{};
  tmx_layer_arrays arrays{};
  tmx_layer_batch batch{};
  tmx_layer* layer = nullptr;
  tmx_pass* pass = nullptr;
};

TEST(CLayer, TrainsWithEveryDraw) {
  for (const tmx_layer_draw draw : {TMX_DRAW_UNIFORM, TMX_DRAW_COUNTS, TMX_DRAW_RECENT}) {
    LayerCase c(draw);
    ASSERT_EQ(c.create(), TMX_OK) << tmx_message();
    EXPECT_NEAR(c.mean_nll(), std::log(50.0), 1e-5);
    for (int t = 0; t < 200; ++t) {
      ASSERT_EQ(c.forward(), TMX_OK) << tmx_message();
      ASSERT_EQ(c.backward(), TMX_OK) << tmx_message();
      tmx_pass_free(std::exchange(c.pass, nullptr));
    }
    EXPECT_LT(c.mean_nll(), 1.0);
    EXPECT_EQ(c.counters[0], 200);
    std::vector<std::int64_t> classes(3 * LayerCase::kRows);
    std::vector<double> log_p(classes.size());
    ASSERT_EQ(tmx_layer_top(c.layer, &c.arrays, &c.batch, 3, classes.data(), log_p.data()), TMX_OK);
    int right = 0;
    for (std::size_t i = 0; i < LayerCase::kRows; ++i) right += classes[3 * i] == c.target[i] ? 1 : 0;
    EXPECT_GT(right, 15);
  }
}

TEST(CLayer, APassOutlivesItsLayerAndIsUsedOnce) {
  LayerCase c;
  ASSERT_EQ(c.create(), TMX_OK);
  ASSERT_EQ(c.forward(), TMX_OK);
  tmx_layer_free(std::exchange(c.layer, nullptr));
  EXPECT_EQ(c.backward(), TMX_OK) << tmx_message();
  EXPECT_EQ(c.backward(), TMX_BAD_INPUT);
  EXPECT_THAT(tmx_message(), HasSubstr("has been trained on already"));
}

TEST(CLayer, RefusesWhatItCannotUse) {
  const auto refused = [](auto change, const char* words, auto call) {
    LayerCase c;
    ASSERT_EQ(c.create(), TMX_OK) << tmx_message();
    ASSERT_EQ(c.forward(), TMX_OK) << tmx_message();
    const std::vector<float> before = c.weight;
    change(c);
    EXPECT_EQ(call(c), TMX_BAD_INPUT) << words;
    EXPECT_THAT(tmx_message(), HasSubstr(words));
    EXPECT_EQ(c.weight, before);
  };
  const auto forward = [](LayerCase& c) { return c.look(); };
  const auto backward = [](LayerCase& c) { return c.backward(); };
  const auto nll = [](LayerCase& c) { return c.nll(); };
  for (const auto& call : {+[](LayerCase& c) { return c.look(); }, +[](LayerCase& c) { return c.backward(); },
                           +[](LayerCase& c) { return c.nll(); }}) {
    refused([](LayerCase& c) { c.arrays.size = 8; }, "tmx_layer_arrays.size is 8", call);
    refused([](LayerCase& c) { c.arrays.device = 0; }, "device is 0; only the CPU", call);
    refused([](LayerCase& c) { c.arrays.stream = &c; }, "stream is not NULL", call);
    refused([](LayerCase& c) { c.arrays.type = TMX_FLOAT64; }, "type is not TMX_FLOAT32", call);
    refused([](LayerCase& c) { c.arrays.weight = nullptr; }, "an argument is NULL", call);
    refused([](LayerCase& c) { c.arrays.weight_stride = 15; }, "weight_stride is 15 bytes", call);
  }
  for (const auto& call : {+[](LayerCase& c) { return c.look(); }, +[](LayerCase& c) { return c.nll(); }}) {
    refused([](LayerCase& c) { c.batch.size = 0; }, "tmx_layer_batch.size is 0", call);
    refused([](LayerCase& c) { c.batch.x = nullptr; }, "an argument is NULL", call);
    refused([](LayerCase& c) { c.batch.x_stride = -16; }, "x_stride is -16 bytes", call);
    refused([](LayerCase& c) { c.batch.target = nullptr; }, "an argument is NULL", call);
    refused([](LayerCase& c) { c.batch.rows = std::uint64_t{1} << 40; }, "at most 4294967295", call);
    refused([](LayerCase& c) { c.target[3] = 50; }, "target is 50 in row 3", call);
    refused([](LayerCase& c) { c.x[5] = NAN; }, "x is NaN in row 1, column 1", call);
  }
  refused([](LayerCase& c) { c.index[3] = -1; }, "index is -1 in row 3", forward);
  refused([](LayerCase& c) { c.arrays.rows = 0; }, "index is 0 in row 0; the layer has 0 rows", forward);
  refused([](LayerCase& c) { c.arrays.u = nullptr; }, "an argument is NULL", forward);
  refused([](LayerCase& c) { c.arrays.recent = nullptr; }, "an argument is NULL", forward);
  refused([](LayerCase& c) { c.arrays.recent_size = 0; }, "recent_size is 0", forward);
  refused([](LayerCase& c) { c.counters[0] = -5; }, "counters are -5 and 0", forward);
  refused([](LayerCase& c) { c.arrays.moments = nullptr; }, "an argument is NULL", backward);
  refused([](LayerCase& c) { c.arrays.columns = nullptr; }, "an argument is NULL", backward);
  refused([](LayerCase& c) { c.gradient[2] = INFINITY; }, "the gradient of the loss is inf in row 2",
          backward);
  refused([](LayerCase& c) { c.bias[49] = NAN; }, "the weights of class 49 are not finite", nll);
  LayerCase c;
  c.options.draw = static_cast<tmx_layer_draw>(3);
  EXPECT_EQ(c.create(), TMX_BAD_INPUT);
  c.options.draw = TMX_DRAW_COUNTS, c.options.counts = nullptr;
  EXPECT_EQ(c.create(), TMX_BAD_INPUT);
  c.options.classes = 0;
  EXPECT_EQ(c.create(), TMX_BAD_INPUT);
  EXPECT_EQ(tmx_layer_create(nullptr, &c.layer), TMX_BAD_INPUT);
  EXPECT_EQ(tmx_layer_forward(nullptr, &c.arrays, &c.batch, c.loss.data(), nullptr), TMX_BAD_INPUT);
  EXPECT_EQ(tmx_layer_backward(&c.arrays, nullptr, nullptr, 1, nullptr, 0), TMX_BAD_INPUT);
  tmx_layer_free(nullptr);
  tmx_pass_free(nullptr);
}

// A pass knows rows and classes of its forward: other arrays are refused before anything is read or written.
TEST(CLayer, BackwardRefusesOtherArraysThanThoseOfForward) {
  const auto refused = [](auto change, const char* words) {
    LayerCase c;
    ASSERT_EQ(c.create(), TMX_OK) << tmx_message();
    ASSERT_EQ(c.forward(), TMX_OK) << tmx_message();
    const tmx_layer_arrays good = c.arrays;
    std::vector<float> small_u(2, 42.0F);
    change(c, small_u);
    EXPECT_EQ(c.backward(), TMX_BAD_INPUT) << words;
    EXPECT_THAT(tmx_message(), HasSubstr(words));
    EXPECT_EQ(small_u, std::vector<float>(2, 42.0F));
    for (const float u : c.u) EXPECT_TRUE(std::isnan(u));
    for (const std::vector<float>* zeros : {&c.weight, &c.bias, &c.moments, &c.columns, &c.dx})
      EXPECT_EQ(*zeros, std::vector<float>(zeros->size()));
    EXPECT_EQ(c.counters, std::vector<std::int64_t>(2));
    c.arrays = good;
    EXPECT_EQ(c.backward(), TMX_OK) << "the pass is still good: " << tmx_message();
  };
  using Floats = std::vector<float>;
  refused([](LayerCase& c, Floats& u) { c.arrays.u = u.data(), c.arrays.rows = 2; },
          "u has 2 rows, and had 20 in forward; give backward the arrays of its forward");
  refused([](LayerCase& c, Floats&) { c.arrays.u = nullptr, c.arrays.rows = 0; }, "u has 0 rows");
  refused([](LayerCase& c, Floats&) { c.arrays.u = nullptr; }, "an argument is NULL");
  refused([](LayerCase& c, Floats&) { c.arrays.rows = 21; }, "u has 21 rows");
  refused([](LayerCase& c, Floats&) { c.arrays.bias = nullptr; },
          "there is no bias, and there was one in forward");
  refused([](LayerCase& c, Floats&) { c.arrays.weight_stride = 64; },
          "the classes of weight are 16 numbers apart, and were 4 in forward");
  refused([](LayerCase& c, Floats&) { c.arrays.recent_size = 63; },
          "recent has room for 63 labels, and had for 64 in forward");
  refused([](LayerCase& c, Floats&) { c.arrays.recent_count = nullptr; }, "an argument is NULL");
  refused([](LayerCase& c, Floats&) { c.arrays.counters = nullptr; }, "an argument is NULL");
  LayerCase c;
  c.arrays.bias = nullptr;
  ASSERT_EQ(c.create(), TMX_OK);
  ASSERT_EQ(c.forward(), TMX_OK);
  c.arrays.bias = c.bias.data();
  EXPECT_EQ(c.backward(), TMX_BAD_INPUT);
  EXPECT_THAT(tmx_message(), HasSubstr("there is a bias, and there was none in forward"));
}

TEST(CLayer, AStepThatWouldLeaveFloat32IsNotTaken) {
  LayerCase c;
  ASSERT_EQ(c.create(), TMX_OK);
  ASSERT_EQ(c.forward(), TMX_OK);
  EXPECT_EQ(tmx_layer_backward(&c.arrays, c.pass, c.gradient.data(), 1e14, nullptr, 0), TMX_DIVERGED);
  EXPECT_THAT(tmx_message(), HasSubstr("use a smaller step"));
  EXPECT_EQ(c.weight, std::vector<float>(c.weight.size()));
  EXPECT_EQ(c.backward(), TMX_OK) << "a smaller step may follow";
}

TEST(CLayer, SeveralThreadsMayUseOneLayer) {
  LayerCase c;
  ASSERT_EQ(c.create(), TMX_OK);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&c] {
      std::vector<float> loss(LayerCase::kRows);
      for (int i = 0; i < 50; ++i) {
        tmx_pass* pass = nullptr;
        ASSERT_EQ(tmx_layer_forward(c.layer, &c.arrays, &c.batch, loss.data(), &pass), TMX_OK);
        tmx_pass_free(pass);
      }
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace truemax
