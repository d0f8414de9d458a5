#include "solve/implicit_batch.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <vector>

#include "solve/implicit_row.hpp"
#include "solve/one_class_model.hpp"

namespace truemax {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Vector = Eigen::VectorXd;
using ConstMatrix = Eigen::Map<const Matrix>;
using Index = Eigen::Index;

constexpr double kNothing = 1e-290;   // a coefficient below this counts as 0
constexpr double kTolerance = 1e-13;  // of a coefficient, times the size of the scores
constexpr int kMostSweeps = 200;
constexpr int kMostNewton = 60;
constexpr double kPatience = 8;  // Newton's method takes over when more sweeps than this lie ahead

}  // namespace

// One drawn class of one row.
struct Entry {
  Index column;
  double weight, log_scale, ridge;  // o, log(e o), r
  double c, gradient, move;
};

class ImplicitBatchSolver::Work {
 public:
  int solve(const ImplicitBatch& batch);
  int sweeps = 0, newton = 0;

 private:
  void begin(const ImplicitBatch& batch);
  double ridge(Index k) const { return batch_->ridge == nullptr ? 1.0 : batch_->ridge[k]; }
  double sweep();
  void refresh();
  double gradients();
  double newton_move();
  void eliminate_class(Index k);
  bool line_search();
  void set_coefficients(double part);

  const ImplicitBatch* batch_ = nullptr;
  Index n_ = 0, columns_ = 0;
  bool labels_drawn_ = false;                       // some row's label is a drawn class of another
  std::vector<Entry> entries_;                      // row after row
  std::vector<std::size_t> row_begin_;              // [n + 1]
  std::vector<std::vector<std::size_t>> of_class_;  // [columns] its entries
  std::vector<std::vector<Index>> labelled_;        // [columns] rows with this label
  std::vector<Index> row_of_;                       // of each entry
  std::vector<double> old_u_, sum_;                 // [n] u', s_i
  std::vector<double> row_weight_, row_score_, row_ridge_, row_c_;
  std::vector<double> before_;  // c of each entry before a Newton step
  Matrix c_, b_;                // C and Z + G C
  Vector u_;
  // Newton
  Matrix system_, block_, inverse_, coupling_, coupled_;
  Vector right_, solution_, root_, part_;
};

void ImplicitBatchSolver::Work::begin(const ImplicitBatch& batch) {
  batch_ = &batch;
  n_ = static_cast<Index>(batch.rows), columns_ = static_cast<Index>(batch.columns);
  entries_.clear(), row_of_.clear();
  row_begin_.assign(1, 0);
  if (of_class_.size() < batch.columns) of_class_.resize(batch.columns), labelled_.resize(batch.columns);
  for (std::size_t k = 0; k < batch.columns; ++k) of_class_[k].clear(), labelled_[k].clear();
  std::size_t most = 0;
  for (Index i = 0; i < n_; ++i) {
    const double* weight = batch.weight + i * columns_;
    labelled_[batch.label[i]].push_back(i);
    for (Index k = 0; k < columns_; ++k) {
      if (!(weight[k] > 0) || k == static_cast<Index>(batch.label[i])) continue;
      of_class_[static_cast<std::size_t>(k)].push_back(entries_.size());
      row_of_.push_back(i);
      entries_.push_back({k, weight[k], std::log(batch.e[i] * weight[k]), ridge(k), 0, 0, 0});
    }
    most = std::max(most, entries_.size() - row_begin_.back());
    row_begin_.push_back(entries_.size());
  }
  labels_drawn_ = false;
  for (std::size_t k = 0; k < batch.columns; ++k)
    labels_drawn_ = labels_drawn_ || (!of_class_[k].empty() && !labelled_[k].empty());
  row_weight_.resize(most), row_score_.resize(most), row_ridge_.resize(most), row_c_.resize(most);
  old_u_.assign(batch.u, batch.u + n_);
  sum_.assign(batch.rows, 0.0);
  u_ = Eigen::Map<const Vector>(batch.u, n_);
  c_.setZero(n_, columns_);
  b_ = ConstMatrix(batch.score, n_, columns_);
}

// One pass over the rows; the largest relative change of a coefficient, in units of the tolerance.
double ImplicitBatchSolver::Work::sweep() {
  double worst = 0;
  for (Index i = 0; i < n_; ++i) {
    const double s = batch_->gram[i * n_ + i];
    const Index y = batch_->label[i];
    const std::size_t first = row_begin_[static_cast<std::size_t>(i)];
    const std::size_t count = row_begin_[static_cast<std::size_t>(i) + 1] - first;
    ImplicitRow row;
    row.e = batch_->e[i], row.squared_norm = s, row.u = old_u_[static_cast<std::size_t>(i)];
    row.label_ridge = ridge(y), row.label_score = b_(i, y) - s * c_(i, y);
    row.classes = count, row.weight = row_weight_.data(), row.score = row_score_.data();
    row.ridge = batch_->ridge == nullptr ? nullptr : row_ridge_.data(), row.coefficient = row_c_.data();
    if (sweeps > 0) row.start = u_[i] + s * c_(i, y) / row.label_ridge;
    double size = 1 + u_[i] + s * c_(i, y) / row.label_ridge;
    for (std::size_t p = 0; p < count; ++p) {
      const Entry& entry = entries_[first + p];
      row_weight_[p] = entry.weight, row_ridge_[p] = entry.ridge;
      row_score_[p] = b_(i, entry.column) + s * entry.c;
      size = std::max(size, std::abs(row_score_[p] / entry.ridge - row.label_score / row.label_ridge));
    }
    solve_implicit_row(row);
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
    c_(i, y) = sum_[static_cast<std::size_t>(i)] = row.label_coefficient;
    if (label_change == 0) continue;
    for (Index j = 0; j < n_; ++j) {
      const double g = batch_->gram[j * n_ + i];
      double* b = b_.data() + j * columns_;
      for (std::size_t p = 0; p < count; ++p) b[entries_[first + p].column] -= g * row_c_[p];
      b[y] += g * label_change;
    }
  }
  ++sweeps;
  return worst / kTolerance;
}

// C, b and u from the coefficients of the entries.
void ImplicitBatchSolver::Work::refresh() {
  c_.setZero();
  for (Index i = 0; i < n_; ++i) {
    const auto row = static_cast<std::size_t>(i);
    double sum = 0;
    for (std::size_t p = row_begin_[row]; p < row_begin_[row + 1]; ++p) {
      c_(i, entries_[p].column) = -entries_[p].c;
      sum += entries_[p].c;
    }
    c_(i, batch_->label[i]) = sum_[row] = sum;
    u_[i] = solve_without_class(batch_->e[i], old_u_[row] + sum);
  }
  b_ = ConstMatrix(batch_->score, n_, columns_);
  b_.noalias() += ConstMatrix(batch_->gram, n_, n_) * c_;
}

// The dual's gradient; returns its product with the move.
double ImplicitBatchSolver::Work::gradients() {
  double product = 0;
  for (Index i = 0; i < n_; ++i) {
    const auto row = static_cast<std::size_t>(i);
    const Index y = batch_->label[i];
    const double r_y = ridge(y);
    for (std::size_t p = row_begin_[row]; p < row_begin_[row + 1]; ++p) {
      Entry& entry = entries_[p];
      if (!(entry.c > kNothing)) {
        entry.gradient = 0;
        continue;
      }
      const double gap = r_y == entry.ridge ? (b_(i, y) - b_(i, entry.column)) / r_y
                                            : b_(i, y) / r_y - b_(i, entry.column) / entry.ridge;
      entry.gradient = std::log(entry.c) - entry.log_scale + gap + u_[i];
      product += entry.gradient * entry.move;
    }
  }
  return product;
}

// Adds class k to the system in (ds) or (ds, dt): dc_k = M (-g - dt + (G_AR/r) ds_R), with
// M = (D^-1 + G_AA/r)^-1 = D^1/2 (I + D^1/2 G_AA D^1/2/r)^-1 D^1/2, D = diag(c_k).
void ImplicitBatchSolver::Work::eliminate_class(Index k) {
  const auto& list = of_class_[static_cast<std::size_t>(k)];
  const auto count = static_cast<Index>(list.size());
  const double r = ridge(k);
  root_.resize(count), part_.resize(count);
  for (Index p = 0; p < count; ++p) {
    const Entry& entry = entries_[list[static_cast<std::size_t>(p)]];
    root_[p] = entry.c > kNothing ? std::sqrt(entry.c) : 0;
    part_[p] = -entry.gradient;
  }
  block_.resize(count, count);
  for (Index p = 0; p < count; ++p) {
    const double* gram = batch_->gram + row_of_[list[static_cast<std::size_t>(p)]] * n_;
    for (Index q = 0; q < count; ++q)
      block_(p, q) = root_[p] * root_[q] / r * gram[row_of_[list[static_cast<std::size_t>(q)]]];
    block_(p, p) += 1;
  }
  Eigen::LLT<Eigen::Ref<Matrix>> factor(block_);
  inverse_.setZero(count, count);
  inverse_.diagonal() = root_;
  factor.matrixL().solveInPlace(inverse_);
  // M = inverse' inverse
  const Matrix m = inverse_.transpose() * inverse_;
  const Vector moved = m * part_;
  const auto& rows = labelled_[static_cast<std::size_t>(k)];
  for (Index p = 0; p < count; ++p) {
    const Index i = row_of_[list[static_cast<std::size_t>(p)]];
    right_[i] += moved[p];
    for (Index q = 0; q < count; ++q) coupling_(i, row_of_[list[static_cast<std::size_t>(q)]]) += m(p, q);
  }
  if (rows.empty()) return;
  // ds_i -= [M (G_AR/r) ds_R]_i; and in the equation of dt of the rows labelled k: + (G_RA/r) dc_k.
  const auto labelled = static_cast<Index>(rows.size());
  Matrix cross(count, labelled);
  for (Index p = 0; p < count; ++p)
    for (Index q = 0; q < labelled; ++q)
      cross(p, q) =
          batch_->gram[row_of_[list[static_cast<std::size_t>(p)]] * n_ + rows[static_cast<std::size_t>(q)]] /
          r;
  const Matrix m_cross = m * cross;
  const Matrix square = cross.transpose() * m_cross;
  const Vector pushed = m_cross.transpose() * part_;
  for (Index q = 0; q < labelled; ++q) {
    const Index j = rows[static_cast<std::size_t>(q)];
    right_[n_ + j] -= pushed[q];
    for (Index p = 0; p < count; ++p) {
      const Index i = row_of_[list[static_cast<std::size_t>(p)]];
      system_(i, j) -= m_cross(p, q);
      system_(n_ + j, n_ + i) -= m_cross(p, q);
    }
    for (Index t = 0; t < labelled; ++t) system_(n_ + j, rows[static_cast<std::size_t>(t)]) += square(q, t);
  }
}

// Fills in the moves of the entries; returns the largest relative to its coefficient.
double ImplicitBatchSolver::Work::newton_move() {
  const Index size = labels_drawn_ ? 2 * n_ : n_;
  system_.setZero(size, size);
  right_.setZero(size);
  coupling_.setZero(n_, n_);  // sum over classes of M
  // dt = T ds (- (G_RA/r) dc_k where the label k is drawn by others)
  Matrix& t = coupled_;
  t.setZero(n_, n_);
  for (Index i = 0; i < n_; ++i) {
    t(i, i) = 1 / (1 + batch_->e[i] * std::exp(-u_[i]));
    const double r = ridge(batch_->label[i]);
    for (const Index j : labelled_[batch_->label[i]]) t(i, j) += batch_->gram[i * n_ + j] / r;
  }
  for (Index k = 0; k < columns_; ++k)
    if (!of_class_[static_cast<std::size_t>(k)].empty()) eliminate_class(k);
  if (labels_drawn_) {
    system_.topRightCorner(n_, n_) += coupling_;
    system_.bottomLeftCorner(n_, n_) -= t;
    system_.diagonal().array() += 1;
  } else {
    system_.noalias() = coupling_ * t;
    system_.diagonal().array() += 1;
  }
  solution_ = system_.partialPivLu().solve(right_);
  const auto ds = solution_.head(n_);
  const Vector dt = labels_drawn_ ? Vector(solution_.tail(n_)) : Vector(t * ds);
  // Back: dc_k, class after class, without keeping the M of each.
  double worst = 0;
  for (Index k = 0; k < columns_; ++k) {
    const auto& list = of_class_[static_cast<std::size_t>(k)];
    if (list.empty()) continue;
    const auto count = static_cast<Index>(list.size());
    const double r = ridge(k);
    root_.resize(count), part_.resize(count), block_.resize(count, count);
    for (Index p = 0; p < count; ++p) {
      const Entry& entry = entries_[list[static_cast<std::size_t>(p)]];
      const Index i = row_of_[list[static_cast<std::size_t>(p)]];
      const double* gram = batch_->gram + i * n_;
      root_[p] = entry.c > kNothing ? std::sqrt(entry.c) : 0;
      part_[p] = -entry.gradient - dt[i];
      for (const Index j : labelled_[static_cast<std::size_t>(k)]) part_[p] += gram[j] / r * ds[j];
      part_[p] *= root_[p];
    }
    for (Index p = 0; p < count; ++p) {
      const double* gram = batch_->gram + row_of_[list[static_cast<std::size_t>(p)]] * n_;
      for (Index q = 0; q < count; ++q)
        block_(p, q) = root_[p] * root_[q] / r * gram[row_of_[list[static_cast<std::size_t>(q)]]];
      block_(p, p) += 1;
    }
    Eigen::LLT<Eigen::Ref<Matrix>> factor(block_);
    factor.solveInPlace(part_);
    for (Index p = 0; p < count; ++p) {
      Entry& entry = entries_[list[static_cast<std::size_t>(p)]];
      entry.move = entry.c > kNothing ? root_[p] * part_[p] : 0;
      if (entry.c > kNothing) worst = std::max(worst, std::abs(entry.move / entry.c));
      if (!std::isfinite(entry.move)) return HUGE_VAL;
    }
  }
  return worst;
}

void ImplicitBatchSolver::Work::set_coefficients(double part) {
  for (std::size_t p = 0; p < entries_.size(); ++p) entries_[p].c = before_[p] + part * entries_[p].move;
  refresh();
}

// Goes along the move until the dual's slope there is no longer far below 0 nor far above; false: not a step.
bool ImplicitBatchSolver::Work::line_search() {
  double slope = 0;
  for (std::size_t p = 0; p < entries_.size(); ++p) {
    Entry& entry = entries_[p];
    before_[p] = entry.c;
    entry.move = std::clamp(entry.move, -0.9 * entry.c, 20 * entry.c);
    slope += entry.gradient * entry.move;
  }
  if (slope < 0) {
    double part = 1;
    for (int i = 0; i < 12; ++i) {
      set_coefficients(part);
      const double now = gradients();
      if (std::isfinite(now) && now <= -0.5 * slope) return true;
      part *= std::isfinite(now) ? std::clamp(slope / (slope - now), 0.1, 0.7) : 0.1;
    }
  }
  set_coefficients(0);
  gradients();
  return false;
}

int ImplicitBatchSolver::Work::solve(const ImplicitBatch& batch) {
  begin(batch);
  sweeps = newton = 0;
  double change = sweep(), before = 0;
  bool solved = n_ <= 1 || entries_.empty();
  while (!solved && sweeps < kMostSweeps && newton < kMostNewton) {
    before = change;
    change = sweep();
    if (change <= 1) {
      solved = true;
      break;
    }
    const double rate = change / before;
    if (rate < 1 && std::log(change) <= -kPatience * std::log(rate)) continue;
    refresh();
    gradients();
    before_.resize(entries_.size());
    double last = HUGE_VAL;
    while (newton < kMostNewton) {
      const double size = newton_move();
      ++newton;
      if (!std::isfinite(size)) break;
      if (size < 3e-8) {  // its square is nothing
        for (std::size_t p = 0; p < entries_.size(); ++p) before_[p] = entries_[p].c;
        set_coefficients(1);
        solved = true;
        break;
      }
      if (!line_search()) break;
      if (size > 0.5) break;                    // far away: sweeps help more
      if (size < 1e-4 && size > 0.25 * last) {  // rounding is all that is left
        solved = true;
        break;
      }
      last = size;
    }
  }
  Eigen::Map<Matrix>(batch.coefficient, n_, columns_) = c_;
  std::copy_n(u_.data(), batch.rows, batch.u);
  return sweeps + newton;
}

ImplicitBatchSolver::ImplicitBatchSolver() : work_(std::make_unique<Work>()) {}
ImplicitBatchSolver::~ImplicitBatchSolver() = default;
ImplicitBatchSolver::ImplicitBatchSolver(ImplicitBatchSolver&&) noexcept = default;
ImplicitBatchSolver& ImplicitBatchSolver::operator=(ImplicitBatchSolver&&) noexcept = default;

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
