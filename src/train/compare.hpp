// Compares methods at equal training time, each at its best step.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/data_view.hpp"
#include "train/options.hpp"
#include "train/study.hpp"

namespace truemax {

// A method with its options: an entry of --methods.
struct Contender {
  std::string entry;  // as typed
  Asked asked;
  bool grid = true;  // false if the entry gives a step or the method finds one itself
};

// "name[:option=value[:option=value...]],..." over what `base` says. Throws UserError naming the entry.
std::vector<Contender> parse_contenders(std::string_view list, const Asked& base);
// The default list.
std::string default_contenders();

// "LO:HI": the steps 10^LO, ..., 10^HI. Throws UserError.
std::vector<double> parse_grid(std::string_view text);

enum class CompareBy { train, test };

struct CompareOptions {
  std::vector<Contender> contenders;
  std::vector<double> steps;
  double seconds = 0;        // per run; 0: the time of 50 epochs of implicit with one row and class
  std::uint64_t epochs = 0;  // if above 0, used instead of seconds
  std::size_t points = 8, threads = 1;
  std::uint64_t memory_limit = 0;  // 0: available memory
  CompareBy by = CompareBy::train;
  TimeSource time{};  // for all runs; empty: the steady clock
};

// One run: a contender at a step on a data set.
struct CompareRun {
  std::size_t data = 0, contender = 0;
  double step = 0;
  bool done = false;
  BudgetedRun result;

  // The figure to compare; nullopt if the run diverged or did not finish.
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
  double seconds_left = 0;       // approximate
};

struct CompareResult {
  std::vector<Budget> budgets;      // one per data set; seconds 0 if not reached
  std::vector<double> budget_step;  // if implicit sets the budget: its best step; else 0
  std::vector<CompareRun> runs;
  std::vector<std::string> notes;  // on the contenders
  bool interrupted = false;

  // The best run of a contender on a data set; null if all diverged or none was done.
  const CompareRun* best(std::size_t data, std::size_t contender, CompareBy by) const;
};

// Runs everything; after a stop the result has the finished runs. Contenders take turns, so that a machine
// that slows down affects all of them.
CompareResult compare(const std::vector<CompareData>& data, const CompareOptions& options,
                      const std::atomic<bool>& stop,
                      const std::function<void(const CompareProgress&)>& progress = {});

nlohmann::ordered_json compare_json(const std::vector<CompareData>& data, const CompareOptions& options,
                                    const CompareResult& result);

}  // namespace truemax
