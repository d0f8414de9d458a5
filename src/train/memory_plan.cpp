#include "train/memory_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/error.hpp"
#include "core/files.hpp"
#include "core/text.hpp"
#include "ranks/ranks.hpp"
#include "rule/methods.hpp"
#include "train/automatic.hpp"
#include "train/fit.hpp"
#include "train/lbfgs_lane.hpp"
#include "train/learnt_lane.hpp"
#include "train/newton.hpp"
#include "train/step_shape.hpp"
#include "train/visit_order.hpp"

namespace truemax {
namespace {

// Memory of evaluation: the results of a slice of rows, independent of N and K.
constexpr std::uint64_t kEvaluationBytes = std::uint64_t{8} << 20;
// The program itself, and a class name in the metadata while a model is saved.
constexpr std::uint64_t kProgramBytes = std::uint64_t{16} << 20, kBytesPerClassName = 60;

}  // namespace

// What needs any row at any time.
void require_streamable(const TrainOptions& options) {
  if (find_method(options.method).has_companion)
    throw UserError(fmt::format(
        "--stream: {} keeps the rows of each class at hand; give another method, or leave --stream out",
        options.method));
  if (find_method(options.method).all_rows)
    throw UserError(fmt::format(
        "--stream: {} needs all rows in memory; give another method, or leave --stream out", options.method));
  if (options.newton > 0)
    throw UserError("--stream: Newton's method needs all rows in memory; leave --newton or --stream out");
}

// Far more draws than classes would cost more than taking all classes. The rows of a step are distinct, so
// there cannot be more than in the data.
void require_step_shape(const TrainOptions& options, const DataView& data) {
  if (data.space->of_triples())
    require_triples_shape(options);
  else if (options.encoder == EncoderKind::complex && !reads_words(data.space->encoder))
    throw UserError(
        "--encoder complex: this is the encoder of triples; add --format triples, or leave it out");
  if (data.streamed() != nullptr) require_streamable(options);
  if (options.shard_embedding && !options.learnt() && !options.open.encoder)
    throw UserError(
        "--shard-embedding: a linear model has no vectors of features; add --hidden 256, or leave it out");
  const bool text = reads_words(data.space->encoder);
  if (text && !reads_words(options.encoder) && options.encoder != EncoderKind::automatic)
    throw UserError("--encoder: plain text is encoded by context, cbow or skipgram; leave it out");
  if (text && options.hidden == 0)
    throw UserError(
        "--format text: words in order need learnt features; leave --method out, or add --hidden 256");
  if (!text && (options.layers > 0 || options.tied))
    throw UserError(fmt::format("--{}: this is an option of plain text (--format text); leave it out",
                                options.layers > 0 ? "layers" : "tied"));
  if (text && data.space->encoder != EncoderKind::context && options.layers > 0)
    throw UserError(
        "--layers 1: a layer mixes the words before a word, in order; leave it out, or give --encoder "
        "context");
  constexpr std::uint64_t kMostTimes = 100;
  const std::uint64_t most = kMostTimes * data.classes->size();
  if (options.classes_per_step > most)
    throw UserError(fmt::format("--classes-per-step {}: the data have {} classes; give at most {}",
                                options.classes_per_step, data.classes->size(), most));
  if (options.rows_per_step > data.size())
    throw UserError(fmt::format("--rows-per-step {}: the data have {} rows; give at most that many",
                                options.rows_per_step, data.size()));
}

void require_triples_shape(const TrainOptions& options) {
  if (options.encoder != EncoderKind::complex && options.encoder != EncoderKind::automatic)
    throw UserError("--encoder: triples are encoded by complex; leave it out");
  if (options.hidden == 0)
    throw UserError(
        "--format triples: entities and relations have learnt vectors; use 'truemax train' without --method, "
        "or add --hidden 200");
  if (options.hidden % 2 != 0)
    throw UserError(fmt::format(
        "--hidden {}: half of the numbers are real parts, half imaginary ones; give an even number",
        options.hidden));
  if (options.intercept)
    throw UserError("--intercept: entities of triples have a vector and no intercept; leave it out");
}

void require_end(const TrainOptions& options, bool has_valid) {
  if (options.epochs >= kUnlimitedEpochs && options.seconds == 0 && options.steps == 0 &&
      options.patience == 0)
    throw UserError(
        "--epochs unlimited: nothing would end the run; give a number, or add --seconds, --steps or "
        "--patience");
  if (options.patience > 0 && !has_valid)
    throw UserError(fmt::format(
        "--patience {}: there are no validation rows to watch; add --valid FILE, or --valid-share "
        "0.1 to set some of the training rows aside",
        options.patience));
}

namespace {

MemoryPlan plan_of_one(const TrainSets& sets, const TrainOptions& options, std::uint64_t memory_limit) {
  const DataView& data = sets.data;
  MemoryPlan plan;
  plan.classes = data.classes->size(), plan.features = data.space->features;
  if (reads_words(data.space->encoder))
    plan.fewer = "drop rare words (--min-count), ";
  else if (data.space->of_triples())
    plan.fewer = "";
  else if (!data.space->buckets.empty())
    plan.fewer = "keep fewer features (--max-features, --ngram-buckets), ";
  plan.hidden = options.hidden;
  plan.streamed = data.streamed() != nullptr;
  plan.own_classes = BlockShare::most_classes(plan.classes, ranks().size());
  plan.own_vectors = most_vectors(data, options);
  if (!ranks().alone() && options.hidden > 0 && plan.own_vectors == plan.features)
    plan.more_ranks = "start more ranks, share the vectors of features out too (--shard-embedding), ";
  else if (!ranks().alone())
    plan.more_ranks = "start more ranks, ";
  plan.weights = Weights::bytes_needed(plan.own_classes, weight_columns(data, options));
  if (options.hidden > 0 &&
      __builtin_add_overflow(plan.weights, LearntLane::state_bytes(data, options), &plan.weights))
    plan.weights = std::numeric_limits<std::uint64_t>::max();
  plan.rows = data.inputs() * sizeof(RowState);
  if (const StreamedRows* stream = data.streamed())
    plan.rows += WindowOrder::bytes(data.size(), stream->blocks(), stream->window_blocks());
  else if (options.visit == Visit::shuffle)
    plan.rows += data.size() * sizeof(ExampleId) * (options.thread_count() > 1 ? 2 : 1) +
                 VisitOrder::grouping_bytes(data.rows_of_inputs());
  plan.data = sets.bytes();
  plan.rows += step_bytes(data, options);
  if (options.newton > 0)
    plan.rows += NewtonProblem::bytes(data) * (options.open.ridge ? 1 + newton_folds(data).used : 1);
  // Trials use parts of the rows: row numbers, labels and weights, once of all rows and once of a sample.
  if (options.open.any() && options.valid_share > 0)
    plan.data +=
        (3 * sizeof(ExampleId) + (data.has_example_weights() ? sizeof(double) : 0)) * data.size() * 5 / 4;
  const MethodInfo& method = find_method(options.method);
  if (method.has_companion || method.by_weight) {
    plan.copies = method.all_rows ? LbfgsLane::copies(data) : method.by_weight ? 3 : 2;
    if (__builtin_mul_overflow(plan.weights, plan.copies, &plan.weights))
      plan.weights = std::numeric_limits<std::uint64_t>::max();
  }
  plan.evaluation = kEvaluationBytes + kProgramBytes + kBytesPerClassName * data.classes->size();
  // The data are already in memory: the run can use what is free now plus the data.
  plan.there = memory_limit > 0 ? memory_limit : memory_of_each(ranks().here()) + plan.data;
  if (!ranks().alone())  // what is chosen by the memory must be chosen alike
    plan.there = static_cast<std::uint64_t>(-ranks().max_of(-static_cast<double>(plan.there)));
  if (const StreamedRows* stream = data.streamed()) {  // its buffers are not taken yet
    if (memory_limit == 0) plan.there -= std::min(plan.there, stream->buffer_bytes());
    if (options.open.any()) plan.data += 2 * stream->most_copied();  // samples of trials and their judges
  }
  if (options.patience == 0) return plan;
  const std::uint64_t vectors = options.hidden > 0 ? table_bytes(data, options) : 0;
  plan.best = Weights::bytes_needed(plan.own_classes, weight_columns(data, options));
  if (__builtin_add_overflow(plan.best, vectors, &plan.best))
    plan.best = std::numeric_limits<std::uint64_t>::max();
  plan.best_on_disk = plan.total() > plan.there;
  if (plan.best_on_disk) plan.best = vectors;  // only weights go to disk
  return plan;
}

}  // namespace

MemoryPlan plan_memory(const TrainSets& sets, const TrainOptions& options, std::uint64_t memory_limit) {
  if (options.learnt() && options.open.hidden) {
    TrainOptions largest = options;
    largest.hidden = std::max(options.hidden, options.open.most_hidden);
    return plan_of_one(sets, largest, memory_limit);
  }
  const MemoryPlan plan = plan_of_one(sets, options, memory_limit);
  if (!options.compares_encoders()) return plan;
  // Trials of one come after all trials of the other, so only the larger one counts.
  const MemoryPlan learnt =
      plan_of_one(sets, as_learnt(sets.data, options, options.open.most_hidden), memory_limit);
  return learnt.total() > plan.total() ? learnt : plan;
}

bool save_memory(const TrainSets& sets, TrainOptions& options, std::uint64_t memory_limit) {
  if (options.hidden == 0 || !options.open.row_state) return false;
  options.open.row_state = false;
  const MemoryPlan plan = plan_memory(sets, options, memory_limit);
  options.row_state = plan.total() > plan.there;
  return options.row_state;
}

std::uint64_t MemoryPlan::total() const {
  std::uint64_t sum = 0;
  for (const std::uint64_t part : {weights, rows, data, evaluation, best})
    if (__builtin_add_overflow(sum, part, &sum)) return std::numeric_limits<std::uint64_t>::max();
  return sum;
}

std::string MemoryPlan::to_text() const {
  return fmt::format("{} (weights {}, row states {}, data {}, evaluation and program {}{}) of {}",
                     size_text(total()), size_text(weights), size_text(rows), size_text(data),
                     size_text(evaluation), best > 0 ? fmt::format(", best weights {}", size_text(best)) : "",
                     size_text(there));
}

void MemoryPlan::require() const {
  if (fits()) return;
  MemoryPlan others = *this;
  others.weights = others.best = 0;
  const std::uint64_t left = others.total() < there ? there - others.total() : 0;
  if (left == 0)
    throw UserError(fmt::format(
        "not enough memory: this run needs {} available, which is too much even without its weights; {}, or "
        "raise --memory-limit to try anyway",
        to_text(),
        streamed
            ? "give a smaller --stream-window, of which two are held"
            : "stream the rows from a cache (truemax convert --help), train on fewer of them (--max-rows)"));
  const char* const less = streamed ? "classes" : "classes or rows (--max-rows)";
  if (hidden > 0)
    throw UserError(fmt::format(
        "not enough memory: this run needs {} available, because {} classes and {} features have {} learnt "
        "numbers each, with a running mean of their gradients; {}give a smaller --hidden{}, {}train on "
        "fewer {}, or raise --memory-limit to try anyway",
        to_text(), classes, features, hidden, more_ranks,
        fmt::format(" ({} would fit)",
                    std::max<std::uint64_t>(1, left / (12 * own_classes + 8 * own_vectors))),
        fewer, less));
  const std::uint64_t buckets = Weights::features_that_fit(own_classes, left / copies);
  const std::string fits = buckets > 0 ? fmt::format("--hash-features {} would fit", buckets)
                                       : "though with so many classes not even one bucket fits";
  throw UserError(fmt::format(
      "not enough memory: this run needs {} available, because {} classes x {} features, in blocks of 16 "
      "classes, are {} weights of 4 bytes{}; {}{}hash them into fewer "
      "buckets ({}), train on fewer {}, or raise --memory-limit to try anyway",
      to_text(), classes, features, (classes + kLanes - 1) / kLanes * kLanes * features,
      copies > 3   ? fmt::format(", {} times", copies)
      : copies > 2 ? ", three times"
      : copies > 1 ? ", twice"
                   : "",
      more_ranks, fewer, fits, less));
}

}  // namespace truemax
