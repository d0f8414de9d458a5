#include "solve/implicit_batch.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "solve/dense.hpp"
#include "solve/implicit_row.hpp"
#include "solve/one_class_model.hpp"

namespace truemax {
namespace {

constexpr double kNothing = 1e-290;     // a coefficient below this counts as 0
constexpr double kLogSomething = -660;  // exp of this does not
constexpr double kTolerance = 1e-13;    // of a coefficient, times the size of the scores
constexpr int kMostSweeps = 200;
constexpr int kMostNewton = 100;
constexpr double kPatience = 4;  // switch to Newton's method if more sweeps than this are expected
constexpr double kNear = 0.03;   // reuse a factorisation while coefficients change by less than this in total
constexpr double kSmall = 1e-9;  // a coefficient is small relative to the sum of its row's
constexpr double kFar = 0.5;     // a Newton step longer than this is followed by a sweep

// One drawn class of one row.
struct Entry {
  std::size_t column;
  double weight, log_scale;  // o, log(e o)
  double c, gradient, move;
};

// A drawn class: its entries are positions [begin, begin + count) of by_class_.
struct DrawnClass {
  std::size_t column, begin, count;
};

struct Place {
  std::size_t entry, row;
};

double dot(const double* a, const double* b, std::size_t count) {
  double sum[4] = {0, 0, 0, 0};
  std::size_t i = 0;
  for (; i + 4 <= count; i += 4)
    for (std::size_t j = 0; j < 4; ++j) sum[j] += a[i + j] * b[i + j];
  for (; i < count; ++i) sum[0] += a[i] * b[i];
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

}  // namespace

class ImplicitBatchSolver::Work {
 public:
  void reserve(std::size_t rows, std::size_t columns, std::size_t drawn);
  int solve(const ImplicitBatch& batch);
  int sweeps = 0, newton = 0;

 private:
  // How far a coefficient of class k and row j moves the score of row i.
  double stretch(std::size_t i, std::size_t j, std::size_t k) const {
    return batch_->gram[i * n_ + j] * over_ridge_[k] + batch_->free;
  }
  void begin(const ImplicitBatch& batch);
  void list_classes();
  double sweep();
  bool newton_steps();
  void refresh();
  double gradients();
  void factor();
  void factor_class(const DrawnClass& drawn, DenseMatrix& m);
  double direction();
  void advance(double part);
  bool line_search();

  const ImplicitBatch* batch_ = nullptr;
  std::size_t n_ = 0, columns_ = 0;
  std::vector<Entry> entries_;          // row by row
  std::vector<std::size_t> row_begin_;  // [n + 1]
  std::vector<DrawnClass> classes_;
  std::vector<Place> by_class_;                         // entries class by class, rows ascending
  std::vector<std::size_t> labelled_, labelled_begin_;  // rows by label; [columns + 1]
  bool labels_drawn_ = false;                           // some row's label is drawn for another row
  std::vector<double> old_u_, u_;                       // [n]
  std::vector<double> over_ridge_;                      // [columns] 1/r
  std::vector<double> row_weight_, row_score_, row_ridge_, row_c_;
  RowMemory row_memory_;
  DenseMatrix c_, b_;  // C and the new scores, base + (G/r + free) C
  // Newton's method
  std::vector<DenseMatrix> inverse_;  // M of each drawn class
  DenseMatrix coupling_, label_part_, system_, cross_, m_cross_;
  std::vector<std::size_t> pivot_;
  std::vector<double> right_, root_, part_, before_;
  bool missing_ = false;
};

void ImplicitBatchSolver::Work::reserve(std::size_t rows, std::size_t columns, std::size_t drawn) {
  const std::size_t entries = rows * drawn;
  entries_.reserve(entries), by_class_.reserve(entries), before_.reserve(entries);
  row_begin_.reserve(rows + 1), labelled_.reserve(rows), labelled_begin_.reserve(columns + 2);
  classes_.reserve(drawn), over_ridge_.reserve(columns), part_.reserve(std::max(rows, columns));
  for (std::vector<double>* one : {&row_weight_, &row_score_, &row_ridge_, &row_c_}) one->reserve(drawn);
  for (std::vector<double>* one : {&old_u_, &u_, &root_}) one->reserve(rows);
  right_.reserve(2 * rows), pivot_.reserve(2 * rows);
  row_memory_.reserve(drawn);
  c_.reserve(rows, columns), b_.reserve(rows, columns);
  inverse_.resize(std::max(inverse_.size(), drawn));
  for (DenseMatrix& one : inverse_) one.reserve(rows, rows);
  for (DenseMatrix* one : {&coupling_, &label_part_, &cross_, &m_cross_}) one->reserve(rows, rows);
  system_.reserve(2 * rows, 2 * rows);
}

void ImplicitBatchSolver::Work::begin(const ImplicitBatch& batch) {
  batch_ = &batch;
  n_ = batch.rows, columns_ = batch.columns;
  sweeps = newton = 0;
  entries_.clear();
  row_begin_.assign(1, 0);
  std::size_t most = 0;
  c_.set_zero(n_, columns_), b_.set_zero(n_, columns_);
  over_ridge_.assign(columns_, 1.0);
  if (batch.ridge != nullptr)
    for (std::size_t k = 0; k < columns_; ++k) over_ridge_[k] = 1 / batch.ridge[k];
  for (std::size_t i = 0; i < n_; ++i) {
    const double* weight = batch.weight + i * columns_;
    for (std::size_t k = 0; k < columns_; ++k)
      if (weight[k] > 0 && k != batch.label[i]) entries_.push_back({k, weight[k], 0, 0, 0, 0});
    most = std::max(most, entries_.size() - row_begin_.back());
    row_begin_.push_back(entries_.size());
    std::copy_n(batch.base + i * columns_, columns_, b_.row(i));
  }
  row_weight_.resize(most), row_score_.resize(most), row_ridge_.resize(most), row_c_.resize(most);
  old_u_.assign(batch.u, batch.u + n_);
  u_ = old_u_;
  classes_.clear();
}

// Index structures for Newton's method.
void ImplicitBatchSolver::Work::list_classes() {
  std::vector<std::size_t>& first = labelled_begin_;  // first used for counting
  first.assign(columns_ + 1, 0);
  for (const Entry& entry : entries_) ++first[entry.column + 1];
  for (std::size_t k = 0; k < columns_; ++k) {
    if (first[k + 1] > 0) classes_.push_back({k, first[k], first[k + 1]});
    first[k + 1] += first[k];
  }
  by_class_.resize(entries_.size());
  for (std::size_t i = 0; i < n_; ++i)
    for (std::size_t p = row_begin_[i]; p < row_begin_[i + 1]; ++p) {
      entries_[p].log_scale = std::log(batch_->e[i] * entries_[p].weight);
      by_class_[first[entries_[p].column]++] = {p, i};
    }
  labelled_begin_.assign(columns_ + 2, 0);
  for (std::size_t i = 0; i < n_; ++i) ++labelled_begin_[batch_->label[i] + 2];
  for (std::size_t k = 2; k < columns_ + 2; ++k) labelled_begin_[k] += labelled_begin_[k - 1];
  labelled_.resize(n_);
  for (std::size_t i = 0; i < n_; ++i) labelled_[labelled_begin_[batch_->label[i] + 1]++] = i;
  labels_drawn_ = false;
  for (const DrawnClass& drawn : classes_)
    labels_drawn_ = labels_drawn_ || labelled_begin_[drawn.column] < labelled_begin_[drawn.column + 1];
  if (inverse_.size() < classes_.size()) inverse_.resize(classes_.size());
  before_.resize(entries_.size());
}

// One pass over the rows; returns the largest relative change of a coefficient, in units of the tolerance.
double ImplicitBatchSolver::Work::sweep() {
  double worst = 0;
  for (std::size_t i = 0; i < n_; ++i) {
    const std::size_t y = batch_->label[i], first = row_begin_[i], count = row_begin_[i + 1] - first;
    ImplicitRow row;
    // Only score/ridge and squared_norm/ridge matter here: the scores without this row, and its effect on
    // them.
    const double s_y = stretch(i, i, y), base_y = b_(i, y) - s_y * c_(i, y);
    row.e = batch_->e[i], row.squared_norm = s_y, row.u = old_u_[i];
    row.label_score = base_y;
    row.classes = count, row.weight = row_weight_.data(), row.score = row_score_.data();
    row.ridge = batch_->ridge == nullptr ? nullptr : row_ridge_.data(), row.coefficient = row_c_.data();
    double size = 1 + u_[i] + s_y * c_(i, y);
    if (sweeps > 0) row.start = size - 1;
    for (std::size_t p = 0; p < count; ++p) {
      const Entry& entry = entries_[first + p];
      const double s = stretch(i, i, entry.column), base = b_(i, entry.column) + s * entry.c;
      row_weight_[p] = entry.weight, row_ridge_[p] = s_y / s;
      row_score_[p] = base * row_ridge_[p];
      size = std::max(size, std::abs(base - base_y));
    }
    solve_implicit_row(row, row_memory_);
    u_[i] = row.u;
    for (std::size_t p = 0; p < count; ++p) {
      Entry& entry = entries_[first + p];
      const double c = row_c_[p], change = c - entry.c;
      if (c > kNothing) worst = std::max(worst, std::abs(change) / (c * size));
      entry.c = c;
      c_(i, entry.column) = -c;
      row_c_[p] = change;
    }
    const double label_change = row.label_coefficient - c_(i, y);
    c_(i, y) = row.label_coefficient;
    for (std::size_t j = 0; j < n_; ++j) {
      double* b = b_.row(j);
      for (std::size_t p = 0; p < count; ++p) {
        const std::size_t k = entries_[first + p].column;
        b[k] -= stretch(j, i, k) * row_c_[p];
      }
      b[y] += stretch(j, i, y) * label_change;
    }
  }
  ++sweeps;
  return worst / kTolerance;
}

// Computes C, b and u from the coefficients of the entries.
void ImplicitBatchSolver::Work::refresh() {
  for (std::size_t i = 0; i < n_; ++i) {
    double sum = 0;
    for (std::size_t p = row_begin_[i]; p < row_begin_[i + 1]; ++p) {
      c_(i, entries_[p].column) = -entries_[p].c;
      sum += entries_[p].c;
    }
    c_(i, batch_->label[i]) = sum;
    u_[i] = solve_without_class(batch_->e[i], old_u_[i] + sum, u_[i]);
    std::fill_n(b_.row(i), columns_, 0.0);
  }
  add_product(b_.row(0), b_.stride(), batch_->gram, n_, c_.row(0), c_.stride(), n_, n_, columns_);
  part_.assign(columns_, 0.0);
  if (batch_->free > 0)
    for (std::size_t i = 0; i < n_; ++i)
      for (std::size_t k = 0; k < columns_; ++k) part_[k] += batch_->free * c_(i, k);
  for (std::size_t i = 0; i < n_; ++i) {
    double* b = b_.row(i);
    const double* base = batch_->base + i * columns_;
    for (std::size_t k = 0; k < columns_; ++k) b[k] = base[k] + (b[k] * over_ridge_[k] + part_[k]);
  }
}

// The dual's gradient; returns its product with the move. Also checks whether a coefficient that counts as 0
// should not: Newton's method would keep it at 0, a sweep brings it back.
double ImplicitBatchSolver::Work::gradients() {
  double product = 0;
  missing_ = false;
  for (std::size_t i = 0; i < n_; ++i) {
    const std::size_t y = batch_->label[i];
    const double b_y = b_(i, y);
    for (std::size_t p = row_begin_[i]; p < row_begin_[i + 1]; ++p) {
      Entry& entry = entries_[p];
      const double gap = b_y - b_(i, entry.column);
      if (!(entry.c > kNothing)) {
        entry.gradient = 0;
        missing_ = missing_ || entry.log_scale - gap - u_[i] > kLogSomething;
        continue;
      }
      entry.gradient = std::log(entry.c) - entry.log_scale + gap + u_[i];
      product += entry.gradient * entry.move;
    }
  }
  return product;
}

// (G/r stands for G/r + free below.) dc_k = M (-g - dt + (G_AR/r) ds_R), A the rows that drew class k, R the
// rows labelled k, D = diag(c_k), M = (D^-1 + G_AA/r)^-1 = D^1/2 (I + D^1/2 G_AA D^1/2/r)^-1 D^1/2: stable
// for tiny c and any G. Adds the class's part to the system in ds, dt.
void ImplicitBatchSolver::Work::factor_class(const DrawnClass& drawn, DenseMatrix& m) {
  const std::size_t count = drawn.count;
  const Place* places = by_class_.data() + drawn.begin;
  root_.resize(count);
  for (std::size_t p = 0; p < count; ++p) {
    const double c = entries_[places[p].entry].c;
    root_[p] = c > kNothing ? std::sqrt(c) : 0;
  }
  m.set_zero(count, count);
  for (std::size_t p = 0; p < count; ++p) {
    const double* g = batch_->gram + places[p].row * n_;
    const double scale = root_[p] * over_ridge_[drawn.column], outside = root_[p] * batch_->free;
    double* row = m.row(p);
    for (std::size_t q = 0; q < count; ++q) row[q] = root_[q] * (scale * g[places[q].row] + outside);
    row[p] += 1;
  }
  invert_definite(m.row(0), count, m.stride());
  for (std::size_t p = 0; p < count; ++p) {
    double* row = m.row(p);
    double* out = coupling_.row(places[p].row);
    for (std::size_t q = 0; q < count; ++q) {
      row[q] *= root_[p] * root_[q];
      out[places[q].row] += row[q];
    }
  }
  const std::size_t* rows = labelled_.data() + labelled_begin_[drawn.column];
  const std::size_t labelled = labelled_begin_[drawn.column + 1] - labelled_begin_[drawn.column];
  if (labelled == 0) return;
  cross_.set_zero(count, labelled), m_cross_.set_zero(count, labelled);
  for (std::size_t p = 0; p < count; ++p)
    for (std::size_t q = 0; q < labelled; ++q) cross_(p, q) = stretch(places[p].row, rows[q], drawn.column);
  add_product(m_cross_.row(0), m_cross_.stride(), m.row(0), m.stride(), cross_.row(0), cross_.stride(), count,
              count, labelled);
  for (std::size_t q = 0; q < labelled; ++q)
    for (std::size_t p = 0; p < count; ++p) {
      const std::size_t i = places[p].row, j = rows[q];
      system_(i, j) -= m_cross_(p, q);
      system_(n_ + j, n_ + i) -= m_cross_(p, q);
      for (std::size_t t = 0; t < labelled; ++t) system_(n_ + j, rows[t]) += cross_(p, q) * m_cross_(p, t);
    }
}

// The linear system of Newton's method. Unknowns ds and, if labels are drawn, dt:
//     ds_i = sum_k dc_ik,   dt = T ds - [(G_RA/r_k) dc_k for the rows labelled k],
// T = diag(du/ds) + G/r between rows of the same label.
void ImplicitBatchSolver::Work::factor() {
  const std::size_t size = labels_drawn_ ? 2 * n_ : n_;
  system_.set_zero(size, size), coupling_.set_zero(n_, n_), label_part_.set_zero(n_, n_);
  for (std::size_t i = 0; i < n_; ++i) {
    const std::size_t y = batch_->label[i];
    label_part_(i, i) = 1 / (1 + batch_->e[i] * std::exp(-u_[i]));
    for (std::size_t q = labelled_begin_[y]; q < labelled_begin_[y + 1]; ++q)
      label_part_(i, labelled_[q]) += stretch(i, labelled_[q], y);
  }
  for (std::size_t k = 0; k < classes_.size(); ++k) factor_class(classes_[k], inverse_[k]);
  if (labels_drawn_) {
    for (std::size_t i = 0; i < n_; ++i)
      for (std::size_t j = 0; j < n_; ++j) {
        system_(i, n_ + j) += coupling_(i, j);
        system_(n_ + i, j) -= label_part_(i, j);
      }
  } else {
    add_product(system_.row(0), system_.stride(), coupling_.row(0), coupling_.stride(), label_part_.row(0),
                label_part_.stride(), n_, n_, n_);
  }
  for (std::size_t i = 0; i < size; ++i) system_(i, i) += 1;
  pivot_.resize(size);
  factor_lu(system_.row(0), size, system_.stride(), pivot_.data());
}

// Computes the moves of the entries; returns the largest one relative to its coefficient, or the largest move
// of a u if larger (around s = e, a small change of s changes u by much).
double ImplicitBatchSolver::Work::direction() {
  right_.assign(2 * n_, 0.0);
  part_.resize(n_);
  for (std::size_t k = 0; k < classes_.size(); ++k) {
    const DrawnClass& drawn = classes_[k];
    const Place* places = by_class_.data() + drawn.begin;
    for (std::size_t p = 0; p < drawn.count; ++p) part_[p] = -entries_[places[p].entry].gradient;
    for (std::size_t p = 0; p < drawn.count; ++p) {
      const double moved = dot(inverse_[k].row(p), part_.data(), drawn.count);
      right_[places[p].row] += moved;
      for (std::size_t q = labelled_begin_[drawn.column]; q < labelled_begin_[drawn.column + 1]; ++q)
        right_[n_ + labelled_[q]] -= stretch(places[p].row, labelled_[q], drawn.column) * moved;
    }
  }
  solve_lu(system_.row(0), labels_drawn_ ? 2 * n_ : n_, system_.stride(), pivot_.data(), right_.data());
  const double* ds = right_.data();
  double* dt = right_.data() + n_;
  if (!labels_drawn_)
    for (std::size_t i = 0; i < n_; ++i) dt[i] = dot(label_part_.row(i), ds, n_);
  double worst = 0;
  for (std::size_t i = 0; i < n_; ++i)
    worst = std::max(worst, std::abs(ds[i]) / (1 + batch_->e[i] * std::exp(-u_[i])));
  for (std::size_t k = 0; k < classes_.size(); ++k) {
    const DrawnClass& drawn = classes_[k];
    const Place* places = by_class_.data() + drawn.begin;
    for (std::size_t p = 0; p < drawn.count; ++p) {
      const std::size_t i = places[p].row;
      part_[p] = -entries_[places[p].entry].gradient - dt[i];
      for (std::size_t q = labelled_begin_[drawn.column]; q < labelled_begin_[drawn.column + 1]; ++q)
        part_[p] += stretch(i, labelled_[q], drawn.column) * ds[labelled_[q]];
    }
    for (std::size_t p = 0; p < drawn.count; ++p) {
      Entry& entry = entries_[places[p].entry];
      entry.move = dot(inverse_[k].row(p), part_.data(), drawn.count);
      if (!std::isfinite(entry.move)) return HUGE_VAL;
      if (entry.c > kNothing)
        worst = std::max(worst, std::abs(entry.move / entry.c));
      else
        entry.move = 0;
    }
  }
  return worst;
}

void ImplicitBatchSolver::Work::advance(double part) {
  for (std::size_t p = 0; p < entries_.size(); ++p) entries_[p].c = before_[p] + part * entries_[p].move;
  refresh();
}

// Moves along the direction to where the dual's slope is not far above 0; false if no step was possible.
bool ImplicitBatchSolver::Work::line_search() {
  double slope = 0, part = 1;
  for (std::size_t i = 0; i < n_; ++i)
    for (std::size_t p = row_begin_[i]; p < row_begin_[i + 1]; ++p) {
      Entry& entry = entries_[p];
      before_[p] = entry.c;
      // Coefficients stay positive. Significant ones shorten the whole move: clipping a single entry may lead
      // far uphill if rows are nearly equal.
      const double most = 0.9 * entry.c;
      if (entry.move < -most) {
        if (entry.c > kSmall * c_(i, batch_->label[i]))
          part = std::min(part, -most / entry.move);
        else
          entry.move = -most;
      }
      slope += entry.gradient * entry.move;
    }
  if (slope < 0) {
    for (int i = 0; i < 20; ++i) {
      advance(part);
      const double now = gradients();
      if (std::isfinite(now) && now <= -0.5 * slope) return true;
      part *= std::isfinite(now) ? std::clamp(slope / (slope - now), 0.1, 0.7) : 0.1;
    }
  }
  advance(0);
  gradients();
  return false;
}

// Newton's method as long as it converges fast; true: solved.
bool ImplicitBatchSolver::Work::newton_steps() {
  if (classes_.empty()) list_classes();
  refresh();
  gradients();
  double last = HUGE_VAL, changed = HUGE_VAL;  // changed: in total since the system was factored
  while (newton < kMostNewton) {
    const bool fresh = !(changed <= kNear);
    if (fresh) {
      factor();
      changed = 0;
    }
    ++newton;
    const double size = direction();
    if (!std::isfinite(size)) return false;
    // The remaining error is about the move times the total change since the system was factored.
    if (!fresh && size > 0.3 * last) {
      if (size < 1e-10) return !missing_;
      changed = HUGE_VAL;
      continue;
    }
    changed += size;
    const bool ends = 3 * size * changed < 1e-14;
    if (!line_search()) return size < 1e-7 && !missing_;  // rounding hides the slope
    if (ends) return !missing_;
    if (fresh && size < 1e-4 && size > 0.25 * last) return !missing_;  // only rounding is left
    if (size > kFar) return false;
    last = size;
  }
  return false;
}

int ImplicitBatchSolver::Work::solve(const ImplicitBatch& batch) {
  begin(batch);
  double change = sweep();
  bool solved = n_ <= 1 || entries_.empty();
  while (!solved && sweeps < kMostSweeps && newton < kMostNewton) {
    const double before = std::exchange(change, sweep()), rate = change / before;
    solved = change <= 1;
    if (!solved && !(rate < 1 && std::log(change) <= -kPatience * std::log(rate))) solved = newton_steps();
  }
  for (std::size_t i = 0; i < n_; ++i) std::copy_n(c_.row(i), columns_, batch.coefficient + i * columns_);
  std::copy_n(u_.data(), n_, batch.u);
  return sweeps + newton;
}

ImplicitBatchSolver::ImplicitBatchSolver() : work_(std::make_unique<Work>()) {}
ImplicitBatchSolver::~ImplicitBatchSolver() = default;
ImplicitBatchSolver::ImplicitBatchSolver(ImplicitBatchSolver&&) noexcept = default;
ImplicitBatchSolver& ImplicitBatchSolver::operator=(ImplicitBatchSolver&&) noexcept = default;

void ImplicitBatchSolver::reserve(std::size_t rows, std::size_t columns, std::size_t drawn) {
  work_->reserve(rows, columns, drawn);
}
int ImplicitBatchSolver::solve(const ImplicitBatch& batch) {
  return work_->solve(batch);
}
int ImplicitBatchSolver::sweeps() const {
  return work_->sweeps;
}
int ImplicitBatchSolver::newton_iterations() const {
  return work_->newton;
}

}  // namespace truemax
