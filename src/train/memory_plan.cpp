#include "train/memory_plan.hpp"

#include <algorithm>
#include <limits>

#include "train/encoder.hpp"
#include "train/run_state.hpp"
#include "train/solvers.hpp"
#include "train/step_inputs.hpp"
#include "train/window_order.hpp"
#include "weights/weights.hpp"

namespace truemax {
namespace {

// Memory of evaluation: the results of a slice of rows, independent of N and K.
constexpr std::uint64_t kEvaluationBytes = std::uint64_t{8} << 20;
// The program itself, and a class name in the metadata while a model is saved.
constexpr std::uint64_t kProgramBytes = std::uint64_t{16} << 20, kBytesPerClassName = 60;
constexpr std::uint64_t kTooMany = std::numeric_limits<std::uint64_t>::max();

std::uint64_t sum(std::uint64_t a, std::uint64_t b) {
  return __builtin_add_overflow(a, b, &a) ? kTooMany : a;
}
std::uint64_t product(std::uint64_t a, std::uint64_t b) {
  return __builtin_mul_overflow(a, b, &a) ? kTooMany : a;
}

const char* advice(const Problem& problem) {
  if (problem.is_text()) return "drop rare words (--min-count), ";
  if (problem.triples) return "";
  return problem.hashed ? "keep fewer features (--max-features, --ngram-buckets), "
                        : "keep fewer features (--max-features), ";
}

MemoryPlan plan_of_one(const Facts& facts) {
  const auto& [recipe, problem, machine, draw] = facts;
  const Solver& steps = solver_of_steps(facts);
  MemoryPlan plan;
  plan.classes = problem.classes, plan.features = problem.features;
  plan.fewer = advice(problem);
  plan.hidden = recipe.hidden;
  plan.streamed = problem.stream.has_value();
  plan.own_classes = BlockShare::most_classes(plan.classes, machine.ranks);
  plan.own_vectors = most_vectors(facts);
  if (!machine.alone() && recipe.hidden > 0 && plan.own_vectors == plan.features)
    plan.more_ranks = "start more ranks, share the vectors of features out too (--shard-embedding), ";
  else if (!machine.alone())
    plan.more_ranks = "start more ranks, ";
  const std::uint64_t weights =
      Weights::bytes_needed(plan.own_classes, recipe.weight_columns(problem.features));
  plan.copies = steps.copies(facts);
  plan.weights = product(sum(weights, steps.state_bytes(facts)), plan.copies);
  plan.rows = problem.inputs * sizeof(RowState) + steps.step_bytes(facts);
  if (problem.stream)
    plan.rows += WindowOrder::bytes(problem.examples, problem.stream->blocks, problem.stream->window_blocks);
  else if (recipe.visit == Visit::shuffle)
    plan.rows +=
        problem.examples * sizeof(ExampleId) * (machine.threads > 1 ? 2 : 1) + problem.grouping_bytes;
  if (recipe.newton > 0) plan.rows += newton_solver().step_bytes(facts);
  plan.data = problem.bytes;
  // Trials use parts of the rows: row numbers, labels and weights, once of all rows and once of a sample.
  const bool trials = recipe.sought.any();
  if (trials && recipe.valid_share > 0)
    plan.data += (3 * sizeof(ExampleId) + (problem.has_example_weights ? sizeof(double) : 0)) *
                 problem.examples * 5 / 4;
  if (trials && problem.stream) plan.data += 2 * problem.stream->most_copied;  // samples and their judges
  plan.evaluation = kEvaluationBytes + kProgramBytes + kBytesPerClassName * problem.classes;
  plan.there = machine.memory;
  if (recipe.patience == 0) return plan;
  const std::uint64_t vectors = recipe.hidden > 0 ? table_bytes(facts) : 0;
  plan.best = sum(weights, vectors);
  plan.best_on_disk = plan.total() > plan.there;
  if (plan.best_on_disk) plan.best = vectors;  // only weights go to disk
  return plan;
}

MemoryPlan with_hidden(const Recipe& recipe, std::uint64_t hidden, const Facts& facts) {
  Recipe largest = recipe;
  largest.hidden = hidden;
  const std::unique_ptr<Draw> draw = draw_for(largest, facts.problem);
  return plan_of_one({largest, facts.problem, facts.machine, draw.get()});
}

}  // namespace

MemoryPlan plan_memory(const Facts& facts) {
  const Recipe& recipe = facts.recipe;
  if (recipe.learnt() && recipe.sought.hidden)
    return with_hidden(recipe, std::max(recipe.hidden, recipe.most_hidden), facts);
  const MemoryPlan plan = plan_of_one(facts);
  if (!recipe.sought.encoder) return plan;
  // Trials of one come after all trials of the other, so only the larger one counts.
  const MemoryPlan learnt = with_hidden(*recipe.rival, recipe.most_hidden, facts);
  return learnt.total() > plan.total() ? learnt : plan;
}

}  // namespace truemax
