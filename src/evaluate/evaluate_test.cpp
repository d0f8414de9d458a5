// LongDouble evaluation against a slow version in long double.
#include "evaluate/evaluate.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <set>
#include <sstream>
#include <vector>

#include "data/load.hpp"
#include "data/test_access.hpp"
#include "data/test_support.hpp"
#include "weights/kernels.hpp"

namespace truemax {
namespace {

using LongDouble = long double;
using Engine = std::mt19937_64;

// Classes named by numbers, so that names sort by value; some counts are equal.
std::shared_ptr<const ClassList> numbered_classes(Engine& random, std::size_t classes) {
  std::vector<std::string> names;
  std::vector<double> counts;
  std::uniform_int_distribution<int> count(1, 5);
  for (std::size_t k = 0; k < classes; ++k) {
    names.push_back(std::to_string(k * 7 % 1000));
    counts.push_back(count(random));
  }
  return std::make_shared<ClassList>(names, counts);
}

struct Shape {
  std::size_t rows = 100, classes = 20, features = 10;
  bool all_labels = false;  // one weighted example per label
  bool unseen = false;      // some labels are not a class
  bool weighted = false;    // rows and classes have weights
};

// Row weights of 0.25 to 4 and class weights of 0.5 to 8, exact in binary.
void add_weights(Engine& random, Dataset& data) {
  std::uniform_int_distribution<int> row_power(-2, 2), class_power(-1, 3);
  for (std::size_t i = 0; i < data.rows.rows(); ++i)
    data.row_weight.push_back(std::ldexp(1.0, row_power(random)));
  for (ClassId k = 0; k < data.classes->size(); ++k)
    data.class_weight.push_back(std::ldexp(1.0, class_power(random)));
  std::vector<double> weight;
  for (std::size_t e = 0; e < data.size(); ++e)
    weight.push_back(weight_of(data, e) * weight_of_row(data, row_of(data, e)) *
                     data.weight_of_class(data.label[e]));
  data.weight = std::move(weight);
}

Dataset random_data(Engine& random, const Shape& shape) {
  Dataset data;
  data.classes = numbered_classes(random, shape.classes);
  auto space = std::make_shared<FeatureSpace>();
  space->features = static_cast<FeatureId>(shape.features);
  data.space = space;
  std::normal_distribution<float> normal;
  std::uniform_int_distribution<ClassId> any(0, static_cast<ClassId>(shape.classes - 1));
  std::uniform_int_distribution<int> few(1, 4), die(0, 5);
  for (std::size_t i = 0; i < shape.rows; ++i) {
    for (FeatureId f = 0; f < shape.features; ++f)
      if (die(random) < 2) data.rows.index.push_back(f), data.rows.value.push_back(normal(random));
    data.rows.begin.push_back(data.rows.index.size());
    std::set<ClassId> labels;
    const int wanted = few(random);
    while (static_cast<int>(labels.size()) < std::min<int>(wanted, static_cast<int>(shape.classes) - 1))
      labels.insert(shape.unseen && die(random) == 0 ? kUnseenClass : any(random));
    std::vector<ClassId> list(labels.begin(), labels.end());
    std::shuffle(list.begin(), list.end(), random);
    data.label_set.insert(data.label_set.end(), list.begin(), list.end());
    data.label_begin.push_back(data.label_set.size());
    if (!shape.all_labels) list.resize(1);
    for (const ClassId y : list) {
      if (y == kUnseenClass) {
        ++data.statistics.unseen;
        continue;
      }
      data.label.push_back(y);
      data.example_row.push_back(static_cast<RowId>(i));
      data.weight.push_back(1.0F / static_cast<float>(list.size()));
    }
  }
  if (!shape.all_labels) data.weight = {};
  if (!shape.all_labels && !shape.unseen) data.example_row = {};
  if (shape.weighted) add_weights(random, data);
  return data;
}

Weights random_weights(Engine& random, const Shape& shape, bool intercept, double scale) {
  Weights w(shape.classes, shape.features, intercept);
  std::normal_distribution<double> normal(0, scale);
  std::vector<float> row(shape.features);
  for (ClassId k = 0; k < shape.classes; ++k) {
    for (float& v : row) v = static_cast<float>(normal(random));
    w.set_class(k, row);
    if (intercept) w.intercept()[k] = static_cast<float>(normal(random));
  }
  return w;
}

// The figures from their definitions. z(row, k): the score.
template <class Score>
Metrics slow_metrics(const Dataset& data, Score&& z) {
  const std::size_t classes = data.classes->size();
  LongDouble weight = 0, loss = 0, wrong = 0, row_weights = 0;
  std::vector<LongDouble> bin_gap(15, 0);
  std::vector<LongDouble> hits(3, 0);
  Metrics m;
  for (std::size_t row = 0; row < data.rows.rows(); ++row) {
    std::vector<LongDouble> score(classes);
    for (ClassId k = 0; k < classes; ++k) score[k] = z(row, k);
    std::vector<ClassId> order(classes);
    std::iota(order.begin(), order.end(), 0U);
    std::sort(order.begin(), order.end(), [&](ClassId a, ClassId b) {
      return score[a] != score[b] ? score[a] > score[b]
                                  : std::stoi(data.classes->name(a)) < std::stoi(data.classes->name(b));
    });
    LongDouble sum = 0;
    for (const LongDouble s : score) sum += std::exp(s - score[order[0]]);
    const LongDouble log_sum = score[order[0]] + std::log(sum), confidence = 1 / sum;
    std::size_t bin = 0;
    while (bin < 14 && confidence >= static_cast<LongDouble>(bin + 1) / 15) ++bin;
    const std::set<ClassId> labels(
        data.label_set.begin() + static_cast<std::ptrdiff_t>(data.label_begin[row]),
        data.label_set.begin() + static_cast<std::ptrdiff_t>(data.label_begin[row + 1]));
    const LongDouble row_weight = static_cast<LongDouble>(weight_of_row(data, row));
    row_weights += row_weight;
    for (std::size_t i = 0; i < 3; ++i)
      for (std::size_t t = 0; t < std::min(kPrecisionAt[i], classes); ++t)
        hits[i] += labels.count(order[t]) > 0 ? row_weight : 0;
    for (std::size_t e = 0; e < data.size(); ++e) {
      if (row_of(data, e) != row) continue;
      const LongDouble w = static_cast<LongDouble>(weight_of(data, e));
      const bool correct = order[0] == data.label[e];
      weight += w;
      loss += w * (log_sum - score[data.label[e]]);
      if (!correct) wrong += w;
      bin_gap[bin] += w * ((correct ? 1 : 0) - confidence);
      ++m.examples;
    }
  }
  m.log_loss = static_cast<double>(loss / weight);
  m.error = static_cast<double>(wrong / weight);
  for (const LongDouble gap : bin_gap) m.calibration_error += static_cast<double>(std::abs(gap) / weight);
  for (std::size_t i = 0; i < 3; ++i)
    m.precision[i] = static_cast<double>(hits[i] / (row_weights * static_cast<LongDouble>(kPrecisionAt[i])));
  return m;
}

Metrics slow_metrics(const Weights& w, const Dataset& data) {
  return slow_metrics(data, [&](std::size_t row, ClassId k) {
    return static_cast<LongDouble>(score(w, data.rows.row(row), k));
  });
}

void expect_close(const Metrics& fast, const Metrics& slow, double slack) {
  EXPECT_NEAR(fast.log_loss, slow.log_loss, slack * (1 + slow.log_loss));
  EXPECT_NEAR(fast.error, slow.error, slack);
  EXPECT_NEAR(fast.calibration_error, slow.calibration_error, slack);
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_NEAR(fast.precision[i], slow.precision[i], slack) << kPrecisionAt[i];
  EXPECT_EQ(fast.examples, slow.examples);
}

void expect_same_bits(const Metrics& a, const Metrics& b) {
  EXPECT_EQ(a.log_loss, b.log_loss);
  EXPECT_EQ(a.error, b.error);
  EXPECT_EQ(a.calibration_error, b.calibration_error);
  EXPECT_EQ(a.precision, b.precision);
  EXPECT_EQ(a.examples, b.examples);
}

TEST(Evaluate, MatchesBruteForceOnSmallData) {
  Engine random(1);
  for (const std::size_t classes : {2U, 3U, 5U, 17U, 40U})
    for (const bool all_labels : {false, true})
      for (const bool unseen : {false, true})
        for (const double scale : {0.1, 1.0, 30.0}) {
          const Shape shape{.rows = 150, .classes = classes, .all_labels = all_labels, .unseen = unseen};
          const Dataset data = random_data(random, shape);
          const Weights w = random_weights(random, shape, scale < 10, scale);
          const auto fast = evaluate(w, data, 1);
          ASSERT_TRUE(fast);
          expect_close(*fast, slow_metrics(w, data), 1e-12);
          EXPECT_EQ(fast->statistics.unseen, data.statistics.unseen);
        }
}

TEST(Evaluate, SameBitsForAnyNumberOfThreads) {
  Engine random(2);
  const Shape shape{.rows = 3000, .classes = 33, .all_labels = true, .unseen = true};
  const Dataset data = random_data(random, shape);
  const Weights w = random_weights(random, shape, true, 1);
  const Metrics one = *evaluate(w, data, 1);
  for (const std::size_t threads : {2U, 3U, 4U, 5U, 16U}) expect_same_bits(*evaluate(w, data, threads), one);
}

// More rows than one slice holds; some have no example, some several.
TEST(Evaluate, CountsEachRowAndExampleOnceOverManySlices) {
  Engine random(3);
  const Shape shape{.rows = 140000, .classes = 6, .features = 3, .all_labels = true, .unseen = true};
  const Dataset data = random_data(random, shape);
  const Weights w = random_weights(random, shape, true, 1);
  const Metrics fast = *evaluate(w, data, 2);
  // The slow version scans all examples for each row, too slow here: sum over the examples directly.
  LongDouble loss = 0, weight = 0, wrong = 0, hits = 0;
  for (std::size_t e = 0; e < data.size(); ++e) {
    const RowView x = x_of(data, e);
    std::vector<LongDouble> z(6);
    for (ClassId k = 0; k < 6; ++k) z[k] = static_cast<LongDouble>(score(w, x, k));
    LongDouble sum = 0;
    for (const LongDouble s : z) sum += std::exp(s - z[data.label[e]]);
    const LongDouble of_one = static_cast<LongDouble>(weight_of(data, e));
    weight += of_one;
    loss += of_one * std::log(sum);
    const auto best = static_cast<ClassId>(std::max_element(z.begin(), z.end()) - z.begin());
    wrong += best == data.label[e] ? 0 : of_one;
    hits += best == data.label[e] ? 1 : 0;  // every seen label of a row is an example
  }
  EXPECT_EQ(fast.examples, data.size());
  EXPECT_NEAR(fast.log_loss, static_cast<double>(loss / weight), 1e-10);
  // A row without features has the intercepts as scores; they all differ, so there are no ties.
  EXPECT_NEAR(fast.error, static_cast<double>(wrong / weight), 1e-10);
  EXPECT_NEAR(fast.precision[0], static_cast<double>(hits / 140000), 1e-10);
  expect_same_bits(*evaluate(w, data, 1), fast);
}

TEST(Evaluate, TiesGoToTheFirstClassByName) {
  // In descending order of count the classes are 30, 9, 100, 2; by name 2, 9, 30, 100.
  Dataset data;
  data.classes = std::make_shared<ClassList>(std::vector<std::string>{"2", "9", "30", "100"},
                                             std::vector<double>{1, 3, 4, 2});
  data.space = std::make_shared<FeatureSpace>();
  for (const char* name : {"2", "9", "30", "100"}) {
    data.rows.begin.push_back(0);
    data.label.push_back(data.classes->find(name));
    data.label_set.push_back(data.label.back());
    data.label_begin.push_back(data.label_set.size());
  }
  const Metrics m = *evaluate(Weights(4, 1, false), data, 1);
  EXPECT_EQ(m.error, 0.75);  // right only for class 2
  EXPECT_EQ(m.precision[0], 0.25);
  EXPECT_DOUBLE_EQ(m.precision[1], 0.25);  // the top three are 2, 9 and 30
  EXPECT_DOUBLE_EQ(m.log_loss, std::log(4.0));
  data.label_set = {data.classes->find("100"), data.classes->find("100"), data.classes->find("100"),
                    data.classes->find("2")};
  EXPECT_DOUBLE_EQ(evaluate(Weights(4, 1, false), data, 1)->precision[1], 1.0 / 12);
}

TEST(Evaluate, ErrorIsZeroIfPerfectAndOneIfAllWrong) {
  Dataset data;
  data.classes =
      std::make_shared<ClassList>(std::vector<std::string>{"0", "1", "2"}, std::vector<double>{3, 2, 1});
  data.space = std::make_shared<FeatureSpace>();
  Weights right(3, 3, false), wrong(3, 3, false);
  for (ClassId k = 0; k < 3; ++k) {
    data.rows.index.push_back(k), data.rows.value.push_back(1);
    data.rows.begin.push_back(k + 1);
    data.label.push_back(k), data.label_set.push_back(k), data.label_begin.push_back(k + 1);
    std::vector<float> one(3, 0.0F);
    one[k] = 1000;
    right.set_class(k, one), wrong.set_class((k + 1) % 3, one);
  }
  const Metrics good = *evaluate(right, data, 1), bad = *evaluate(wrong, data, 1);
  EXPECT_EQ(good.log_loss, 0);
  EXPECT_EQ(good.error, 0);
  EXPECT_EQ(good.calibration_error, 0);
  EXPECT_EQ(good.precision[0], 1);
  EXPECT_EQ(bad.log_loss, 1000);
  EXPECT_EQ(bad.error, 1);
  EXPECT_EQ(bad.calibration_error, 1);
  EXPECT_EQ(bad.precision[0], 0);
  EXPECT_FALSE(bad.perplexity());
}

TEST(Evaluate, IsFiniteForExtremeFloatWeights) {
  Engine random(4);
  const Shape shape{.rows = 200, .classes = 18};
  const Dataset data = random_data(random, shape);
  const Weights w = random_weights(random, shape, true, 1e37);
  const Metrics m = *evaluate(w, data, 2);
  EXPECT_TRUE(std::isfinite(m.log_loss));
  expect_close(m, slow_metrics(w, data), 1e-12);
  EXPECT_FALSE(m.perplexity());
}

TEST(Evaluate, NoExamplesGiveZeroNotNaN) {
  Dataset data;
  Engine random(5);
  data.classes = numbered_classes(random, 5);
  data.space = std::make_shared<FeatureSpace>();
  const Metrics none = *evaluate(Weights(5, 1, false), data, 1);
  EXPECT_EQ(none.examples, 0U);
  EXPECT_EQ(none.log_loss, 0);
  EXPECT_EQ(none.precision[0], 0);
  data.rows.begin.push_back(0);  // one row, whose only label is unseen
  data.label_set = {kUnseenClass};
  data.label_begin.push_back(1);
  data.statistics.unseen = 1;
  const Metrics unseen = *evaluate(Weights(5, 1, false), data, 1);
  EXPECT_EQ(unseen.examples, 0U);
  EXPECT_EQ(unseen.log_loss, 0);
  EXPECT_EQ(unseen.error, 0);
  EXPECT_EQ(unseen.precision[2], 0);
  EXPECT_EQ(unseen.to_json()["unseen"], 1);
}

TEST(Evaluate, ReturnsNothingWhenStopped) {
  Engine random(6);
  const Shape shape;
  const Dataset data = random_data(random, shape);
  const Weights w = random_weights(random, shape, false, 1);
  std::atomic<bool> stop{false};
  EXPECT_TRUE(evaluate(w, data, 2, &stop));
  stop = true;
  EXPECT_FALSE(evaluate(w, data, 2, &stop));
}

TEST(ClassFrequencies, MatchTheModelOfLogCounts) {
  Engine random(7);
  for (const std::size_t classes : {2U, 4U, 23U})
    for (const bool all_labels : {false, true}) {
      const Shape shape{.rows = 120, .classes = classes, .all_labels = all_labels, .unseen = true};
      const Dataset data = random_data(random, shape);
      const Metrics slow = slow_metrics(data, [&](std::size_t, ClassId k) {
        return std::log(static_cast<LongDouble>(data.classes->count(k)));
      });
      expect_close(evaluate_class_frequencies(data), slow, 1e-12);
    }
}

TEST(Evaluate, WeightsExamplesAndPrecisionByRow) {
  Engine random(8);
  for (const bool all_labels : {false, true})
    for (const bool unseen : {false, true}) {
      const Shape shape{.rows = 150, .all_labels = all_labels, .unseen = unseen, .weighted = true};
      const Dataset data = random_data(random, shape);
      const Weights w = random_weights(random, shape, true, 1);
      expect_close(*evaluate(w, data, 2), slow_metrics(w, data), 1e-12);
    }
}

TEST(ClassFrequencies, CountWeightedExamples) {
  Engine random(9);
  for (const bool all_labels : {false, true}) {
    const Shape shape{.rows = 120, .all_labels = all_labels, .unseen = true, .weighted = true};
    const Dataset data = random_data(random, shape);
    const Metrics fast = evaluate_class_frequencies(data);
    const Metrics slow = slow_metrics(data, [&](std::size_t, ClassId k) {
      return std::log(static_cast<LongDouble>(data.classes->count(k) * data.weight_of_class(k)));
    });
    EXPECT_NEAR(fast.log_loss, slow.log_loss, 1e-12 * (1 + slow.log_loss));
  }
}

TEST(ClassFrequencies, RowOfWeightThreeEqualsThreeCopies) {
  Engine random(12);
  std::uniform_int_distribution<int> times(0, 3), label(0, 6), feature(0, 4);
  std::string once, often, weights;
  int many = 0;
  constexpr int kRows = 200;
  for (int i = 0; i < kRows; ++i) {
    const std::string row = std::to_string(label(random) * label(random) % 7) + "," +
                            std::to_string(label(random)) + "," + std::to_string(label(random)) + " " +
                            std::to_string(feature(random)) + ":1\n";
    const int count = times(random);
    once += row, many += count, weights += std::to_string(count) + "\n";
    for (int t = 0; t < count; ++t) often += row;
  }
  const TempFolder folder;
  ReadOptions weighted;
  weighted.row_weights = folder.write("w", weights);
  once = folder.write("once", std::to_string(kRows) + " 5 7\n" + once);
  often = folder.write("often", std::to_string(many) + " 5 7\n" + often);
  std::vector<std::string> notes;
  for (const LabelRule rule : {LabelRule::first, LabelRule::all})
    for (const char* class_weights : {"", "balanced"}) {
      PreprocessOptions options;
      options.labels = rule;
      const Dataset a = make_training_set(read_rows(once, weighted, 0, 1, notes), options, 0, class_weights);
      const Dataset b = make_training_set(read_rows(often, {}, 0, 1, notes), options, 0, class_weights);
      Metrics slow = evaluate_class_frequencies(b);
      slow.examples = a.size();
      expect_close(evaluate_class_frequencies(a), slow, 1e-12);
    }
}

// No other constant model has a smaller log-loss on the weighted training data.
TEST(ClassFrequencies, AreTheBestConstantModel) {
  Engine random(10);
  Dataset data = random_data(random, {.rows = 400, .classes = 6, .weighted = true});
  std::vector<double> row_sum(6, 0.0), share(6, 0.0);
  std::vector<std::string> names;
  double total = 0;
  for (std::size_t e = 0; e < data.size(); ++e) {
    row_sum[data.label[e]] += weight_of_row(data, row_of(data, e));
    share[data.label[e]] += weight_of(data, e);
    total += weight_of(data, e);
  }
  // Counts as in training. That may reorder the classes, so labels and weights are remapped.
  for (ClassId k = 0; k < 6; ++k) names.push_back(data.classes->name(k));
  const auto classes = std::make_shared<ClassList>(names, row_sum);
  std::vector<double> class_weight(6);
  for (ClassId k = 0; k < 6; ++k) class_weight[classes->find(names[k])] = data.class_weight[k];
  for (ClassId& y : data.label) y = classes->find(names[y]);
  for (ClassId& y : data.label_set) y = classes->find(names[y]);
  data.class_weight = class_weight;
  data.classes = classes;
  double entropy = 0;
  for (const double s : share)
    if (s > 0) entropy -= s / total * std::log(s / total);
  const Metrics m = evaluate_class_frequencies(data);
  EXPECT_NEAR(m.log_loss, entropy, 1e-12);
  EXPECT_NEAR(m.error, 1 - *std::max_element(share.begin(), share.end()) / total, 1e-12);
}

TEST(ClassFrequencies, TiesFromClassWeightsGoByFrequency) {
  Engine random(11);
  Dataset data = random_data(random, {.rows = 50, .classes = 7});
  data.classes = std::make_shared<ClassList>(std::vector<std::string>{"1", "2", "3", "4", "5", "6", "7"},
                                             std::vector<double>{49, 41, 31, 23, 13, 7, 3});
  double total = 0;
  for (ClassId k = 0; k < 7; ++k) total += data.classes->count(k);
  for (ClassId k = 0; k < 7; ++k) data.class_weight.push_back(total / (7 * data.classes->count(k)));
  double wrong = 0;
  for (const ClassId y : data.label) wrong += y != 0 ? 1 : 0;
  EXPECT_DOUBLE_EQ(evaluate_class_frequencies(data).error, wrong / static_cast<double>(data.size()));
}

TEST(Metrics, PerplexityThatOverflowsIsNullInJson) {
  Metrics m;
  m.log_loss = std::log(1000.0);
  EXPECT_NEAR(*m.perplexity(), 1000, 1e-9);
  EXPECT_NEAR(m.to_json()["perplexity"].get<double>(), 1000, 1e-9);
  m.log_loss = 709.7;
  EXPECT_TRUE(m.perplexity());
  for (const double loss : {709.8, 1e6, 1e300}) {
    m.log_loss = loss;
    EXPECT_FALSE(m.perplexity());
    EXPECT_TRUE(m.to_json()["perplexity"].is_null());
    EXPECT_EQ(nlohmann::json::parse(m.to_json().dump())["log_loss"], loss);
    EXPECT_NE(m.to_text().find("over 1e308"), std::string::npos);
  }
}

TEST(Metrics, JsonHasEveryFigureByName) {
  Metrics m;
  m.log_loss = 1.5, m.error = 0.25, m.calibration_error = 0.125, m.precision = {0.5, 0.375, 0.25},
  m.rows = 10, m.examples = 12;
  m.statistics.unseen = 3, m.statistics.rows_without_label = 4, m.statistics.rows_without_features = 5;
  const nlohmann::json json = m.to_json();
  EXPECT_EQ(json["log_loss"], 1.5);
  EXPECT_EQ(json["error"], 0.25);
  EXPECT_EQ(json["calibration_error"], 0.125);
  EXPECT_EQ(json["precision_at"]["1"], 0.5);
  EXPECT_EQ(json["precision_at"]["3"], 0.375);
  EXPECT_EQ(json["precision_at"]["5"], 0.25);
  EXPECT_EQ(json["rows"], 10);
  EXPECT_EQ(json["examples"], 12);
  EXPECT_EQ(json["unseen"], 3);
  EXPECT_EQ(json["rows_without_label"], 4);
  EXPECT_EQ(json["rows_without_features"], 5);
}

TEST(Metrics, TextLinesUp) {
  Metrics m;
  for (const double loss : {0.0, 3.25, 1e-9, 123456.0, 1e200}) {
    m.log_loss = loss;
    m.rows = 12345678, m.examples = 123456789;
    m.statistics.unknown_words = 7, m.statistics.unknown_features = 8;
    std::istringstream text(m.to_text());
    std::size_t lines = 0;
    for (std::string line; std::getline(text, line); ++lines) EXPECT_EQ(line.size(), 40U) << line;
    EXPECT_EQ(lines, 14U);
  }
}

}  // namespace
}  // namespace truemax
