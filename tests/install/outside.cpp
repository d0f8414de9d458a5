// A small project outside the tree: finds truemax, trains, saves, loads, evaluates and predicts through the
// public header.
#include <cmath>
#include <cstdio>
#include <fstream>
#include <truemax/truemax.hpp>

namespace tmx = truemax::api;

static int failed(const char* what) {
  std::printf("failed: %s\n", what);
  return 1;
}

int main() {
  {
    std::ofstream out("train.txt");
    for (int i = 0; i < 300; ++i)
      out << "class" << i % 3 << ' ' << i % 3 + 1 << ":1 " << i % 5 + 4 << ":0.5\n";
  }
  const tmx::Data data = tmx::Data::read("train.txt", {{"format", "libsvm"}, {"normalize", "l2"}});
  if (data.rows() != 300 || data.classes() != 3 || data.features() != 8) return failed("the data");
  int evaluations = 0;
  const tmx::Model model =
      tmx::Model::train(data, {{"method", "implicit"}, {"step", "10"}, {"epochs", "20"}, {"eval-every", "5"}},
                        [&](const tmx::Evaluation& e) { return e.train && ++evaluations > 0; });
  if (evaluations != 4) return failed("the callback");
  const tmx::Metrics before = model.evaluate(data);
  if (!(before.log_loss < 0.2) || before.error != 0) return failed("the training");
  model.save("model.safetensors");
  const tmx::Model again = tmx::Model::load("model.safetensors");
  const tmx::Metrics after = again.evaluate(tmx::Data::read_for(again, "train.txt", {{"format", "libsvm"}}));
  if (after.log_loss != before.log_loss || again.class_names().at(1) != "class1") return failed("the file");
  const auto predictions = again.predict("train.txt", 3, {{"format", "libsvm"}});
  double sum = 0;
  for (const tmx::Prediction& p : predictions.at(1)) sum += p.probability;
  if (predictions.size() != 300 || predictions[1][0].name != "class1" || std::abs(sum - 1) > 1e-12)
    return failed("the prediction");
  try {
    tmx::Model::train(data, {{"step", "-1"}});
    return failed("a wrong option");
  } catch (const tmx::Error& error) {
    std::printf("refused as it should be: %s\n", error.what());
  }
  std::printf("truemax %s: log-loss %.4f\n", truemax::kVersion, after.log_loss);
  return 0;
}
