#include "train/learnt_step.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "solve/mirror.hpp"
#include "train/step_shape.hpp"
#include "weights/fast_tile.hpp"

namespace truemax {
namespace {

constexpr std::uint32_t kNotDrawn = std::numeric_limits<std::uint32_t>::max();
constexpr double kLargest = 1e15;          // of parameters and of x: their products stay far inside float32
constexpr double kLargestGradient = 1e18;  // its square stays inside float32
constexpr double kNothing = -std::numeric_limits<double>::infinity();
constexpr std::size_t kChunkClasses = 16;
// A sum over all rows consists of at most so many sums over at least so many rows.
constexpr std::size_t kSumsOfRows = 64, kRowsOfSum = 16;

void prefetch_numbers(const float* row, std::size_t count) {
  constexpr std::size_t kPerLine = 16;
  for (std::size_t i = 0; i < count; i += kPerLine) __builtin_prefetch(row + i);
}

double sum_without(const float* p, std::size_t count, std::size_t own) {
  double sum = 0;
  for (std::size_t j = 0; j < count; ++j)
    if (j != own) sum += static_cast<double>(p[j]);
  return sum;
}

}  // namespace

LearntStep::LearntStep(const LaneSetup& setup, std::size_t threads)
    : team_(threads),
      setup_(setup),
      encoder_(make_encoder(setup.data, setup.recipe)),
      hidden_(setup.recipe.hidden),
      rows_(setup.data, vector_share(setup.data, setup.recipe), setup.recipe.hidden),
      column_of_(setup.share ? setup.share->classes() : setup.data.classes->size(), kNotDrawn),
      scratch_(team_.size(), std::vector<float>(setup.recipe.hidden)),
      dropout_(setup.recipe.dropout, setup.recipe.seed, 0) {
  const StepShape shape = setup.plan.shape;
  const std::size_t rows = shape.rows, columns = std::min(shape.drawn, column_of_.size());
  x_.resize(rows * hidden_);
  dx_.resize(rows * hidden_);
  of_label_.resize(rows);
  label_score_.resize(rows);
  scale_.resize(rows);
  others_.resize(rows);
  highest_.resize(rows);
  most_.resize(rows);
  labels_.reserve(rows);
  inputs_.reserve(rows);
  begin_.reserve(rows + 1);
  input_.reserve(rows);
  u_.resize(rows);
  classes_.reserve(columns);
  offset_.reserve(columns);
  p_.reserve(rows * columns);
  gradient_.reserve(columns * hidden_);
  column_sum_.reserve(columns);
  panels_.reserve(columns, rows);
  labelled_.reserve(rows);
  touched_.reserve(columns + rows);
  scores_.reserve(hidden_, columns);
  to_rows_.reserve(columns, hidden_);
  to_classes_.reserve(rows, hidden_);
  const std::size_t tied =
      has_tied_vectors(setup.recipe, setup.data.space->of_triples()) ? columns + rows : 0;
  moved_.reserve(tied);
  moved_by_.resize(tied * hidden_);
  dropout_.reserve(rows, hidden_);
  rows_.reserve(rows, encoder_->longest_row());
  encoder_->reserve(rows, tied, rows_.own_vectors(), team_);
}

void LearntStep::take(const DrawnBatch& visited, std::size_t t, double step, double rho, RunState& state,
                      const std::function<void()>& meanwhile) {
  prepare(state, visited, t);
  score_and_solve(state, rho);
  apply(state, step, meanwhile);
}

void LearntStep::prepare(const RunState& state, const DrawnBatch& visited, std::size_t t) {
  for (const ClassId k : classes_) column_of_[k] = kNotDrawn;
  examples_ = visited.examples(t);
  labels_.clear();
  for (const ClassId y : visited.labels(t)) labels_.push_back(own_class(y));
  const std::span<const ClassId> drawn = visited.classes(t);
  const double* const weights = visited.weights(t);
  const std::vector<float>& intercept = state.learnt.intercept;
  classes_.clear(), offset_.clear();
  for (std::size_t j = 0; j < drawn.size(); ++j) {
    const ClassId k = own_class(drawn[j]);
    if (k == kNotOwn) continue;
    column_of_[k] = static_cast<std::uint32_t>(classes_.size());
    classes_.push_back(k);
    const double b = intercept.empty() ? 0.0 : static_cast<double>(intercept[k]);
    offset_.push_back(static_cast<float>(b + std::log(weights[j])));
  }
  find_inputs();
  rows_.fill(state.learnt, inputs_, setup_.ranks);
  encoder_->forward(state.learnt, rows_, x_.data(), team_);
  if (rows_.adds_up()) setup_.ranks.sum(std::span(x_.data(), inputs_.size() * hidden_));
  dropout_.draw(state.learnt.updates, x_.data(), inputs_.size(), hidden_, team_);
}

void LearntStep::find_inputs() {
  const DataView& data = setup_.data;
  inputs_.clear(), begin_.clear(), input_.clear();
  for (std::size_t i = 0; i < examples_.size(); ++i) {
    const bool again =
        i > 0 && data.shares_inputs() && data.row_of(examples_[i]) == data.row_of(examples_[i - 1]);
    if (!again) {
      begin_.push_back(static_cast<std::uint32_t>(i));
      inputs_.push_back(examples_[i]);
    }
    input_.push_back(static_cast<std::uint32_t>(inputs_.size() - 1));
  }
  begin_.push_back(static_cast<std::uint32_t>(examples_.size()));
}

bool LearntStep::fits(double largest, double rho) const {
  return learnt_step_fits(*encoder_, dropout_.rate(), largest, rho);
}

bool learnt_step_fits(const Encoder& encoder, double dropout, double largest, double rho) {
  const double most = (1 + 1 / rho) / (1 - dropout);  // of a probability over u, and of what is kept
  const double x = encoder.largest_x(largest) / (1 - dropout);
  return largest <= kLargest && x <= kLargest &&
         most * std::max(x, 2 * largest * encoder.largest_gradient(largest)) <= kLargestGradient;
}

// work(member, first, end) for some rows at a time. Every phase gives a member the same rows, which are in
// its cache. `with_touched`: find_touched() is one more task.
template <class Work>
void LearntStep::share_rows(bool with_touched, const Work& work) {
  const std::size_t rows = inputs_.size(), each = scores_.rows_at_once(rows, team_);
  const std::size_t before = with_touched ? 1 : 0;
  team_.share_near(before + (rows + each - 1) / each, [&](std::size_t member, std::size_t task) {
    if (task < before) {
      find_touched();
      return;
    }
    const std::size_t first = (task - before) * each;
    work(member, first, std::min(rows, first + each));
  });
}

// The drawn rows of W, as the right factor of the scores and of the gradient of x.
void LearntStep::pack_classes(const LearntState& learnt) {
  const std::size_t rows = inputs_.size(), columns = classes_.size();
  const DenseRows w{learnt.output().numbers.data(), columns, hidden_, hidden_, classes_.data()};
  scores_.start(hidden_, columns);
  to_rows_.start(columns, hidden_);
  to_classes_.start(rows, hidden_);
  panels_.start(columns, rows);
  if (p_.size() < rows * columns) p_.resize(rows * columns);
  // Square tiles of W: enough tasks for all members also with few classes.
  constexpr std::size_t kEach = DenseProduct::kColumns;
  const std::size_t across = (hidden_ + kEach - 1) / kEach;
  team_.share((columns + kEach - 1) / kEach * across, [&](std::size_t /*member*/, std::size_t task) {
    const std::size_t first = task / across * kEach, end = std::min(columns, first + kEach);
    const std::size_t from = task % across * kEach, to = std::min(hidden_, from + kEach);
    for (std::size_t j = first; j < end; ++j) prefetch_numbers(w.row(j) + from, to - from);
    to_rows_.pack({w, false}, from, to, first, end);
    scores_.pack({w, true}, first, end, from, to);
  });
}

// p_ becomes the weights of a row's examples times its probabilities over the drawn classes at their new u,
// divided by the examples of the step; of_label_ is what the label loses; dx_ is the gradient of x. A rank
// that is alone does all this for some rows at a time, while they are in the cache.
void LearntStep::score_and_solve(const RunState& state, double rho) {
  const LearntState& learnt = state.learnt;
  pack_classes(learnt);
  if (setup_.ranks.alone()) {
    share_rows(true, [&](std::size_t member, std::size_t first, std::size_t end) {
      score_labels(learnt, first, end);
      score_rows(first, end, member);
      for (std::size_t r = first; r < end; ++r) {
        sum_row(r);
        most_[r] = highest_[r];
        solve_row(state, r, rho);
      }
      differentiate_rows(learnt, first, end, member);
    });
    return;
  }
  share_rows(true, [&](std::size_t /*member*/, std::size_t first, std::size_t end) {
    score_labels(learnt, first, end);
  });
  const Ranks::Ticket labels =
      setup_.ranks.start(Combine::sum, std::span(label_score_.data(), labels_.size()));
  share_rows(false,
             [&](std::size_t member, std::size_t first, std::size_t end) { score_rows(first, end, member); });
  setup_.ranks.wait(labels);
  share_rows(false, [&](std::size_t /*member*/, std::size_t first, std::size_t end) {
    for (std::size_t r = first; r < end; ++r) sum_row(r);
  });
  sum_over_ranks();
  share_rows(false, [&](std::size_t member, std::size_t first, std::size_t end) {
    for (std::size_t r = first; r < end; ++r) solve_row(state, r, rho);
    differentiate_rows(learnt, first, end, member);
  });
}

void LearntStep::score_labels(const LearntState& learnt, std::size_t first, std::size_t end) {
  for (std::size_t i = begin_[first]; i < begin_[end]; ++i) {
    const ClassId y = labels_[i];
    label_score_[i] = 0;
    if (y == kNotOwn) continue;
    label_score_[i] = dot(x_.data() + std::size_t{input_[i]} * hidden_, learnt.output().row(y), hidden_);
    if (!learnt.intercept.empty()) label_score_[i] += learnt.intercept[y];
  }
}

void LearntStep::score_rows(std::size_t first, std::size_t end, std::size_t member) {
  scores_.multiply_rows({all_x(), false}, first, end, p_.data(), classes_.size(), member);
}

void LearntStep::differentiate_rows(const LearntState& learnt, std::size_t first, std::size_t end,
                                    std::size_t member) {
  to_rows_.multiply_rows({all_p(), false}, first, end, dx_.data(), hidden_, member);
  for (std::size_t i = begin_[first]; i < begin_[end]; ++i)
    if (labels_[i] != kNotOwn)
      add_scaled(dx_.data() + std::size_t{input_[i]} * hidden_, learnt.output().row(labels_[i]),
                 -of_label_[i], hidden_);
  dropout_.apply_to(dx_.data(), first, end, hidden_);
  panels_.pack(all_p(), first, end);
  to_classes_.pack({all_x(), false}, 0, hidden_, first, end);
}

// p_ becomes the exponentials of the scores, relative to highest_: those of the label, where it is the only
// one; of zero, where examples share the row and each leaves its own label out.
void LearntStep::sum_row(std::size_t r) {
  const std::size_t columns = classes_.size(), first = begin_[r];
  float* const p = scores_of(r);
  if (!setup_.data.shares_inputs()) {
    others_[first] = exp_scores(p, offset_.data(), columns, label_score_[first],
                                std::min(label_column(first), columns), &highest_[r]);
    return;
  }
  exp_scores(p, offset_.data(), columns, 0, columns, &highest_[r]);
  const double all = scale_row(p, columns, 1);
  for (std::size_t i = first; i < begin_[r + 1]; ++i) {
    const std::size_t own = label_column(i);
    others_[i] = all;
    if (own >= columns) continue;
    others_[i] -= static_cast<double>(p[own]);
    if (others_[i] < all / 2) others_[i] = sum_without(p, columns, own);  // few digits of the difference left
  }
}

void LearntStep::sum_over_ranks() {
  const std::size_t rows = inputs_.size();
  const bool shared = setup_.data.shares_inputs();
  std::copy_n(highest_.begin(), rows, most_.begin());
  setup_.ranks.max(std::span(most_.data(), rows));
  for (std::size_t i = 0; i < examples_.size(); ++i) {
    const auto here = static_cast<double>(highest_[input_[i]]), most = static_cast<double>(most_[input_[i]]);
    if (here == kNothing)
      others_[i] = 0;
    else
      others_[i] = shared ? others_[i] * std::exp(here - most) : std::exp(others_[i] - most);
  }
  setup_.ranks.sum(std::span(others_.data(), examples_.size()));
  if (shared) return;
  for (std::size_t i = 0; i < examples_.size(); ++i)
    others_[i] = others_[i] > 0 ? static_cast<double>(most_[i]) + std::log(others_[i]) : kNothing;
}

void LearntStep::solve_row(const RunState& state, std::size_t r, double rho) {
  if (setup_.data.shares_inputs())
    solve_together(state, r, rho);
  else
    solve_one(state, r, rho);
}

void LearntStep::solve_one(const RunState& state, std::size_t i, double rho) {
  const double log_sum = others_[i];
  u_[i] = std::max(Mirror(state.row(examples_[i]).u, rho).from_log_sum(log_sum), 0.0);
  const double scale =
      share_of(i) * (log_sum > kNothing ? std::exp(static_cast<double>(highest_[i]) - u_[i]) : 0.0);
  const double sum = scale_row(scores_of(i), classes_.size(), static_cast<float>(scale));
  of_label_[i] = static_cast<float>(setup_.ranks.alone() ? sum : share_of(i) * std::exp(log_sum - u_[i]));
}

// Examples of one row: p was computed once, and each example leaves its own label out. Logarithms are
// relative to the largest score.
void LearntStep::solve_together(const RunState& state, std::size_t r, double rho) {
  const std::size_t first = begin_[r], end = begin_[r + 1];
  const auto most = static_cast<double>(most_[r]);
  const double base = most > kNothing ? most : static_cast<double>(label_score_[first]);  // or no class
  const double kept = state.rows[setup_.data.input_of(examples_[first])].u - base;
  double sum = 0;  // of the examples' scales
  for (std::size_t i = first; i < end; ++i) {
    const double others = others_[i];
    const double label = static_cast<double>(label_score_[i]) - base;
    const double next = shared_step(kept, log_add(label, std::log(others)), label, rho);
    u_[i] = next + base;
    scale_[i] = others > 0 ? share_of(i) * std::exp(-next) : 0.0;
    of_label_[i] = static_cast<float>(scale_[i] * others);
    sum += scale_[i];
  }
  scale_columns(r, sum, std::exp(static_cast<double>(highest_[r]) - base));
}

// p *= sum factor, but the columns of labels lose the scales of their own examples; two examples may have the
// same label. Where a label is far above all other classes, theirs are so small that only double holds the
// sum. `factor`: from this rank's highest score to that of all.
void LearntStep::scale_columns(std::size_t r, double sum, double factor) {
  constexpr double kLargestFactor = 1e30;
  const std::size_t columns = classes_.size(), first = begin_[r], end = begin_[r + 1];
  float* const p = scores_of(r);
  const double here = sum * factor;
  const bool in_double = here > kLargestFactor;
  if (in_double)
    for (std::size_t j = 0; j < columns; ++j)
      if (!is_label(classes_[j], first, end)) p[j] = static_cast<float>(static_cast<double>(p[j]) * here);
  for (std::size_t i = first; i < end; ++i) {
    const std::size_t own = label_column(i);
    if (own >= columns || is_label(labels_[i], first, i)) continue;
    double others = 0;
    for (std::size_t j = first; j < end; ++j)
      if (labels_[j] != labels_[i]) others += scale_[j];
    const double rest = in_double ? others * factor : sum > 0 ? others / sum : 0.0;
    p[own] = static_cast<float>(static_cast<double>(p[own]) * rest);
  }
  if (!in_double) scale_row(p, columns, static_cast<float>(here));
}

bool LearntStep::is_label(ClassId k, std::size_t first, std::size_t end) const {
  return std::find(labels_.begin() + static_cast<std::ptrdiff_t>(first),
                   labels_.begin() + static_cast<std::ptrdiff_t>(end),
                   k) != labels_.begin() + static_cast<std::ptrdiff_t>(end);
}

// The classes that the step changes, each with the rows that have it as their label.
void LearntStep::find_touched() {
  labelled_.clear();
  for (std::size_t i = 0; i < labels_.size(); ++i)
    if (labels_[i] != kNotOwn) labelled_.push_back({labels_[i], static_cast<std::uint32_t>(i)});
  std::sort(labelled_.begin(), labelled_.end(), [](const Labelled& a, const Labelled& b) {
    return a.label != b.label ? a.label < b.label : a.row < b.row;
  });
  touched_.clear();
  for (std::size_t j = 0; j < classes_.size(); ++j)
    touched_.push_back({classes_[j], static_cast<std::uint32_t>(j), 0, 0});
  for (std::uint32_t first = 0, end = 0; first < labelled_.size(); first = end) {
    const ClassId y = labelled_[first].label;
    for (end = first; end < labelled_.size() && labelled_[end].label == y; ++end) {
    }
    if (column_of_[y] == kNotDrawn)
      touched_.push_back({y, kNotDrawn, first, end});
    else
      touched_[column_of_[y]].first = first, touched_[column_of_[y]].end = end;
  }
}

void LearntStep::apply(RunState& state, double step, const std::function<void()>& meanwhile) {
  LearntState& learnt = state.learnt;
  const Ranks::Ticket of_x =
      setup_.ranks.start(Combine::sum, std::span(dx_.data(), inputs_.size() * hidden_));
  // As in Adam: the running means start at 0, and this makes up for it.
  const double started = std::sqrt(1 - std::pow(kLearntKeep, static_cast<double>(learnt.updates + 1)));
  const LearntRate rate{
      static_cast<float>(step * started), static_cast<float>(kLearntKeep),
      static_cast<float>(setup_.recipe.ridge / std::max(setup_.problem.total_weight, 1e-300))};
  move_classes(state, rate, meanwhile);
  setup_.ranks.wait(of_x);
  encoder_->backward(learnt, rows_, dx_.data(), {moved_, moved_by_.data()}, rate, team_);
  std::atomic_ref(learnt.updates).fetch_add(1, std::memory_order_relaxed);
}

// Tied vectors are moved by the encoder, once, along the sum of both gradients.
void LearntStep::move_classes(RunState& state, const LearntRate& rate,
                              const std::function<void()>& meanwhile) {
  LearntState& learnt = state.learnt;
  const std::size_t rows = inputs_.size(), columns = classes_.size();
  moved_.clear();
  if (learnt.tied())
    for (const Touched& touched : touched_) moved_.push_back(touched.k);
  if (gradient_.size() < columns * hidden_) gradient_.resize(columns * hidden_);
  if (column_sum_.size() < columns) column_sum_.resize(columns);
  const std::size_t of_sum = std::max(kRowsOfSum, (rows + kSumsOfRows - 1) / kSumsOfRows);
  const std::size_t each = to_classes_.rows_at_once(columns, team_);
  const std::size_t products = (columns + each - 1) / each;
  const std::size_t others = (touched_.size() - columns + kChunkClasses - 1) / kChunkClasses;
  // The first task is the new u: two examples may share one.
  team_.share_near(1 + products + others, [&](std::size_t member, std::size_t task) {
    if (task == 0) {
      if (meanwhile) meanwhile();
      for (std::size_t i = 0; i < examples_.size(); ++i)
        state.rows[setup_.data.input_of(examples_[i])].u = u_[i];
      return;
    }
    const bool drawn = task <= products;
    const std::size_t first = drawn ? (task - 1) * each : columns + (task - 1 - products) * kChunkClasses;
    const std::size_t end =
        drawn ? std::min(columns, first + each) : std::min(touched_.size(), first + kChunkClasses);
    if (drawn) {
      for (std::size_t n = first; n < end; ++n) prefetch_class(learnt, touched_[n].k);
      to_classes_.multiply_rows(panels_, first, end, gradient_.data(), hidden_);
      if (!learnt.intercept.empty())
        for (std::size_t j = first; j < end; j += LeftPanels::kRows)
          panels_.sum_rows(j, of_sum, column_sum_.data() + j);
    }
    for (std::size_t n = first; n < end; ++n) update_class(learnt, rate, n, member);
  });
}

// They are needed after the product, and lie anywhere.
void LearntStep::prefetch_class(const LearntState& learnt, ClassId k) const {
  if (learnt.tied()) return;
  prefetch_numbers(learnt.classes.row(k), hidden_);
  const std::size_t squares = learnt.classes_square.size() / learnt.classes.rows;
  prefetch_numbers(learnt.classes_square.data() + k * squares, squares);
}

// The gradient of class touched_[n] in g; returns that of its intercept.
double LearntStep::class_gradient(const LearntState& learnt, std::size_t n, float* g) const {
  const Touched& touched = touched_[n];
  double of_intercept = 0;
  if (touched.column == kNotDrawn) {
    std::fill(g, g + hidden_, 0.0F);
  } else {
    std::copy_n(gradient_.data() + std::size_t{touched.column} * hidden_, hidden_, g);
    if (!learnt.intercept.empty()) of_intercept = column_sum_[touched.column];
  }
  for (std::uint32_t l = touched.first; l < touched.end; ++l) {
    const std::uint32_t i = labelled_[l].row;
    add_scaled(g, x_.data() + std::size_t{input_[i]} * hidden_, -of_label_[i], hidden_);
    of_intercept -= static_cast<double>(of_label_[i]);
  }
  return of_intercept;
}

void LearntStep::update_class(LearntState& learnt, const LearntRate& rate, std::size_t n,
                              std::size_t member) {
  const bool tied = learnt.tied();
  const ClassId k = touched_[n].k;
  float* const g = tied ? moved_by_.data() + n * hidden_ : scratch_[member].data();
  double of_intercept = class_gradient(learnt, n, g);
  if (!tied) {
    if (rate.ridge > 0) add_scaled(g, learnt.classes.row(k), rate.ridge, hidden_);
    move_row(learnt.classes, learnt.classes_square, k, g, rate);
  }
  if (learnt.intercept.empty()) return;
  float& b = learnt.intercept[k];
  if (setup_.recipe.ridge_intercept) of_intercept += static_cast<double>(rate.ridge) * static_cast<double>(b);
  const auto gradient = static_cast<float>(of_intercept);
  rms_step(&b, &learnt.intercept_square[k], &gradient, 1, rate.rate, rate.keep);
}

std::uint64_t LearntStep::bytes(const Facts& facts) {
  const auto& [recipe, problem, machine, draw] = facts;
  const std::uint64_t rows = std::min<std::uint64_t>(recipe.rows_per_step, problem.examples);
  const std::uint64_t classes = BlockShare::most_classes(problem.classes, machine.ranks);
  const std::uint64_t columns = std::min<std::uint64_t>(draw->most_classes(), classes), h = recipe.hidden;
  // x, dx and their panels, p and its panels, the gradient of the drawn classes and two panels of them, by
  // class and by feature
  return sizeof(float) * (4 * rows * h + 2 * rows * columns + 3 * columns * h) +
         sizeof(std::uint32_t) * (classes + most_vectors(facts)) +
         (has_tied_vectors(recipe, problem.triples) ? sizeof(float) * (rows + columns) * h : 0) +
         encoder_step_bytes(facts, rows);
}

}  // namespace truemax
