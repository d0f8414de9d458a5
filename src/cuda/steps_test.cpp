// The step kernel, run on the CPU, against a plain loop over rows and the CPU's own solver.
#include "cuda/steps.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "draw/alias.hpp"
#include "solve/implicit_row.hpp"
#include "solve/prox_row.hpp"

namespace truemax::cuda {
namespace {

struct Shape {
  std::uint32_t rows = 60, features = 20, classes = 75, head = 1, draws = 2, rivals = 0;
  std::uint64_t seed = 1;
  double step = 1, rho = 0.5, scale = 1, decay = 0, falls_to = 1;
  bool intercept = false, weighted = false;
  float size = 1;  // of values
};

struct World {
  explicit World(const Shape& s) : setup(s) {
    std::mt19937_64 random(s.seed);
    const auto uniform = [&](double low, double high) {
      return std::uniform_real_distribution<double>(low, high)(random);
    };
    begin.push_back(0);
    for (std::uint32_t i = 0; i < s.rows; ++i) {
      double norm = s.intercept ? 1 : 0;
      for (std::uint32_t f = 0; f < s.features; ++f) {
        if (uniform(0, 1) > 0.3) continue;
        index.push_back(f);
        value.push_back(s.size * static_cast<float>(uniform(-1, 1)));
        norm += static_cast<double>(value.back()) * static_cast<double>(value.back());
      }
      for (std::size_t j = begin.back(); j < index.size(); ++j) entry.push_back({index[j], value[j]});
      begin.push_back(index.size());
      label.push_back(static_cast<std::uint32_t>(uniform(0, s.classes)));
      norms.push_back(static_cast<float>(norm));
      weight.push_back(static_cast<float>(uniform(0.5, 2)));
      u.push_back(uniform(0, 5));
    }
    const std::uint32_t blocks = (s.classes + kBlock - 1) / kBlock;
    w.resize(std::size_t{blocks} * s.features * kBlock);
    for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(uniform(-1, 1));
    b.resize(s.intercept ? blocks * kBlock : 0);
    std::vector<double> q(blocks - s.head);
    double sum = 0;
    for (double& p : q) sum += p = uniform(0.1, 1);
    for (double& p : q) p /= sum;
    const AliasTable table(q);
    for (const AliasTable::Cell& cell : table.cells()) cells.push_back({cell.keep, cell.other, 0});
    for (const double p : q) over_mean.push_back(static_cast<float>(1 / (s.draws * p)));
    // Some rows remember fewer blocks, or none.
    for (std::uint32_t i = 0; i < s.rows; ++i)
      for (std::uint32_t r = 0; r < s.rivals; ++r) {
        const std::uint32_t block = s.head + (i + r) % (blocks - s.head);
        rival.push_back(r < i % (s.rivals + 1) && block != label[i] / kBlock ? block : device::kNoRival);
      }
  }

  template <class Method, int kSlots, int kSteps>
  TakeSteps<Method, kSlots, kSteps> kernel(std::uint64_t count) {
    report = {};
    return {.rows = {begin.data(), entry.data()},
            .examples = {nullptr, label.data(), setup.weighted ? weight.data() : nullptr, norms.data(),
                         u.data(), setup.rows},
            .matrix = {w.data(), b.empty() ? nullptr : b.data(), setup.classes, setup.features},
            .draw = {setup.head, setup.draws, (setup.classes + kBlock - 1) / kBlock, cells.data(),
                     over_mean.data(), 77, setup.rivals, rival.data()},
            .terms = terms(count),
            .method = {},
            .report = &report};
  }

  StepTerms terms(std::uint64_t count) const {
    return {.first = 0,
            .count = count,
            .order = {Order::shuffled, RandomPermutation(setup.rows, 5), 0, setup.rows},
            .step = setup.step,
            .last_step = setup.step * setup.falls_to,
            .rho = setup.rho,
            .rho_falls = true,
            .scale = setup.scale,
            .decay = setup.decay,
            .falling = (setup.falls_to - 1) / (2 * static_cast<double>(count)),
            .most_growth = 1e30};
  }

  Shape setup;
  std::vector<std::uint64_t> begin;
  std::vector<Entry> entry;
  std::vector<std::uint32_t> index, label, rival;
  std::vector<float> value, norms, weight, w, b, over_mean;
  std::vector<double> u;
  std::vector<Cell> cells;
  StepReport report{};
};

// Steps in order; those of a group of `together` see the same W.
template <class Row, class Solve>
void take_plainly(World& world, std::uint64_t count, std::uint64_t together, const Solve& solve) {
  const Shape& s = world.setup;
  const StepTerms terms = world.terms(count);
  const Draw draw{s.head,
                  s.draws,
                  (s.classes + kBlock - 1) / kBlock,
                  world.cells.data(),
                  world.over_mean.data(),
                  77,
                  s.rivals,
                  world.rival.data()};
  for (std::uint64_t first = 0; first < count; first += together) {
    std::vector<std::pair<std::size_t, double>> changes, shifts;  // of w and of b
    for (std::uint64_t t = first; t < std::min(count, first + together); ++t) {
      const auto at = static_cast<double>(t);
      const double scale = s.scale * std::exp(-s.decay * at * (1 + terms.falling * at));
      const std::uint32_t i = terms.order.at(t), y = world.label[i];
      std::map<std::uint32_t, double> blocks{{y / kBlock, 1.0}};
      for (std::uint32_t h = 0; h < s.head; ++h) blocks[h] = 1;
      std::set<std::uint32_t> known{y / kBlock};
      for (std::uint32_t r = 0; r < s.rivals; ++r)
        if (const std::uint32_t b = world.rival[i * s.rivals + r]; b != device::kNoRival)
          blocks[b] = 1, known.insert(b);
      for (std::uint32_t d = 0; d < s.draws; ++d) {
        const std::uint32_t drawn = s.head + pick(draw, random_word(draw.key, t * s.draws + d));
        if (known.count(drawn) == 0) blocks[drawn] += static_cast<double>(draw.over_mean[drawn - s.head]);
      }
      std::vector<std::uint32_t> classes;
      std::vector<double> score, weight, c;
      double label_score = 0;
      for (const auto& [block, o] : blocks)
        for (std::uint32_t k = block * kBlock; k < std::min(s.classes, (block + 1) * kBlock); ++k) {
          double z = s.intercept ? static_cast<double>(world.b[k]) : 0;
          for (std::uint64_t j = world.begin[i]; j < world.begin[i + 1]; ++j)
            z += scale * static_cast<double>(world.value[j]) *
                 static_cast<double>(
                     world.w[(std::size_t{block} * s.features + world.index[j]) * kBlock + k % kBlock]);
          if (k == y) label_score = z;
          classes.push_back(k), score.push_back(z), weight.push_back(k == y ? 0 : o);
        }
      c.resize(classes.size());
      Row row;
      const double share = 1 + static_cast<double>(t) / static_cast<double>(count) * (s.falls_to - 1);
      if constexpr (requires { row.rho; }) row.rho = s.rho * share;
      row.e = s.step * share * (s.weighted ? static_cast<double>(world.weight[i]) : 1.0);
      row.squared_norm = static_cast<double>(world.norms[i]);
      row.u = world.u[i], row.label_score = label_score;
      row.classes = classes.size(), row.score = score.data(), row.weight = weight.data();
      row.coefficient = c.data();
      RowMemory memory;
      solve(row, memory);
      world.u[i] = row.u;
      for (std::size_t k = 0; k < classes.size(); ++k) {
        const double change = classes[k] == y ? row.label_coefficient : -c[k];
        if (s.intercept) shifts.emplace_back(classes[k], change);
        for (std::uint64_t j = world.begin[i]; j < world.begin[i + 1]; ++j)
          changes.emplace_back(
              (std::size_t{classes[k] / kBlock} * s.features + world.index[j]) * kBlock + classes[k] % kBlock,
              change * static_cast<double>(world.value[j]) / scale);
      }
    }
    for (const auto& [at, change] : changes) world.w[at] += static_cast<float>(change);
    for (const auto& [at, change] : shifts) world.b[at] += static_cast<float>(change);
  }
}

void require_close(const World& found, const World& wanted, double close) {
  for (std::size_t i = 0; i < wanted.u.size(); ++i)
    ASSERT_NEAR(found.u[i], wanted.u[i], close * (1 + wanted.u[i])) << "row " << i;
  for (std::size_t i = 0; i < wanted.w.size(); ++i)
    ASSERT_NEAR(found.w[i], wanted.w[i], close * (1 + std::abs(static_cast<double>(wanted.w[i])))) << i;
  for (std::size_t i = 0; i < wanted.b.size(); ++i)
    ASSERT_NEAR(found.b[i], wanted.b[i], close * (1 + std::abs(static_cast<double>(wanted.b[i])))) << i;
}

template <int kSteps>
void compare_prox(const Shape& setup, double close = 2e-3) {
  World found(setup), wanted(setup);
  const auto kernel = found.kernel<ProxMethod, 4, kSteps>(setup.rows);
  run_emulated(1, 32, kernel.kBytes, kernel);
  take_plainly<ProxRow>(wanted, setup.rows, kSteps, solve_prox_row);
  require_close(found, wanted, close);
  EXPECT_EQ(found.report.refused, 0U);
}

TEST(CudaSteps, ProxMatchesAPlainLoop) {
  compare_prox<1>({.decay = 0.002, .falls_to = 0.2});
  compare_prox<2>({.seed = 2, .step = 0.1, .intercept = true});
  compare_prox<4>({.head = 0, .draws = 3, .seed = 3, .weighted = true});
  compare_prox<1>({.rows = 61, .seed = 4, .step = 10, .rho = 0.01});
  compare_prox<2>({.head = 0, .draws = 1, .seed = 5, .step = 3, .scale = 0.5, .decay = 0.001});
}

TEST(CudaSteps, TakeTheBlocksThatRowsRemember) {
  const Shape setup{.classes = 200, .head = 1, .draws = 3, .rivals = 3, .seed = 9};
  World found(setup), wanted(setup);
  const auto kernel = found.kernel<ProxMethod, 8, 1>(setup.rows);
  run_emulated(1, 32, kernel.kBytes, kernel);
  take_plainly<ProxRow>(wanted, setup.rows, 1, solve_prox_row);
  require_close(found, wanted, 2e-3);
  World without({.classes = 200, .head = 1, .draws = 3, .seed = 9});
  take_plainly<ProxRow>(without, setup.rows, 1, solve_prox_row);
  EXPECT_NE(without.u, wanted.u);
}

TEST(CudaSteps, ImplicitMatchesAPlainLoop) {
  const Shape setup{.seed = 6, .step = 0.5};
  World found(setup), wanted(setup);
  const auto kernel = found.kernel<ImplicitMethod, 4, 1>(setup.rows);
  run_emulated(1, 32, kernel.kBytes, kernel);
  take_plainly<ImplicitRow>(wanted, setup.rows, 1, solve_implicit_row);
  require_close(found, wanted, 1e-4);
}

TEST(CudaSteps, ManyGroupsTakeEveryStepOnce) {
  const Shape setup{.rows = 300, .features = 5, .step = 1e-4};
  World found(setup), wanted(setup);
  const auto kernel = found.kernel<ProxMethod, 4, 2>(setup.rows);
  run_emulated(3, 64, kernel.kBytes * 2, kernel);
  take_plainly<ProxRow>(wanted, setup.rows, 1, solve_prox_row);
  require_close(found, wanted, 2e-3);  // steps so small that their order hardly matters
}

// Whatever the step and the values: numbers stay finite, or the step is refused.
TEST(CudaSteps, StayFinite) {
  for (const double step : {1e-8, 1e-2, 1e4, 1e8})
    for (const float size : {1e-6F, 1.0F, 1e4F}) {
      const Shape setup{.seed = 8, .step = step, .size = size};
      World found(setup);
      const auto kernel = found.kernel<ProxMethod, 4, 4>(setup.rows);
      run_emulated(1, 32, kernel.kBytes, kernel);
      for (const float w : found.w) ASSERT_TRUE(std::isfinite(w)) << step << " " << size;
      for (const double u : found.u) ASSERT_TRUE(std::isfinite(u) && u >= 0) << step << " " << size;
    }
}

TEST(CudaSteps, PermutationVisitsEverythingOnce) {
  for (const std::uint32_t n : {1U, 2U, 3U, 5U, 16U, 17U, 1000U, 65537U})
    for (const std::uint64_t key : {0ULL, 1ULL, 99ULL}) {
      const RandomPermutation order(n, key);
      std::vector<bool> seen(n, false);
      for (std::uint32_t i = 0; i < n; ++i) {
        const std::uint32_t at = order.at(i);
        ASSERT_LT(at, n);
        ASSERT_FALSE(seen[at]);
        seen[at] = true;
      }
    }
}

}  // namespace
}  // namespace truemax::cuda
