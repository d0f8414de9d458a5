// For tests: the slow, obvious version of the step loop. Any method, one step at a time, with W dense in
// double, ridge and smoothing applied at once to whole classes, and |W| recomputed in every step.
#pragma once

#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "data/data_view.hpp"
#include "data/test_access.hpp"
#include "draw/draw.hpp"
#include "rule/methods.hpp"
#include "solve/lbfgs.hpp"
#include "train/fit.hpp"
#include "train/visit_order.hpp"

namespace truemax {

struct SlowState {
  std::vector<std::vector<double>> w;  // [K][D + 1], the intercept last
  std::vector<std::vector<double>> s;  // the same, smoothed
  std::vector<double> u;
  std::vector<std::vector<double>> mean, square;  // of gradients, as w
  std::size_t projections = 0, updates = 0;
};

class SlowTrainer {
 public:
  SlowTrainer(const Dataset& data, const Recipe& options)
      : data_(data), options_(options), classes_(data.classes->size()), features_(data.space->features) {}

  template <class R>
  SlowState run() {
    SlowState state;
    state.w = std::vector(classes_, std::vector(features_ + 1, 0.0));
    state.s = state.mean = state.square = state.w;
    state.u.assign(data_.size(), R::kInfo.exact_start ? std::log(static_cast<double>(classes_)) : 0.0);
    if constexpr (R::kInfo.all_rows) return run_lbfgs(std::move(state));
    R rule(options_.rule, problem());
    const std::size_t n = options_.rows_per_step;
    const auto draw = make_draw({.name = options_.draw,
                                 .classes = classes_,
                                 .classes_per_step = options_.classes_per_step,
                                 .shared = n > 1,
                                 .label_mass = label_mass(),
                                 .examples = data_.size(),
                                 .options = options_.draws});
    VisitOrder order(options_.visit, options_.seed, data_.size(), n);
    std::uint64_t done = 0;
    for (std::uint64_t epoch = 0; epoch < options_.epochs; ++epoch) {
      order.start_epoch(epoch);
      if (R::kInfo.refreshes && epoch % options_.rule.refresh == 0) refresh(state);
      for (std::size_t t = 0; t * n < data_.size(); ++t) {
        if (options_.steps > 0 && done == options_.steps) return state;
        const double step_size = step_size_of(epoch, done++);
        std::vector<ExampleId> visited(std::min(n, data_.size() - t * n));
        order.fill(t * n, visited);
        std::vector<std::uint32_t> rows;
        for (const ExampleId i : visited) rows.push_back(number_of(i));
        std::vector<ClassId> labels;
        for (const std::uint32_t i : rows) labels.push_back(data_.label[i]);
        std::map<ClassId, double> drawn;  // class and weight
        DrawBuffer buffer;
        draw->fill(CounterRandom(options_.seed, Stream::draw, epoch), t, 1, labels, visited, buffer);
        for (std::size_t j = 0; j < buffer.count[0]; ++j) drawn[buffer.classes[j]] = buffer.weights[j];
        if (R::kInfo.whole_set)
          for (ClassId k = 0; k < classes_; ++k) drawn[k] = 1;
        step(rule, state, rows, drawn, *draw, step_size);
      }
    }
    return state;
  }

 private:
  using Row = std::vector<std::pair<std::size_t, double>>;

  Row row(std::uint32_t i) const {
    Row x;
    const RowView view = x_of(data_, i);
    for (std::size_t j = 0; j < view.index.size(); ++j)
      x.emplace_back(view.index[j], static_cast<double>(view.value[j]));
    if (options_.intercept) x.emplace_back(features_, 1.0);
    return x;
  }

  static double dot(const std::vector<double>& w, const Row& x) {
    double z = 0;
    for (const auto& [f, value] : x) z += w[f] * value;
    return z;
  }

  ProblemInfo problem() const {
    ProblemInfo info;
    info.rows = static_cast<double>(data_.size()), info.classes = static_cast<double>(classes_);
    info.ridge = options_.ridge, info.free_intercept = options_.intercept && !options_.ridge_intercept;
    for (std::uint32_t i = 0; i < data_.size(); ++i) {
      info.total_weight += truemax::weight_of(data_, i);
      double norm = 0;
      for (const auto& [f, value] : row(i))
        if (f < features_ || options_.ridge_intercept) norm += value * value;
      info.longest_row = std::max(info.longest_row, std::sqrt(norm));
    }
    return info;
  }

  // A linear step falls 200 times over the run, to a hundredth.
  double step_size_of(std::uint64_t epoch, std::uint64_t done) const {
    if (options_.schedule == Schedule::decay)
      return options_.step * std::pow(options_.decay, static_cast<double>(epoch));
    const std::uint64_t n = options_.rows_per_step, all = options_.epochs * ((data_.size() + n - 1) / n);
    const std::uint64_t total = options_.steps > 0 ? std::min(all, options_.steps) : all;
    const auto piece = static_cast<double>(200 * done / total);
    return options_.step * std::max(1 - piece / 200, 0.01);
  }

  void refresh(SlowState& state) const {
    for (std::uint32_t i = 0; i < data_.size(); ++i) {
      double sum = 0;
      for (const auto& w : state.w) sum += std::exp(dot(w, row(i)));
      state.u[i] = std::log(sum);
    }
  }

  std::vector<double> label_mass() const {
    std::vector<double> mass(classes_, 0.0);
    for (std::uint32_t i = 0; i < data_.size(); ++i) mass[data_.label[i]] += truemax::weight_of(data_, i);
    return mass;
  }

  double weight_of(std::uint32_t i) const { return truemax::weight_of(data_, i); }

  // The expected share of row weight in steps that have class k; rows are drawn without replacement, classes
  // independently. For each row, subtracts its weight in steps where no row and no draw brings the class.
  double inclusion(ClassId k, const Draw& draw, bool whole_set, std::size_t rows) const {
    if (whole_set) return 1;
    const bool blocks =
        draw.whole_blocks() && options_.rows_per_step == 1;  // then the label's block is included
    const auto brings = [&](std::uint32_t i) {
      return blocks ? data_.label[i] / 16 == k / 16 : data_.label[i] == k;
    };
    double bringing = 0, all = 0, missed = 0;
    for (std::uint32_t i = 0; i < data_.size(); ++i) bringing += brings(i) ? 1 : 0;
    double others_miss = 1;
    for (std::size_t j = 1; j < rows; ++j)
      others_miss *= 1 - bringing / static_cast<double>(data_.size() - j);
    for (std::uint32_t i = 0; i < data_.size(); ++i) {
      all += weight_of(i);
      if (!brings(i)) missed += weight_of(i) * std::max(others_miss, 0.0) * (1 - draw.inclusion(k));
    }
    return 1 - missed / all;
  }

  template <class R>
  void step(R& rule, SlowState& state, const std::vector<std::uint32_t>& rows,
            const std::map<ClassId, double>& drawn, Draw& draw, double step_size) const {
    std::map<ClassId, double> columns = drawn;
    for (const std::uint32_t i : rows) columns.emplace(data_.label[i], 0.0);
    std::vector<ClassId> k;
    for (const auto& [one, weight] : columns) k.push_back(one);
    const std::size_t n = rows.size();
    std::vector<double> score, smoothed, weight, gram, ridge, intercept, row_weight, log_q, u,
        c(n * k.size(), 0.0);
    std::vector<std::uint32_t> label;
    for (const std::uint32_t i : rows) {
      for (std::size_t j = 0; j < k.size(); ++j) {
        score.push_back(dot(state.w[k[j]], row(i)));
        smoothed.push_back(dot(state.s[k[j]], row(i)));
        weight.push_back(k[j] == data_.label[i] ? 0.0 : columns[k[j]]);
        if (k[j] == data_.label[i]) label.push_back(static_cast<std::uint32_t>(j));
      }
      for (const std::uint32_t j : rows) {
        std::vector<double> dense(features_ + 1, 0.0);
        for (const auto& [f, value] : row(j)) dense[f] = value;
        gram.push_back(dot(dense, row(i)));
      }
      row_weight.push_back(truemax::weight_of(data_, i));
      u.push_back(state.u[i]);
    }
    double of_step = 0, of_all = 0;  // sums of row weights
    for (const double one : row_weight) of_step += one;
    for (std::uint32_t i = 0; i < data_.size(); ++i) of_all += weight_of(i);
    for (const ClassId one : k) {
      const double beta = !draw.learns()         ? 1 / inclusion(one, draw, R::kInfo.whole_set, n)
                          : drawn.count(one) > 0 ? drawn.at(one)
                                                 : 1;
      ridge.push_back(1 + step_size / static_cast<double>(options_.rows_per_step) * options_.ridge * beta *
                              of_step / of_all);
      intercept.push_back(state.w[one][features_]);
      log_q.push_back(std::log(draw.mean_count(one)));
    }
    StepView view;
    view.rows = n, view.columns = k.size(), view.score = score.data(), view.weight = weight.data();
    view.label = label.data(), view.gram = gram.data(), view.row_weight = row_weight.data();
    view.log_q = log_q.data(), view.smoothed = smoothed.data();
    view.ridge = options_.ridge > 0 ? ridge.data() : nullptr;
    if (options_.ridge > 0 && options_.intercept && !options_.ridge_intercept)
      view.free_intercept = intercept.data();
    const double mean_weight = of_all / static_cast<double>(data_.size());
    view.step =
        (R::kInfo.by_weight ? 1 / mean_weight : step_size) / static_cast<double>(options_.rows_per_step);
    view.complete = draw.complete();
    view.decayed = step_size / options_.step;
    StepResult result{c.data(), u.data()};
    reserve_memory(rule, {view.rows, view.columns, view.columns});
    rule.step(view, result);
    if (R::kInfo.by_weight) {
      const double ridge_share =
          options_.ridge / of_all * of_step / mean_weight / static_cast<double>(options_.rows_per_step);
      return move_by_weight(state, rows, c, step_size, step_size * ridge_share);
    }
    for (std::size_t i = 0; i < n; ++i) {
      state.u[rows[i]] = u[i];
      for (std::size_t j = 0; j < k.size(); ++j)
        for (const auto& [f, value] : row(rows[i])) state.w[k[j]][f] += c[i * k.size() + j] * value;
    }
    if (options_.ridge > 0)
      for (std::size_t j = 0; j < k.size(); ++j)
        for (std::size_t f = 0; f < features_ + (options_.ridge_intercept ? 1 : 0); ++f) {
          state.w[k[j]][f] /= ridge[j];
          state.s[k[j]][f] /= ridge[j];
        }
    if (R::kInfo.projects) project(state);
    if (draw.learns() && !R::kInfo.whole_set) {
      std::vector<ClassId> seen;
      std::vector<double> of_seen;
      for (std::size_t j = 0; j < k.size(); ++j)
        if (j != label[0]) seen.push_back(k[j]), of_seen.push_back(score[j]);
      draw.learn(ExampleId{rows[0]}, seen, of_seen.data());
    }
    if constexpr (R::kInfo.has_companion) {
      const double b = rule.smoothing(view);
      for (ClassId one = 0; one < classes_; ++one)
        for (std::size_t f = 0; f <= features_; ++f)
          state.s[one][f] = (1 - b) * state.s[one][f] + b * state.w[one][f];
    }
  }

  // The root mean square of the values of a feature that are not 0; 1 for the intercept.
  double size_of(std::size_t feature) const {
    if (feature == features_) return 1;
    double square = 0, seen = 0;
    for (std::uint32_t i = 0; i < data_.size(); ++i)
      for (const auto& [f, value] : row(i))
        if (f == feature) square += value * value, seen += 1;
    return seen > 0 ? std::sqrt(square / seen) : 1;
  }

  // Of the rows that have a feature; 1 if none has.
  double share_of(std::size_t feature) const {
    double seen = 0;
    for (std::uint32_t i = 0; i < data_.size(); ++i)
      for (const auto& [f, value] : row(i))
        if (f == feature && value != 0) seen += 1;
    return seen > 0 ? seen / static_cast<double>(data_.size()) : 1;
  }

  // Adam in units of the features, with c of all classes and a ridge that is solved for.
  void move_by_weight(SlowState& state, const std::vector<std::uint32_t>& rows, const std::vector<double>& c,
                      double rate, double ridge) const {
    const auto t = static_cast<double>(state.updates++);
    const double of_square = 3 / (t + 3), of_mean = 1 - std::pow(0.9, t + 1);
    for (std::size_t f = 0; f <= features_; ++f) {
      const double size = size_of(f);
      const bool shrinks = f < features_ || options_.ridge_intercept;
      for (ClassId k = 0; k < classes_; ++k) {
        double g = 0;
        for (std::size_t i = 0; i < rows.size(); ++i)
          for (const auto& [feature, value] : row(rows[i]))
            if (feature == f) g += c[i * classes_ + k] * value / size;
        double &m = state.mean[k][f], &v = state.square[k][f], &w = state.w[k][f];
        m = 0.9 * m + 0.1 * g;
        v = (1 - of_square) * v + of_square * g * g;
        const double h = std::sqrt(v) + 1e-6;
        w = (w + rate * m / of_mean / h / size) / (1 + (shrinks ? ridge : 0) / (size * size * h));
      }
    }
  }

  // L-BFGS with the two loops over the vectors themselves, as in Nocedal & Wright, Algorithm 7.4, in units of
  // the features.
  SlowState run_lbfgs(SlowState state) const {
    using Vector = std::vector<double>;
    const std::size_t width = features_ + 1;
    const auto times = [](const Vector& a, const Vector& b) {
      double sum = 0;
      for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
      return sum;
    };
    double of_all = 0;
    for (std::uint32_t i = 0; i < data_.size(); ++i) of_all += weight_of(i);
    Vector unit(width);
    for (std::size_t f = 0; f < width; ++f) {
      unit[f] = 1 / size_of(f) / std::pow(share_of(f), 0.25);
      if (options_.ridge > 0 && (f < features_ || options_.ridge_intercept))
        unit[f] = std::min(unit[f], 1 / std::sqrt(options_.ridge / of_all));
    }
    // Loss at w, and the gradient.
    const auto evaluate = [&](const Vector& at, Vector& gradient) {
      double loss = 0;
      gradient.assign(at.size(), 0.0);
      const auto add_ridge = [&](std::size_t i) {
        const double w = at[i] * unit[i % width], mu = options_.ridge / of_all;
        if (i % width == features_ && !options_.ridge_intercept) return;
        loss += mu / 2 * w * w, gradient[i] += mu * w * unit[i % width];
      };
      for (std::size_t i = 0; i < at.size(); ++i) add_ridge(i);
      for (std::uint32_t i = 0; i < data_.size(); ++i) {
        Vector z(classes_, 0.0);
        double sum = 0;
        for (ClassId k = 0; k < classes_; ++k)
          for (const auto& [f, value] : row(i)) z[k] += at[k * width + f] * unit[f] * value;
        for (const double one : z) sum += std::exp(one - z[data_.label[i]]);
        loss += weight_of(i) / of_all * std::log(sum);
        for (ClassId k = 0; k < classes_; ++k)
          for (const auto& [f, value] : row(i))
            gradient[k * width + f] +=
                weight_of(i) / of_all * unit[f] * value *
                (std::exp(z[k] - z[data_.label[i]]) / sum - (k == data_.label[i] ? 1.0 : 0.0));
      }
      return loss;
    };
    Vector at(classes_ * width, 0.0), gradient, direction(at.size()), next(at.size()), there;
    std::vector<std::pair<Vector, Vector>> pairs;
    LineSearch search;
    const auto choose = [&](double loss) {
      direction = gradient;
      std::vector<double> a(pairs.size());
      for (std::size_t i = pairs.size(); i-- > 0;) {
        const auto& [s, y] = pairs[i];
        a[i] = times(s, direction) / times(s, y);
        for (std::size_t j = 0; j < y.size(); ++j) direction[j] -= a[i] * y[j];
      }
      const double scale = pairs.empty() ? 1 / std::sqrt(times(gradient, gradient))
                                         : times(pairs.back().first, pairs.back().second) /
                                               times(pairs.back().second, pairs.back().second);
      for (double& v : direction) v *= scale;
      for (std::size_t i = 0; i < pairs.size(); ++i) {
        const auto& [s, y] = pairs[i];
        const double b = times(y, direction) / times(s, y);
        for (std::size_t j = 0; j < s.size(); ++j) direction[j] += (a[i] - b) * s[j];
      }
      for (double& v : direction) v = -v;
      search.start(loss, times(direction, gradient), 1);
    };
    search.least = evaluate(at, gradient);
    choose(search.least);
    for (std::uint64_t epoch = 0; epoch < options_.epochs; ++epoch) {
      for (std::size_t i = 0; i < at.size(); ++i) next[i] = at[i] + search.length * direction[i];
      const double loss = evaluate(next, there);
      if (search.judge(loss, times(direction, there)) != LineSearch::Verdict::accepted) continue;
      Vector s = next, y = there;
      for (std::size_t i = 0; i < at.size(); ++i) s[i] -= at[i], y[i] -= gradient[i];
      pairs.emplace_back(s, y);
      at = next, gradient = there;
      choose(loss);
    }
    for (ClassId k = 0; k < classes_; ++k)
      for (std::size_t f = 0; f < width; ++f) state.w[k][f] = at[k * width + f] * unit[f];
    return state;
  }

  void project(SlowState& state) const {
    double total = 0;
    for (const auto& w : state.w)
      for (std::size_t f = 0; f < features_; ++f) total += w[f] * w[f];
    const double bound = problem().weight_bound();
    if (!(std::sqrt(total) > bound)) return;
    ++state.projections;
    for (auto& w : state.w)
      for (std::size_t f = 0; f < features_; ++f) w[f] *= bound / std::sqrt(total);
  }

  const Dataset& data_;
  Recipe options_;
  std::size_t classes_, features_;
};

// Runs the method named in the options.
inline SlowState slow_epochs(const Dataset& data, const Recipe& options) {
  SlowState state;
  Recipe of_rule = options;
  of_rule.rule = rule_options(options.method, options.rule);
  for_each_method([&]<class R>() {
    if (&R::kInfo == &find_method(options.method)) state = SlowTrainer(data, of_rule).run<R>();
  });
  return state;
}

}  // namespace truemax
