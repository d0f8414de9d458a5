#include "gpu_cost.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "data/load.hpp"
#include "device/open.hpp"
#include "draw/alias.hpp"
#include "train/device_learnt_lane.hpp"

namespace truemax {
namespace {

constexpr int kSkipped = 77;

// A problem on the card: the rows of a file, with their labels or with random ones of more classes.
struct OnCard {
  OnCard(device::Engine& of, const PackedRows& rows, std::uint32_t features, std::uint32_t classes,
         std::vector<std::uint32_t> labels, std::uint32_t head, std::uint32_t draws)
      : engine(of), packed(rows), label(std::move(labels)), k(classes), d(features) {
    const std::uint32_t blocks = (k + 15) / 16, tail = blocks - head;
    std::vector<double> mass(tail, 0.0);
    for (const std::uint32_t y : label)
      if (y / 16 >= head) ++mass[y / 16 - head];
    const WeightedDraws draw(mixed_probabilities(mass, 1, 0.1), draws);
    std::vector<device::AliasCell> cells;
    std::vector<float> over_mean, norms;
    for (const AliasTable::Cell& cell : draw.cells()) cells.push_back({cell.keep, cell.other});
    for (std::size_t b = 0; b < tail; ++b) over_mean.push_back(static_cast<float>(1 / draw.mean_count(b)));
    for (std::size_t r = 0; r + 1 < packed.begin.size(); ++r) {
      float s = 0;
      for (std::uint64_t j = packed.begin[r]; j < packed.begin[r + 1]; ++j)
        s += packed.value[j] * packed.value[j];
      norms.push_back(s);
    }
    engine.set_weights({{}, {}, k, d}, false);
    engine.set_rows(packed.rows(), {{}, label, {}}, std::vector<double>(label.size(), std::log(k)), norms,
                    {head, draws, cells, over_mean});
  }

  // Seconds on the card of so many epochs whose step falls to a hundredth.
  double epochs(device::Method method, std::uint64_t count, double step) const {
    engine.report();
    for (std::uint64_t e = 0; e < count; ++e) {
      device::Leg leg;
      leg.method = method;
      leg.count = label.size();
      leg.order_key = 31 * e + 7, leg.draw_key = 7919 * e + 13;
      const auto share = [&](std::uint64_t at) {
        return 1 - 0.99 * static_cast<double>(at) / static_cast<double>(count);
      };
      leg.step = step * share(e), leg.last_step = step * share(e + 1);
      leg.rho = share(e), leg.rho_falls = true;
      leg.most_growth = 1e18;
      engine.take(leg);
    }
    return engine.report().seconds;
  }

  // Of the first `rows` rows: mean log-loss and seconds on the card.
  std::pair<double, double> evaluate(std::size_t rows) const {
    const std::span<const std::uint64_t> begin(packed.begin.data(), rows + 1);
    const auto there =
        engine.add_rows({begin, {packed.index.data(), begin.back()}, {packed.value.data(), begin.back()}},
                        {{}, {label.data(), rows}, {}});
    engine.pass(*there, 1);
    const device::Pass pass = engine.pass(*there, 1);
    double sum = 0;
    for (std::size_t i = 0; i < rows; ++i)
      sum += pass.highest[i] - pass.label_score[i] + std::log(pass.excess[i]);
    return {sum / static_cast<double>(rows), pass.seconds};
  }

  device::Engine& engine;
  const PackedRows& packed;
  std::vector<std::uint32_t> label;
  std::uint32_t k, d;
};

nlohmann::ordered_json measured(OnCard& problem, std::uint32_t blocks, std::uint64_t epochs, double step) {
  const auto n = static_cast<double>(problem.label.size());
  const double lines = blocks * static_cast<double>(problem.packed.index.size()) / n;
  problem.epochs(device::Method::prox, epochs, step);  // correctness is looked at by the caller
  double best = 1e300, touch = 1e300;
  for (int round = 0; round < 3; ++round) {
    touch = std::min(touch, problem.epochs(device::Method::touch, 20, step) / 20);
    best = std::min(best, problem.epochs(device::Method::prox, 20, step) / 20);
  }
  return {{"classes", problem.k},
          {"blocks_per_step", blocks},
          {"bytes_per_step", std::round(lines * 64 * 2)},
          {"prox_steps_per_second", std::round(n / best)},
          {"touch_steps_per_second", std::round(n / touch)},
          {"share_of_touch", touch / best},
          {"gigabytes_per_second", std::round(n / best * lines * 64 * 2 / 1e9)}};
}

}  // namespace

int bench_gpu(const std::string& path, const std::map<std::string, std::string>& settings) {
  const device::Found found = device::find();
  if (found.cards == 0) {
    fmt::print(stderr, "skipped: {}\n", found.missing);
    return kSkipped;
  }
  if (path.empty()) {
    fmt::print(stderr, "truemax_bench gpu: give a file, such as yso-finna-en's train.txt.gz\n");
    return 2;
  }
  const auto count = [&](const char* key, std::uint64_t missing) {
    const auto at = settings.find(key);
    return at == settings.end() ? missing : std::stoull(at->second);
  };
  std::vector<std::string> notes;
  PreprocessOptions preprocess;
  preprocess.normalize = Normalize::l2;
  preprocess.max_features = count("features", 10000);
  const DataView data = make_training_set(read_rows(path, {}, count("rows", 100000), 2, notes), preprocess);
  const PackedRows packed(data);
  const std::vector<std::uint32_t> labels(packed.label.begin(), packed.label.end());
  const auto features = static_cast<std::uint32_t>(data.space->features);
  const auto classes = static_cast<std::uint32_t>(data.classes->size());
  const auto engine = device::open({device::Kind::cuda, 0});
  // only=run stops after the first.
  nlohmann::ordered_json out{{"card", engine->card().name},
                             {"rows", data.size()},
                             {"features", features},
                             {"nonzeros_per_row", data.nonzeros_per_row()}};
  {
    const auto tail = static_cast<std::uint32_t>(count("tail", 1));
    OnCard problem(*engine, packed, features, classes, labels, tail > 1 ? 1 : 0, tail);
    const std::uint64_t epochs = count("epochs", 80);
    problem.epochs(device::Method::prox, 0, 5);
    const double seconds =
        problem.epochs(device::Method::prox, epochs, static_cast<double>(count("step", 5)));
    const auto [loss, evaluation] = problem.evaluate(data.size());
    out["run"] = {{"epochs", epochs},
                  {"milliseconds", 1e3 * seconds},
                  {"log_loss", loss},
                  {"evaluation_milliseconds", 1e3 * evaluation}};
    if (!(loss < std::log(classes))) {
      fmt::print(stderr, "nothing was learnt (log-loss {}): nothing to time\n", loss);
      return 1;
    }
    if (settings.count("only") > 0) {
      fmt::print("{}\n", out.dump(1));
      return 0;
    }
    out["steps"].push_back(measured(problem, 2, 20, 5));
  }
  {
    OnCard problem(*engine, packed, features, classes, labels, 1, 14);
    const double seconds = problem.epochs(device::Method::prox, 50, 10);
    const auto [loss, evaluation] = problem.evaluate(data.size());
    out["many_blocks"] = {{"epochs", 50}, {"milliseconds", 1e3 * seconds}, {"log_loss", loss}};
    out["steps"].push_back(measured(problem, 16, 20, 10));
  }
  {
    const auto many = static_cast<std::uint32_t>(count("classes", 1000000));
    std::mt19937 random(1);
    std::vector<std::uint32_t> label(labels.size());
    for (std::uint32_t& y : label) y = static_cast<std::uint32_t>(random() % many);
    OnCard problem(*engine, packed, features, many, std::move(label), 0, 1);
    out["steps"].push_back(measured(problem, 2, 20, 10));
  }
  fmt::print("{}\n", out.dump(1));
  return 0;
}

}  // namespace truemax
