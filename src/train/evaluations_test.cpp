// The 1 x 1 root in real runs: at most five evaluations of its equation on average.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>

#include "data/load.hpp"
#include "rule/implicit.hpp"
#include "train/slow_trainer.hpp"
#include "train/test_support.hpp"

namespace truemax {
namespace {

struct Tally {
  std::size_t problems = 0, evaluations = 0, most = 0, other_bits = 0;
};
Tally tally;  // global because the trainer constructs the rule

// Implicit SGD that also solves each step separately and counts evaluations.
class CountingRule : public ImplicitRule {
 public:
  using ImplicitRule::ImplicitRule;

  void step(const StepView& view, StepResult& out) noexcept {
    const std::size_t y = view.label[0], k = 1 - y;
    const auto ridge = [&](std::size_t c) { return view.ridge == nullptr ? 1.0 : view.ridge[c]; };
    ImplicitProblems p = kNoProblems;
    p.e[0] = view.step * view.row_weight[0], p.o[0] = view.weight[k], p.u[0] = out.u[0];
    p.gap[0] = view.score[k] / ridge(k) - view.score[y] / ridge(y);
    p.gamma[0] = 1 / (view.gram[0] / ridge(k) + view.gram[0] / ridge(y));
    const auto evaluations = static_cast<std::size_t>(solve_implicit(p, 1));
    ++tally.problems;
    tally.evaluations += evaluations;
    tally.most = std::max(tally.most, evaluations);
    ImplicitRule::step(view, out);
    tally.other_bits += out.u[0] != p.u[0];  // the counted solve must match that of the run
  }
};

void expect_few_evaluations(const char* name, const Dataset& data, std::uint64_t epochs) {
  for (const double ridge : {0.0, 1.0})
    for (const double step : {0.01, 0.1, 1.0, 10.0, 100.0}) {
      Recipe options = options_of("implicit", 1);
      options.epochs = epochs, options.step = step, options.ridge = ridge;
      tally = {};
      SlowTrainer(data, options).run<CountingRule>();
      ASSERT_EQ(tally.problems, data.size() * epochs);
      EXPECT_EQ(tally.other_bits, 0U);
      const double mean = static_cast<double>(tally.evaluations) / static_cast<double>(tally.problems);
      std::cout << name << " step " << step << " ridge " << ridge << ": " << mean << " evaluations, at most "
                << tally.most << '\n';
      EXPECT_LE(mean, 5) << name << " step " << step << " ridge " << ridge;
      EXPECT_GE(mean, 1);
    }
}

TEST(SolveImplicit, AveragesFiveEvaluationsOnGeneratedData) {
  expect_few_evaluations("12 classes", random_data({.rows = 500, .classes = 12}), 10);
  expect_few_evaluations("2000 classes", random_data({.rows = 1000, .classes = 2000, .features = 300}), 3);
  expect_few_evaluations("long weighted rows",
                         random_data({.rows = 300, .classes = 12, .weights = true, .scale = 10}), 5);
}

TEST(SolveImplicit, AveragesFiveEvaluationsOnBibtex) {
  const char* folder = std::getenv("TRUEMAX_DATA");
  const std::string path = fmt::format("{}/bibtex/train.txt.gz",
                                       folder != nullptr ? folder : TRUEMAX_SOURCE_DIR "/../shared/data");
  if (!std::filesystem::exists(path))
    GTEST_SKIP() << "no " << path << "; set TRUEMAX_DATA to the folder of the real data sets";
  std::vector<std::string> notes;
  expect_few_evaluations("bibtex", make_training_set(read_rows(path, {}, 0, 2, notes), {}), 3);
}

}  // namespace
}  // namespace truemax
