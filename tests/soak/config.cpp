#include "config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "data_files.hpp"
#include "draw/draw.hpp"
#include "rule/methods.hpp"

namespace truemax::soak {

Random::Random(std::uint64_t seed, std::uint64_t number)
    : state_(seed * 0x9E3779B97F4A7C15ULL ^ (number + 1) * 0xD1B54A32D192ED03ULL) {}

// SplitMix64.
std::uint64_t Random::bits() {
  std::uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31U);
}

double Random::log_between(double low, double high) {
  return std::exp(std::log(low) + unit() * (std::log(high) - std::log(low)));
}

std::string Config::value(const std::string& name) const {
  for (const auto& [option, text] : options)
    if (option == name) return text;
  return "";
}

void Config::leave_out(const std::string& name) {
  std::erase_if(options, [&](const auto& option) { return option.first == name; });
}

std::string Config::command() const {
  std::string text = "truemax train " + data;
  for (const auto& [name, value] : options) {
    if (value == "on" || value == "off")
      text += fmt::format(" --{}{}", value == "on" ? "" : "no-", name);
    else
      text += fmt::format(" --{} {}", name, value);
  }
  return text;
}

namespace {

std::string number(double v) {
  return fmt::format("{:.9g}", v);
}

void add_step(Random& random, Config& config) {
  config.set("step",
             number(random.chance(0.15) ? random.of<double>({1e-8, 1, 1e8}) : random.log_between(1e-8, 1e8)));
  if (random.chance(0.4))
    config.set("schedule", "linear");
  else if (random.chance(0.5))
    config.set("decay", number(random.of<double>({1e-3, 0.5, 1})));
  config.set("visit", random.of<std::string>({"random", "shuffle", "file"}));
  config.set("seed", std::to_string(random.below(1000)));
}

void add_ridge(Random& random, Config& config) {
  if (random.chance(0.5))
    config.set("ridge", number(random.chance(0.1) ? 1e6 : random.log_between(1e-6, 1e6)));
  if (random.chance(0.5)) {
    config.set("intercept", "on");
    if (random.chance(0.3)) config.set("ridge-intercept", "on");
    if (random.chance(0.3)) config.set("start-at-frequencies", "on");
  }
}

void add_draw(Random& random, Config& config, std::uint64_t rows, bool any_classes) {
  std::vector<std::string> names;
  for (const DrawInfo& info : draws())
    if (rows == 1 || info.takes_rows) names.emplace_back(info.name);
  const std::string& name = random.of(names);
  config.set("draw", name);
  if (any_classes && find_draw(name).takes_count)
    config.set("classes-per-step", std::to_string(random.chance(0.3) ? 1 : random.between(1, 40)));
  if (random.chance(0.3)) config.set("draw-power", number(random.of<double>({0, 0.5, 1, 2})));
  if (random.chance(0.2)) config.set("draw-uniform", number(random.of<double>({1e-6, 0.5, 1})));
  if (random.chance(0.5)) config.set("head", std::to_string(random.below(40)));
  if (random.chance(0.5)) config.set("active", std::to_string(random.between(1, 20)));
}

void add_rule(Random& random, Config& config, const std::string& method) {
  if (!random.chance(0.4)) return;
  if (method == "umax") config.set("delta", number(random.of<double>({1e-3, 0.1, 10, 100})));
  if (method == "umax" || method == "vanilla")
    config.set("double-sum-alpha", number(random.of<double>({0, 0.5, 1})));
  if (method == "nce" || method == "importance") config.set("log-q", random.chance(0.5) ? "on" : "off");
  if (method == "nce" && random.chance(0.5)) config.set("label-noise", "on");
  if (method == "raman") config.set("refresh", std::to_string(random.between(1, 3)));
  if (method == "composition") config.set("running-rate", number(random.of<double>({0.01, 0.9, 1})));
  if (method == "prox" || method == "scent") {
    config.set("rho", number(random.log_between(1e-6, 1e6)));
    config.set("rho-falls", random.chance(0.5) ? "on" : "off");
  }
  if (method == "sox") config.set("sox-rate", number(random.log_between(1e-6, 1)));
  if (method == "softplus") config.set("softplus-bend", number(random.log_between(1e-6, 1)));
}

void add_linear(Random& random, Config& config) {
  std::vector<std::string> names{"bsgd"};
  for (const MethodInfo* info : methods()) names.emplace_back(info->name);
  const std::string& method = random.of(names);
  const MethodInfo& info = find_method(method);
  config.set("method", method);
  std::uint64_t rows = random.chance(0.5) ? 1 : random.between(1, 20);
  rows = std::min<std::uint64_t>(rows, info.most_rows);
  if (rows > 1) config.set("rows-per-step", std::to_string(rows));
  if (!info.whole_set) add_draw(random, config, rows, info.most_classes > 1);
  add_rule(random, config, method);
  add_ridge(random, config);
  if (random.chance(0.07)) config.set("newton", std::to_string(random.between(1, 5)));
}

void add_learnt(Random& random, Config& config) {
  config.set("method", "scent");
  config.set("hidden", std::to_string(2 * random.between(1, 12)));
  const std::uint64_t rows = random.between(1, 40);
  config.set("rows-per-step", std::to_string(rows));
  add_draw(random, config, rows, true);
  add_rule(random, config, "scent");
  const bool text = config.kind == "context" || config.kind == "cbow" || config.kind == "skipgram";
  if (text) {
    config.set("format", "text");
    config.set("encoder", config.kind);
    config.set("context", std::to_string(random.between(1, 5)));
    if (config.kind == "context" && random.chance(0.4)) config.set("layers", "1");
    if (config.kind != "skipgram" && random.chance(0.4)) config.set("tied", "on");
    if (random.chance(0.2)) config.set("min-count", "2");
  }
  if (config.kind == "triples") config.set("format", "triples");
  if (random.chance(0.3)) config.set("row-state", "on");
  if (config.kind != "skipgram" && random.chance(0.3))
    config.set("dropout", number(random.of<double>({0.1, 0.5, 0.95})));
  if (random.chance(0.5)) config.set("ridge", number(random.log_between(1e-6, 1e6)));
  if (config.kind != "triples" && random.chance(0.5)) config.set("intercept", "on");
}

}  // namespace

Config make_config(std::uint64_t seed, std::uint64_t number_of_config, const std::string& folder) {
  Random random(seed, number_of_config);
  Config config;
  config.seed = seed, config.number = number_of_config;
  config.kind = random.of<std::string>({"linear", "linear", "linear", "linear", "linear", "linear", "bag",
                                        "context", "cbow", "skipgram", "triples"});
  if (config.kind == "linear")
    add_linear(random, config);
  else
    add_learnt(random, config);
  add_step(random, config);
  config.set("epochs", std::to_string(random.between(1, 3)));
  write_data(random, config, folder);
  // A step cannot have more rows than the data, of which some are dropped or set aside.
  if (const std::string rows = config.value("rows-per-step");
      !rows.empty() && std::stoull(rows) > config.rows / 3)
    config.leave_out("rows-per-step");
  if (config.rows > 200) config.leave_out("newton");  // it takes time with many rows and classes
  config.threads = random.between(1, 3);
  config.other_threads = random.between(1, 3);
  config.interrupted_at = random.unit();
  config.set("threads", std::to_string(config.threads));
  return config;
}

}  // namespace truemax::soak
