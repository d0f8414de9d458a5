// Methods beside each other at equal training time, each at its best step.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/data_view.hpp"
#include "train/budget.hpp"
#include "train/options.hpp"

namespace truemax {

// A method with its options: an entry of --methods.
struct Contender {
  std::string entry;  // as typed
  TrainOptions options;
  bool grid = true;  // false where the entry names its step, or the method finds one itself
};

// "name[:option=value[:option=value...]],..." over the options of `base`. Throws UserError naming the entry.
std::vector<Contender> parse_contenders(std::string_view list, const TrainOptions& base);
// The usual list, less what this program has no method or draw for.
std::string default_contenders();

// "LO:HI": the steps 10^LO, ..., 10^HI. Throws UserError.
std::vector<double> parse_grid(std::string_view text);

enum class CompareBy { train, test };

struct CompareOptions {
  std::vector<Contender> contenders;
  std::vector<double> steps;
  double seconds = 0;        // of one run; 0: what Implicit SGD 1 x 1 takes for 50 epochs on the data
  std::uint64_t epochs = 0;  // instead of seconds, where above 0
  std::size_t points = 8, threads = 1;
  std::uint64_t memory_limit = 0;  // 0: what is there
  CompareBy by = CompareBy::train;
  TimeSource time{};  // of all runs; empty: the steady clock
};

// One run: a contender at a step on a data set.
struct CompareRun {
  std::size_t data = 0, contender = 0;
  double step = 0;
  bool done = false;
  BudgetedRun result;

  // The figure that is compared; nothing where the run diverged or did not come to its end.
  std::optional<double> figure(CompareBy by) const;
};

struct CompareData {
  std::string name;
  DataView train;
  std::optional<DataView> test;
};

struct CompareProgress {
  const CompareData* data = nullptr;
  const Contender* contender = nullptr;  // null: finding the budget
  double step = 0;
  std::size_t done = 0, of = 0;  // runs
  double seconds_left = 0;       // about
};

struct CompareResult {
  std::vector<Budget> budgets;      // one a data set; seconds 0 where it was not reached
  std::vector<double> budget_step;  // where the budget is that of Implicit SGD: its best step; else 0
  std::vector<CompareRun> runs;
  bool interrupted = false;

  // The best run of a contender on a data set; null where all diverged or none was done.
  const CompareRun* best(std::size_t data, std::size_t contender, CompareBy by) const;
};

// Runs everything; what was done until `stop` was raised is in the result. The contenders take turns, so that
// a machine that slows down does so for all of them.
CompareResult compare(const std::vector<CompareData>& data, const CompareOptions& options,
                      const std::atomic<bool>& stop,
                      const std::function<void(const CompareProgress&)>& progress = {});

nlohmann::ordered_json compare_json(const std::vector<CompareData>& data, const CompareOptions& options,
                                    const CompareResult& result);

}  // namespace truemax
