#include <algorithm>
#include <cmath>

#include "core/parallel.hpp"
#include "train/companion.hpp"
#include "train/norms.hpp"
#include "train/rivals.hpp"
#include "train/step_hook.hpp"
#include "weights/pass.hpp"

namespace truemax {
namespace {

// A method that projects W on a ball tracks |w_k|^2 of all classes.
class NormHook final : public StepHook {
 public:
  explicit NormHook(double bound) : bound_(bound) {}

  bool start_epoch(RunState& state, const std::atomic<bool>& /*stop*/,
                   const StepSchedule& /*plan*/) override {
    Norms::recompute(state.norms, state.weights);
    return true;
  }
  // A projection makes all scales smaller at once.
  void before_scores(RunState& state, const StepWork& work) override {
    for (const ClassId k : work.a.classes) state.weights.settle(k);
  }
  void before_apply(RunState& state, const StepWork& work) override {
    Norms::update(state.norms, work.view, work.a, state.weights);
  }
  void after_apply(RunState& state, const StepWork& /*work*/) override {
    Norms::project(state.norms, state.weights, bound_);
  }

 private:
  double bound_;
};

// Smoothed weights of the composition method.
class CompanionHook final : public StepHook {
 public:
  CompanionHook(const LaneSetup& setup, const StepShape& shape) : setup_(setup) {
    smoothed_.reserve(shape.rows * shape.columns);
    minus_.reserve(shape.columns);
  }

  void before_solve(RunState& state, StepWork& work) override {
    const std::vector<ClassId>& classes = work.a.classes;
    const std::size_t columns = classes.size();
    for (const ClassId k : classes) Companion::touch(state.companion, setup_.data, k);
    smoothed_.resize(work.view.rows * columns);
    for (std::size_t i = 0; i < work.view.rows; ++i) {
      scores(state.companion.difference, work.a.x[i], classes, &smoothed_[i * columns]);
      for (std::size_t c = 0; c < columns; ++c) smoothed_[i * columns + c] += work.a.score[i * columns + c];
    }
    work.view.smoothed = smoothed_.data();
  }

  // An update of w by c x is one of the difference by -c x.
  void after_apply(RunState& state, const StepWork& work) override {
    const StepArrays& a = work.a;
    const std::size_t first = work.view.rows == 1 ? a.classes.size() : a.drawn;
    for (std::size_t i = 0; i < work.view.rows; ++i) {
      const std::span<const double> c = work.coefficients(i);
      minus_.resize(c.size());
      std::transform(c.begin(), c.end(), minus_.begin(), [](double v) { return -v; });
      const ExampleId example = work.examples()[i];
      const std::size_t y = a.label[i];
      Companion::add(state.companion, setup_.data, example, {a.classes.data(), first}, minus_.data());
      if (y >= first) Companion::add(state.companion, setup_.data, example, {&a.classes[y], 1}, &minus_[y]);
    }
    if (setup_.ridge.on())
      for (std::size_t c = 0; c < a.classes.size(); ++c)
        Companion::shrink(state.companion, a.classes[c], 1 / a.ridge[c], setup_.ridge.includes_intercept());
    Companion::decay(state.companion, setup_.rule.smoothing(work.view));
  }

 private:
  const LaneSetup& setup_;
  std::vector<double> smoothed_, minus_;
};

// u of every row becomes its exact log(sum_k exp(z_k)), every so many epochs.
class RefreshHook final : public StepHook {
 public:
  explicit RefreshHook(const LaneSetup& setup) : setup_(setup) {}

  bool start_epoch(RunState& state, const std::atomic<bool>& stop, const StepSchedule& plan) override {
    if (state.epoch % setup_.recipe.rule.refresh != 0) return true;
    const PassOptions pass{.top = 0,
                           .threads = setup_.recipe.thread_count(),
                           .tie_rank = {},
                           .stop = &stop,
                           .numbers = PassNumbers::doubles};
    const std::size_t most = rows_at_once(plan);
    Csr scratch;
    for (std::size_t first = 0; first < setup_.data.row_count();) {
      if (plan.out_of_time()) return false;
      const RowSlice rows = setup_.data.slice(first, most, scratch);
      const PassResult result = softmax_pass(state.weights, rows.x(), pass);
      if (!result.complete) return false;
      for (std::size_t r = 0; r < rows.rows(); ++r)
        for (const ExampleId i : rows.examples(r, rows.first_example(r)))
          state.row(i).u = result.highest[r] + std::log(result.excess[r]);
      first += rows.rows();
    }
    return true;
  }

 private:
  // A slice in which a clock can wait: some hundred thousand products.
  std::size_t rows_at_once(const StepSchedule& plan) const {
    if (!plan.has_clock()) return std::size_t{1} << 16;
    constexpr double kProducts = 1 << 23;
    const double of_row = static_cast<double>(setup_.data.classes->size()) * setup_.data.nonzeros_per_row();
    return static_cast<std::size_t>(std::clamp(kProducts / std::max(of_row, 1.0), 16.0, 2048.0));
  }

  const LaneSetup& setup_;
};

// Rows learn which blocks of classes score highest with them.
class RivalHook final : public StepHook {
 public:
  explicit RivalHook(const LaneSetup& setup) : setup_(setup), plan_(rival_plan(setup.facts())) {}

  bool start_epoch(RunState& state, const std::atomic<bool>& stop, const StepSchedule& plan) override {
    const RivalSlice slice = plan_.before(state.epoch);
    if (slice.empty()) return true;
    const std::size_t threads = setup_.recipe.thread_count();
    PassOptions recipe{.top = rival_classes(*setup_.draw), .threads = threads, .tie_rank = {}, .stop = &stop};
    recipe.over = [&plan] { return plan.out_of_time(); };
    constexpr std::size_t kRows = std::size_t{1} << 17;
    Csr scratch;
    PassResult pass;
    for (std::size_t first = slice.first; first < slice.end;) {
      const RowSlice rows = setup_.data.slice(first, std::min(kRows, slice.end - first), scratch);
      softmax_pass(state.weights, rows.x(), recipe, pass);
      if (!pass.complete) return false;
      remember(rows, pass, threads);
      first += rows.rows();
    }
    setup_.ridge.follow(setup_.data, *setup_.draw);
    return true;
  }

 private:
  void remember(const RowSlice& rows, const PassResult& pass, std::size_t threads) const {
    constexpr std::size_t kChunk = 4096;
    parallel_for((rows.rows() + kChunk - 1) / kChunk, threads, [&](std::size_t chunk) {
      for (std::size_t r = chunk * kChunk; r < std::min(rows.rows(), (chunk + 1) * kChunk); ++r)
        for (const ExampleId i : rows.examples(r, rows.first_example(r)))
          setup_.draw->remember(i, setup_.data.label(i), {&pass.best[r * pass.top], pass.top});
    });
  }

  const LaneSetup& setup_;
  RivalPlan plan_;
};

}  // namespace

bool tracks_norms(const LaneSetup& setup) {
  return setup.rule.info().projects && std::isfinite(setup.problem.weight_bound());
}

std::vector<std::unique_ptr<StepHook>> make_hooks(const LaneSetup& setup, const StepShape& shape) {
  const MethodInfo& info = setup.rule.info();
  std::vector<std::unique_ptr<StepHook>> hooks;
  if (tracks_norms(setup)) hooks.push_back(std::make_unique<NormHook>(setup.problem.weight_bound()));
  if (info.has_companion) hooks.push_back(std::make_unique<CompanionHook>(setup, shape));
  if (info.refreshes) hooks.push_back(std::make_unique<RefreshHook>(setup));
  if (setup.has_rivals()) hooks.push_back(std::make_unique<RivalHook>(setup));
  return hooks;
}

}  // namespace truemax
