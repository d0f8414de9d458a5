#include "step_cost.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "data/load.hpp"
#include "evaluate/evaluate.hpp"
#include "made_data.hpp"
#include "plan_of.hpp"
#include "rule/methods.hpp"
#include "timing.hpp"
#include "touch.hpp"
#include "train/fit.hpp"
#include "train/resolve.hpp"
#include "train/start.hpp"
#include "train/step_inputs.hpp"

namespace truemax {
namespace {

class Settings {
 public:
  explicit Settings(const std::map<std::string, std::string>& given) : given_(given) {}
  std::string text(const char* key, const std::string& missing) const {
    const auto found = given_.find(key);
    return found == given_.end() ? missing : found->second;
  }
  double number(const char* key, double missing) const {
    const auto found = given_.find(key);
    return found == given_.end() ? missing : std::stod(found->second);
  }
  std::size_t count(const char* key, std::size_t missing) const {
    const auto found = given_.find(key);
    return found == given_.end() ? missing : std::stoul(found->second);
  }

 private:
  const std::map<std::string, std::string>& given_;
};

DataView load(const std::string& path, const Settings& settings) {
  if (path.empty())
    return make_data({.rows = settings.count("rows", 100000),
                      .features = settings.count("features", 1000),
                      .nonzeros = settings.count("nonzeros", 20)},
                     settings.count("classes", 1000000), settings.number("skew", 1));
  std::vector<std::string> notes;
  PreprocessOptions preprocess;
  preprocess.normalize = Normalize::l2;
  preprocess.max_features = 10000;
  return make_training_set(read_rows(path, {}, settings.count("rows", 100000), 1, notes), preprocess);
}

// Of prox without a draw: as --method auto chooses it.
Recipe options_of(const DataView& data, const Settings& settings) {
  const std::string method = settings.text("method", "implicit"), draw = settings.text("draw", "");
  const bool prox = method == "prox", chooses = prox && draw.empty();
  Asked asked;
  if (!chooses) asked.method = method;
  asked.encoder = EncoderKind::linear;
  asked.step = settings.number("step", 10);
  asked.schedule = Schedule::decay;
  asked.intercept = false, asked.ridge = 0, asked.newton = 0;
  asked.epochs = settings.count("epochs", std::clamp<std::size_t>(1000000 / data.size(), 1, 50));
  asked.visit = prox ? Visit::shuffle : Visit::random;
  if (!chooses) {
    asked.classes_per_step = settings.count("classes_per_step", prox ? kBlockClasses : 1);
    if (!draw.empty()) asked.draw = draw;
  }
  asked.threads = settings.count("threads", 1);
  asked.lock_free = settings.count("lock_free", 0) != 0;
  asked.device = device::kCpu;
  const Problem problem = facts_of({data}, false, resolve_reading(asked, {}, {}).wanted, 1);
  Recipe options = resolve(asked, problem, machine_of(*asked.threads, 0, problem), {}).recipe;
  if (prox) options.draws.head = settings.count("head", options.draws.head);
  return options;
}

}  // namespace

int bench_steps(const std::string& path, const std::map<std::string, std::string>& given) {
  const Settings settings(given);
  const DataView data = load(path, settings);
  const Recipe options = options_of(data, settings);
  const auto rounds = settings.count("rounds", 5);
  const std::atomic<bool> stop{false};
  RunState state = make_state(data, options);
  touch_pages(state.weights);
  StepLoop loop(data, plan_of(data, options));
  const std::unique_ptr<Draw> draw = draw_for(options, facts_of(data));
  const auto train = [&] {
    for (std::size_t e = 0; e < options.epochs; ++e) loop.run(state, stop, nullptr);
  };

  // Correctness first: the timed run must learn. Not required of generated rows, whose labels are unrelated
  // to their features.
  train();
  double loss = 0;
  if (!path.empty() && settings.count("check", 1) != 0) {
    loss = evaluate(state.weights, data, 2)->log_loss;
    const double baseline = evaluate_class_frequencies(data).log_loss;
    if (!(loss < baseline)) {
      fmt::print(stderr, "{} reached log-loss {}, class frequencies {}: nothing to time\n", options.method,
                 loss, baseline);
      return 1;
    }
  }

  const Trace trace = trace_of(data, options, draw.get(), 0);
  double seconds = 1e300, in_order = 1e300, together = 1e300;
  // Several threads can only be timed by the wall clock.
  const auto clock = [&] { return options.threads == 1 ? thread_seconds() : now(); };
  const auto timed = [&](double& best, const auto& work) {
    const double start = clock();
    work();
    best = std::min(best, clock() - start);
  };
  for (std::size_t round = 0; round < rounds; ++round) {
    timed(seconds, train);
    for (const TouchWay& way : kInOrder) timed(in_order, [&] { touch_epoch(data, trace, state, way); });
    for (const TouchWay& way : kTogether) timed(together, [&] { touch_epoch(data, trace, state, way); });
  }
  seconds /= static_cast<double>(options.epochs);
  const double n = static_cast<double>(data.size());
  const double lines = trace.begin.size() == 1 ? static_cast<double>(trace.places.size())
                                               : static_cast<double>(trace.places.size()) / n;
  nlohmann::ordered_json out{{"data", path.empty() ? "generated" : path},
                             {"method", options.method},
                             {"draw", find_method(options.method).whole_set ? "all" : options.draw},
                             {"threads", options.threads},
                             {"lock_free", options.lock_free},
                             {"rows", data.size()},
                             {"features", data.space->features},
                             {"classes", data.classes->size()},
                             {"nonzeros_per_row", data.nonzeros_per_row()},
                             {"lines_per_step", lines * data.nonzeros_per_row()},
                             {"log_loss", loss},
                             {"steps_per_second", n / seconds},
                             {"touch_steps_per_second", n / in_order},
                             {"share", in_order / seconds},
                             {"touch_together_steps_per_second", n / together},
                             {"share_of_together", together / seconds}};
  fmt::print("{}\n", out.dump());
  return 0;
}

}  // namespace truemax
