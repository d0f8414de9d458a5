#include "layer/layer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/error.hpp"
#include "core/random.hpp"
#include "draw/recent.hpp"
#include "layer/exact.hpp"

namespace truemax {
namespace {

constexpr std::size_t kMostSpare = 4;  // passes

std::unique_ptr<Draw> draw_of(const LayerOptions& options) {
  if (options.drawn >= options.classes || options.draw == LayerDraw::recent) return nullptr;
  DrawOptions of_draw;
  of_draw.uniform_share = kLayerUniformShare;
  return make_draw({.name = options.draw == LayerDraw::uniform ? "uniform" : "frequency",
                    .classes = options.classes,
                    .classes_per_step = options.drawn,
                    .shared = true,
                    .label_mass = options.counts,
                    .options = of_draw});
}

LayerOptions checked(LayerOptions options) {
  options.check();
  return options;
}

}  // namespace

void LayerOptions::check_sizes() const {
  constexpr std::size_t kMostClasses = std::numeric_limits<std::int32_t>::max(), kMostFeatures = 1'000'000;
  constexpr double kLeastRho = 1e-9;
  if (classes < 1 || classes > kMostClasses)
    throw UserError(fmt::format("there are {} classes; give a number from 1 to {}", classes, kMostClasses));
  if (features < 1 || features > kMostFeatures)
    throw UserError(
        fmt::format("there are {} features; give a number from 1 to {}", features, kMostFeatures));
  if (drawn < 1) throw UserError("no class is drawn; draw at least 1");
  if (!(rho >= kLeastRho))
    throw UserError(fmt::format("rho is {}; give a number of at least {:.0e}, or infinity", rho, kLeastRho));
}

void LayerOptions::check() const {
  check_sizes();
  if (draw != LayerDraw::counts) return;
  if (counts.size() != classes)
    throw UserError(
        fmt::format("there are {} counts; give one for each of the {} classes", counts.size(), classes));
  for (std::size_t k = 0; k < counts.size(); ++k)
    if (!(counts[k] >= 0) || std::isinf(counts[k]))
      throw UserError(
          fmt::format("the count of class {} is {}; give a finite number of at least 0", k, counts[k]));
}

Layer::Layer(LayerOptions options)
    : options_(checked(std::move(options))), draw_(draw_of(options_)), team_(options_.threads) {
  // The draw has what it needs of them.
  std::vector<double>().swap(options_.counts);
  drawn_.resize(std::min(options_.drawn, options_.classes));
  drawn_weight_.resize(drawn_.size());
  words_.resize(draw_ != nullptr ? draw_->words() : RecentLabels::words(drawn_.size()));
}

Layer::~Layer() = default;

// drawn_ and drawn_weight_ of the next step, as a function of the steps so far.
void Layer::draw(const LayerArrays& arrays) {
  if (complete()) {
    drawn_.resize(options_.classes);
    std::iota(drawn_.begin(), drawn_.end(), ClassId{0});
    drawn_weight_.assign(options_.classes, 1.0);
    return;
  }
  const CounterRandom random(arrays.seed, Stream::draw, 0);
  const std::uint64_t blocks = (words_.size() + 3) / 4;
  RandomWords words(random, static_cast<std::uint64_t>(arrays.counters[0]) * blocks * 4);
  for (std::uint64_t& word : words_) word = words.next();
  const std::size_t most = draw_ != nullptr ? draw_->most_classes() : options_.drawn;
  drawn_.resize(most);
  drawn_weight_.resize(most);
  std::size_t count = 0;
  if (draw_ != nullptr) {
    count = draw_->step(words_, kUnseenClass, ExampleId{0}, drawn_.data(), drawn_weight_.data());
  } else {
    const RecentLabels recent{{arrays.recent, arrays.recent_size},
                              {arrays.recent_count, options_.classes},
                              static_cast<std::uint64_t>(arrays.counters[1])};
    count = recent.draw(words_, kLayerUniformShare, drawn_.data(), drawn_weight_.data());
  }
  drawn_.resize(count);
  drawn_weight_.resize(count);
}

std::unique_ptr<LayerPass> Layer::forward(const LayerArrays& arrays, const LayerBatch& batch, float* loss) {
  const std::lock_guard lock(in_use_);
  std::unique_ptr<LayerPass> pass;
  if (spare_.empty()) {
    pass = std::make_unique<LayerPass>();
  } else {
    pass = std::move(spare_.back());
    spare_.pop_back();
  }
  pass->take_rows({options_.classes, options_.features, options_.rho, complete()}, arrays, batch, team_);
  draw(arrays);
  pass->score(arrays, drawn_, drawn_weight_, work_, team_);
  pass->losses(loss);
  return pass;
}

void Layer::backward(const LayerArrays& arrays, LayerPass& pass, const float* gradient, double step,
                     float* dx, std::ptrdiff_t dx_stride) {
  const std::lock_guard lock(in_use_);
  if (!(step >= 0) || std::isinf(step))
    throw UserError(fmt::format("step is {}; give a finite number of at least 0", step));
  pass.require_same_shapes(arrays);
  if (!pass.differentiate(arrays, gradient, step, dx, dx_stride, work_, team_)) return;
  pass.move(arrays, step, work_, team_);
  if (options_.draw == LayerDraw::recent) {
    RecentLabels recent{{arrays.recent, arrays.recent_size},
                        {arrays.recent_count, options_.classes},
                        static_cast<std::uint64_t>(arrays.counters[1])};
    pass.each_label([&](ClassId y) { recent.add(y); });
    arrays.counters[1] = static_cast<std::int64_t>(recent.seen);
  }
  ++arrays.counters[0];
}

void Layer::recycle(std::unique_ptr<LayerPass> pass) {
  const std::lock_guard lock(in_use_);
  if (spare_.size() < kMostSpare) spare_.push_back(std::move(pass));
}

void Layer::nll(const LayerArrays& arrays, const LayerBatch& batch, double* loss) {
  const std::lock_guard lock(in_use_);
  exact_nll(options_.classes, options_.features, arrays, batch, loss, team_);
}

void Layer::top(const LayerArrays& arrays, const LayerBatch& batch, std::size_t top, std::int64_t* classes,
                double* log_probability) {
  const std::lock_guard lock(in_use_);
  exact_top(options_.classes, options_.features, arrays, batch, top, classes, log_probability, team_);
}

}  // namespace truemax
