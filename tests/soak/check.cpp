#include "check.hpp"

#include <fmt/format.h>

#include <atomic>
#include <cmath>
#include <optional>

#include "core/error.hpp"
#include "model/predict.hpp"
#include "oracle.hpp"
#include "rule/methods.hpp"
#include "train/bind.hpp"
#include "train/evaluate_state.hpp"
#include "train/fit.hpp"
#include "train/run.hpp"
#include "train/start.hpp"
#include "train/test_support.hpp"

namespace truemax::soak {
namespace {

struct Failure {
  std::string what;
};

template <class... Arguments>
void require(bool holds, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  if (!holds) throw Failure{fmt::format(format, std::forward<Arguments>(arguments)...)};
}

PreparedRun prepared(const Config& config) {
  RunOptions options;
  OptionTable table;
  options.describe(table);
  for (const auto& [name, value] : config.options) {
    const Option* option = table.find(name);
    require(option != nullptr, "there is no option --{}", name);
    option->parse(value);
  }
  options.train_path = config.data;
  options.model = options.log = "none";
  return prepare_run(std::move(options));
}

struct Trained {
  RunState state;
  bool diverged = false;
  std::uint64_t steps = 0;
};

// Runs to the end.
Trained advance(const DataView& data, const Plan& plan, RunState&& from) {
  const std::atomic<bool> stop{false};
  Fit fit(data, plan, std::move(from));
  const Fit::End end = fit.run({}, stop);
  require(end == Fit::End::used_up || end == Fit::End::diverged, "the run ended as {}",
          static_cast<int>(end));
  Trained out{{}, end == Fit::End::diverged, fit.steps()};
  if (out.diverged)
    require(fit.divergence().find("--") != std::string::npos, "a divergence without advice: {}",
            fit.divergence());
  out.state = std::move(fit.state());
  return out;
}

RunState passed_on(const RunState& state) {
  StateBuffer bytes;
  write(state, bytes);
  RunState out;
  read(out, bytes);
  require(bytes.left() == 0, "{} bytes of a state were not read", bytes.left());
  return out;
}

// The run again, on another number of threads, saved and restored on the way. It is cut as --checkpoint-every
// 10min or a signal cuts it, between two batches of steps: the clock moves a second each time it is read,
// about twice a batch.
Trained interrupted(const Config& config, const DataView& data, const Plan& whole, std::uint64_t steps) {
  Recipe recipe = whole.recipe;
  Machine machine = whole.machine;
  recipe.threads = machine.threads = config.other_threads;
  const Plan plan = bind(recipe, whole.problem, machine);
  RunState state = make_state(data, recipe);
  FakeClock clock(1);
  Stopwatch watch(clock.source());
  watch.resume();
  const double batches = static_cast<double>(steps) / static_cast<double>(plan.steps_ahead) + 1;
  const std::atomic<bool> stop{false};
  Fit fit(data, plan, std::move(state));
  const Fit::End end = fit.run({.seconds = 1 + config.interrupted_at * 2 * batches, .clock = &watch}, stop);
  if (end == Fit::End::diverged)
    return {std::move(fit.state()), true, fit.steps()};  // such a run is not saved
  return advance(data, plan, passed_on(fit.state()));
}

void check_numbers(const std::vector<float>& numbers, const char* what) {
  for (const float v : numbers) require(std::isfinite(v), "{} has {}", what, static_cast<double>(v));
}
template <class Numbers>
void check_numbers(const Numbers& numbers, const char* what) {
  for (const float v : numbers) require(std::isfinite(v), "{} has {}", what, static_cast<double>(v));
}

void check_state(const RunState& state, const DataView& data, const MethodInfo& info, bool adds_label) {
  require(std::isfinite(state.weights.largest()), "W has a number that is not finite");
  check_numbers(state.learnt.tables.features.numbers, "E");
  check_numbers(state.learnt.tables.mixing.numbers, "the encoder's second table");
  check_numbers(state.learnt.classes.numbers, "the classes' vectors");
  check_numbers(state.learnt.intercept, "the intercept");
  // Of shared inputs u is the log-normaliser itself, and --double-sum-alpha adds a share of the label's
  // score.
  const bool positive = !info.refreshes && !info.signed_u && !data.shares_inputs() && !adds_label;
  for (std::size_t i = 0; i < state.rows.size(); ++i) {
    require(std::isfinite(state.rows[i].u), "u of row {} is {}", i, state.rows[i].u);
    require(!positive || state.rows[i].u >= 0, "u of row {} is {}", i, state.rows[i].u);
  }
}

void check_probabilities(const Model& model, const Oracle& oracle, const DataView& data) {
  const std::size_t classes = model.weights.classes(), few = std::min<std::size_t>(classes, 3);
  const Predictor all(model, classes, 1), top(model, few, 2);
  Csr scratch, encoded_scratch;
  const DataView rows = model.rows_of(data);
  for (std::size_t first = 0; first < std::min<std::size_t>(data.row_count(), 40);) {
    const RowSlice plain = data.slice(first, 20, scratch),
                   encoded = rows.slice(first, plain.rows(), encoded_scratch);
    require(plain.rows() == encoded.rows(), "a slice of encoded rows has another length");
    const Predictions of_all = all.predict(plain.x()), of_top = top.predict(plain.x());
    for (std::size_t r = 0; r < plain.rows(); ++r) {
      const RowOracle expected = oracle.row(encoded.x().row(r));
      double sum = 0;
      for (std::size_t i = 0; i < classes; ++i) {
        const double p = of_all.probability[r * classes + i];
        const ClassId k = of_all.classes[r * classes + i];
        require(p >= 0 && p <= 1, "row {}: the probability of class {} is {}", first + r, k, p);
        require(std::abs(p - expected.probability[k]) <= 2 * expected.loss_error + 1e-9,
                "row {}: the probability of class {} is {}, the oracle's {}", first + r, k, p,
                expected.probability[k]);
        sum += p;
      }
      require(std::abs(sum - 1) <= 1e-9, "row {}: the probabilities sum to {:.17g}", first + r, sum);
      for (std::size_t i = 0; i < few; ++i) {
        const double p = of_top.probability[r * few + i], q = of_all.probability[r * classes + i];
        require(of_top.classes[r * few + i] == of_all.classes[r * classes + i] || std::abs(p - q) <= 1e-9,
                "row {}: place {} is another class among the top {}", first + r, i, few);
        require(std::abs(p - q) <= 2 * expected.loss_error + 1e-9,
                "row {}: place {} has probability {} among the top {}, {} among all", first + r, i, p, few,
                q);
      }
    }
    first += plain.rows();
  }
}

void check_encoder(const Model& model, const Oracle& oracle, const DataView& data) {
  if (model.encoder.empty()) return;
  const DataView rows = model.rows_of(data);
  Csr scratch, encoded_scratch;
  const RowSlice plain = data.slice(0, 30, scratch), encoded = rows.slice(0, plain.rows(), encoded_scratch);
  for (std::size_t r = 0; r < plain.rows(); ++r) {
    const Oracle::Encoded expected = oracle.encoded(plain.x().row(r));
    std::vector<double> x(expected.x.size());
    const RowView found = encoded.x().row(r);
    for (std::size_t j = 0; j < found.index.size(); ++j)
      x[found.index[j]] = static_cast<double>(found.value[j]);
    for (std::size_t c = 0; c < x.size(); ++c)
      require(std::abs(x[c] - expected.x[c]) <= expected.error[c],
              "row {}: learnt feature {} is {}, the oracle's {}", r, c, x[c], expected.x[c]);
  }
}

void check_file(const Model& model, const DataView& data, const std::string& path) {
  save_model(model, path);
  const Model loaded = load_model(path, std::uint64_t{1} << 34U, 2);
  const std::size_t few = std::min<std::size_t>(model.weights.classes(), 10);
  Csr scratch;
  const RowSlice rows = data.slice(0, 30, scratch);
  const Predictions before = Predictor(model, few, 1).predict(rows.x());
  const Predictions after = Predictor(loaded, few, 1).predict(rows.x());
  require(before.probability == after.probability, "a saved model gives other probabilities");
  for (std::size_t i = 0; i < before.classes.size(); ++i)
    require(model.classes->name(before.classes[i]) == loaded.classes->name(after.classes[i]),
            "a saved model gives other classes");
}

void check_run(const Config& config, PreparedRun& run, const std::string& folder, Outcome& outcome) {
  const Plan& plan = *run.plan;
  const Recipe& options = plan.recipe;
  const MethodInfo& info = find_method(options.method);
  Trained whole = advance(run.data, plan, make_state(run.data, options));
  outcome.diverged = whole.diverged;
  // With a large delta, U-max is plain SGD.
  const bool may = info.can_diverge || options.learnt() || (info.name == "umax" && options.rule.delta > 5);
  // Steps by weight are in units of the features: those of a tiny one may leave float32.
  const bool moderate = info.by_weight ? config.alike : config.moderate;
  require(!whole.diverged || may || !moderate, "{} diverged, which it should not on such data",
          options.method);
  check_state(whole.state, run.data, info, options.rule.double_sum_alpha > 0);
  {
    const Trained again = interrupted(config, run.data, plan, whole.steps);
    require(again.diverged == whole.diverged && again.steps == whole.steps,
            "saved and restored, the run ends after {} steps instead of {}", again.steps, whole.steps);
    require(bits_of(again.state) == bits_of(whole.state), "saved and restored, the run ends with other bits");
  }
  std::vector<std::pair<const DataView*, Metrics>> figures;
  for (const DataView* data : {&run.data, run.valid ? &*run.valid : nullptr}) {
    if (data == nullptr) continue;
    const auto metrics =
        evaluate(EvaluateOptions{}, options.seed, whole.state, *data, config.threads, nullptr);
    require(metrics.has_value(), "an evaluation that nobody stopped has no result");
    figures.emplace_back(data, *metrics);
  }
  Model model = make_model(std::move(whole.state), run.data, run.options.preprocess, options, "", "");
  const Oracle oracle(model);
  for (const auto& [data, metrics] : figures)
    if (const std::string differs = oracle.compare(metrics, *data); !differs.empty()) throw Failure{differs};
  model.weights.fold_all();  // as in the file, where a weight is one float32
  check_encoder(model, oracle, run.data);
  check_probabilities(model, oracle, run.data);
  check_file(model, run.data, folder + "/model.safetensors");
}

}  // namespace

Outcome check(const Config& config, const std::string& folder) {
  Outcome outcome;
  std::optional<PreparedRun> run;
  try {
    run.emplace(prepared(config));
  } catch (const UserError& error) {
    outcome.refused = true;
    outcome.message = error.what();
    return outcome;
  } catch (const Failure& failure) {
    outcome.failure = failure.what;
    return outcome;
  }
  try {
    check_run(config, *run, folder, outcome);
  } catch (const Failure& failure) {
    outcome.failure = failure.what;
  } catch (const std::exception& error) {
    outcome.failure = fmt::format("an exception: {}", error.what());
  }
  return outcome;
}

}  // namespace truemax::soak
