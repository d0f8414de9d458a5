#include "train/newton.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "core/error.hpp"
#include "train/growth.hpp"

namespace truemax {
namespace {

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

void add(double* __restrict sum, const double* __restrict x, double factor, std::size_t count) {
  for (std::size_t k = 0; k < count; ++k) sum[k] += factor * x[k];
}

}  // namespace

NewtonProblem::NewtonProblem(const DataView& data, const Recipe& recipe)
    : data_(data),
      features_(data.space->features),
      classes_(data.classes->size()),
      lanes_((classes_ + kProductLanes - 1) / kProductLanes * kProductLanes),
      intercept_(recipe.intercept),
      ridge_intercept_(recipe.ridge_intercept),
      centre_(features_, 0.0),
      spread_(features_, 0.0),
      varies_(features_, false) {
  const bool centres = intercept_ && !ridge_intercept_;
  double total = 0;
  std::vector<double> seen(features_, 0.0);  // weight of the rows in which it is not zero
  for (const ExampleId i : data.examples()) {
    const RowView x = data.x(i);
    const double w = data.weight(i);
    total += w;
    for (std::size_t j = 0; j < x.index.size(); ++j) {
      centre_[x.index[j]] += w * static_cast<double>(x.value[j]);
      seen[x.index[j]] += w;
    }
  }
  total = std::max(total, std::numeric_limits<double>::min());
  for (double& c : centre_) c = centres ? c / total : 0;
  for (const ExampleId i : data.examples()) {
    const RowView x = data.x(i);
    for (std::size_t j = 0; j < x.index.size(); ++j) {
      const double d = static_cast<double>(x.value[j]) - centre_[x.index[j]];
      spread_[x.index[j]] += data.weight(i) * d * d;
    }
  }
  for (std::size_t f = 0; f < features_; ++f) {
    const double zeros = total - seen[f];
    spread_[f] = std::sqrt((spread_[f] + std::max(0.0, zeros) * centre_[f] * centre_[f]) / total);
    // Weights of a feature that is smaller still would not fit into float32.
    varies_[f] = spread_[f] > std::max(1e-9 * std::abs(centre_[f]), 1e-25);
    if (!varies_[f]) spread_[f] = std::max(std::abs(centre_[f]), 1e-30);
  }
  x_ = divided(data);
}

NewtonProblem::Point NewtonProblem::start() const {
  Point at((features_ + 1) * lanes_, 0.0);
  if (!intercept_) return at;
  std::vector<double> mass(classes_, 0.0);
  for (const ExampleId i : data_.examples()) mass[data_.label(i)] += data_.weight(i);
  // A class without a row gets half a row, so that its intercept is finite.
  for (std::size_t k = 0; k < classes_; ++k)
    at[features_ * lanes_ + k] = std::log(std::max(mass[k], 0.5) / static_cast<double>(data_.size()));
  return at;
}

NewtonProblem::Point NewtonProblem::from(const Weights& weights) const {
  Point at((features_ + 1) * lanes_, 0.0);
  std::vector<float> w(features_);
  for (ClassId k = 0; k < classes_; ++k) {
    weights.copy_class(k, w);
    double b = weights.intercept_of(k);
    for (std::size_t f = 0; f < features_; ++f) {
      at[f * lanes_ + k] = static_cast<double>(w[f]) * spread_[f];
      b += static_cast<double>(w[f]) * centre_[f];
    }
    at[features_ * lanes_ + k] = b;
  }
  return at;
}

double NewtonProblem::largest_weight(const Point& at) const {
  double largest = 0;
  for (std::size_t f = 0; f < features_; ++f)
    for (std::size_t k = 0; k < classes_; ++k)
      largest = std::max(largest, std::abs(at[f * lanes_ + k]) / spread_[f]);
  if (intercept_)
    for (const double b : base_of(at)) largest = std::max(largest, std::abs(b));
  return largest;
}

void NewtonProblem::write(const Point& at, Weights& weights) const {
  if (weights.scaled()) weights.fold_all();
  std::vector<float> w(features_);
  const std::vector<double> base = base_of(at);
  // Scores are the same if all intercepts move together.
  double mean = 0;
  for (std::size_t k = 0; k < classes_; ++k) mean += base[k] / static_cast<double>(classes_);
  if (ridge_intercept_) mean = 0;
  for (ClassId k = 0; k < classes_; ++k) {
    for (std::size_t f = 0; f < features_; ++f) w[f] = static_cast<float>(at[f * lanes_ + k] / spread_[f]);
    weights.set_class(k, w);
    if (intercept_) weights.intercept()[k] = static_cast<float>(base[k] - mean);
  }
}

std::vector<double> NewtonProblem::base_of(const Point& at) const {
  std::vector<double> base(at.begin() + static_cast<std::ptrdiff_t>(features_ * lanes_), at.end());
  for (std::size_t f = 0; f < features_; ++f)
    if (centre_[f] != 0) add(base.data(), &at[f * lanes_], -centre_[f] / spread_[f], lanes_);
  return base;
}

DoubleRows NewtonProblem::divided(const DataView& data) const {
  DoubleRows rows;
  for (const ExampleId i : data.examples()) {
    const RowView x = data.x(i);
    for (std::size_t j = 0; j < x.index.size(); ++j) {
      rows.index.push_back(x.index[j]);
      rows.value.push_back(static_cast<double>(x.value[j]) / spread_[x.index[j]]);
    }
    rows.begin.push_back(rows.index.size());
  }
  return rows;
}

std::vector<double> NewtonProblem::losses(const DataView& rows, const Point& at) const {
  const std::vector<double> base = base_of(at);
  std::vector<double> all(rows.size() * lanes_), loss;
  multiply_rows(divided(rows), at.data(), base.data(), lanes_, all.data());
  for (const ExampleId i : rows.examples()) {
    const double* z = &all[number_of(i) * lanes_];
    const double most = *std::max_element(z, z + classes_);
    double sum = 0;
    for (std::size_t k = 0; k < classes_; ++k) sum += std::exp(z[k] - most);
    loss.push_back(rows.weight(i) * (std::log(sum) + most - z[rows.label(i)]));
  }
  return loss;
}

std::vector<double> NewtonProblem::ridges(const Goal& goal) const {
  std::vector<double> ridge(features_ + 1, goal.ridge);
  for (std::size_t f = 0; f < features_ && !goal.by_spread; ++f)
    ridge[f] = goal.ridge / (spread_[f] * spread_[f]);
  if (!ridge_intercept_) ridge.back() = 0;
  return ridge;
}

double NewtonProblem::objective(const Goal& goal, const Point& at) const {
  double sum = 0;
  for (const double loss : losses(data_, at)) sum += loss;
  const std::vector<double> ridge = ridges(goal);
  for (std::size_t j = 0; j < at.size(); ++j) sum += ridge[j / lanes_] / 2 * at[j] * at[j];
  return sum;
}

double NewtonProblem::unit_of_ridge(bool by_spread) const {
  double sum = 0, total = 0;
  for (std::size_t f = 0; f < features_; ++f)
    if (varies_[f]) sum += by_spread ? 1 : spread_[f] * spread_[f];
  for (const ExampleId i : data_.examples()) total += data_.weight(i);
  return std::max(sum * total / static_cast<double>(data_.size()), 1e-300);
}

double NewtonProblem::range_of_spreads() const {
  double least = std::numeric_limits<double>::infinity(), most = 0;
  for (std::size_t f = 0; f < features_; ++f)
    if (varies_[f]) least = std::min(least, spread_[f]), most = std::max(most, spread_[f]);
  return most > 0 ? most / least : 1;
}

std::uint64_t NewtonProblem::bytes(const Problem& problem) {
  const std::uint64_t lanes = problem.classes + kProductLanes;
  return lanes * (4 * problem.examples + 9 * (std::uint64_t{problem.features} + 1)) * sizeof(double) +
         problem.nonzeros * 2 * (sizeof(double) + sizeof(FeatureId));
}

namespace {

// The blocks of H that belong to one class each, for all classes side by side: [pair of features][lanes],
// with the intercept as the last feature. Replaced by their Cholesky factors.
class ClassBlocks {
 public:
  ClassBlocks(std::size_t size, std::size_t lanes) : size_(size), lanes_(lanes), m_(pair(size, 0) * lanes) {}

  double* at(std::size_t a, std::size_t b) { return &m_[pair(a, b) * lanes_]; }
  void clear() { std::fill(m_.begin(), m_.end(), 0.0); }

  void factor() {
    for (std::size_t a = 0; a < size_; ++a)
      for (std::size_t b = 0; b <= a; ++b) {
        double *const entry = at(a, b), *const last = at(b, b);
        double least[kMostLanes];  // rounding must not leave less than this
        for (std::size_t k = 0; k < lanes_; ++k) least[k] = 1e-12 * entry[k] + 1e-300;
        for (std::size_t c = 0; c < b; ++c) subtract(entry, at(a, c), at(b, c));
        for (std::size_t k = 0; k < lanes_; ++k)
          entry[k] = a == b ? std::sqrt(std::max(entry[k], least[k])) : entry[k] / last[k];
      }
  }

  // x <- M^-1 x, with x [size][lanes]
  void solve(double* x) {
    for (std::size_t a = 0; a < size_; ++a) {
      for (std::size_t b = 0; b < a; ++b) subtract(x + a * lanes_, at(a, b), x + b * lanes_);
      divide(x + a * lanes_, at(a, a));
    }
    for (std::size_t a = size_; a-- > 0;) {
      divide(x + a * lanes_, at(a, a));
      for (std::size_t b = 0; b < a; ++b) subtract(x + b * lanes_, at(a, b), x + a * lanes_);
    }
  }

  static constexpr std::size_t kMostLanes = 104;

 private:
  static std::size_t pair(std::size_t a, std::size_t b) { return a * (a + 1) / 2 + b; }
  void subtract(double* __restrict from, const double* __restrict x, const double* __restrict y) const {
    for (std::size_t k = 0; k < lanes_; ++k) from[k] -= x[k] * y[k];
  }
  void divide(double* __restrict x, const double* __restrict by) const {
    for (std::size_t k = 0; k < lanes_; ++k) x[k] /= by[k];
  }

  std::size_t size_, lanes_;
  std::vector<double> m_;
};

}  // namespace

// One solve: scores of all rows and what Newton's steps need.
class NewtonProblem::Solver {
 public:
  Solver(const NewtonProblem& problem, const Goal& goal, Point& at)
      : p_(problem),
        n_(problem.data_.size()),
        lanes_(problem.lanes_),
        v_(at),
        z_(n_ * lanes_),
        share_(n_ * lanes_),
        along_(n_ * lanes_),
        rest_(n_ * lanes_),
        ridge_(problem.ridges(goal)) {
    for (const ExampleId i : p_.data_.examples()) total_ += p_.data_.weight(i);
    if (blocks_pay())
      blocks_.emplace(p_.features_ + 1, lanes_);
    else
      squares_ = p_.x_;
    for (double& value : squares_.value) value *= value;
    all_scores(v_, z_);
  }

  NewtonEnd run(const Goal& goal, const std::atomic<bool>& stop, const std::function<bool()>& time_is_up) {
    const auto cut = [&] { return stop.load(std::memory_order_relaxed) || (time_is_up && time_is_up()); };
    const auto cut_by = [&] {
      return stop.load(std::memory_order_relaxed) ? NewtonEnd::stopped : NewtonEnd::time;
    };
    double value = softmax(0);
    int stuck = 0;
    for (std::uint64_t step = 0; step < goal.most_steps; ++step) {
      if (cut()) return cut_by();
      gradient();
      if (std::sqrt(dot(g_, g_)) <= kRounding * total_) return NewtonEnd::optimum;
      const double slope = direction(cut);  // of the objective along d_; negative
      if (cut()) return cut_by();           // d_ may be unfinished
      const double squares = dot(d_, d_), scale = std::max(value, 0.01 * total_);
      // Only a direction without damping, and from conjugate gradients that came to their end, shows how much
      // is to be gained.
      const bool came_to_end = rounds_ < most_rounds_, knows = damping_ == 0 && came_to_end;
      if (knows && slope < 0 && -slope < kRounding * scale) return NewtonEnd::optimum;
      double length = 1, found = value;
      if (slope < 0) found = search_along(slope, value, length);
      if (!(found < value)) {
        softmax(0);
        if (++stuck > kMostStuck) return NewtonEnd::stuck;
        if (!came_to_end) allow_more_rounds();
        damping_ = std::max(100 * damping_, 1e-10 * total_);
        continue;
      }
      stuck = 0;
      add(v_.data(), d_.data(), length, v_.size());
      add(z_.data(), along_.data(), length, z_.size());
      const double share =
          (value - found) / ((damping_ * squares - slope) / 2);  // of the gain that d_ promised
      value = found;
      if (length == 1 && -slope / 2 < goal.precision * scale) {
        if (knows) return NewtonEnd::optimum;
        if (!came_to_end) allow_more_rounds();
        damping_ = 0;
      } else if (length < kShort) {
        // So that the next step has about the length that this one should have had.
        damping_ = std::max(4 * damping_, -slope / (length * squares));
      } else if (length == 1 && share > 0.5) {
        damping_ = damping_ > kLeastDamping * total_ ? damping_ / 8 : 0;
      }
    }
    return NewtonEnd::steps;
  }

 private:
  static constexpr int kMostStuck = 12, kManyRounds = 50;
  static constexpr double kRounding = 1e-12, kShort = 0.2, kLeastDamping = 1e-9;

  void allow_more_rounds() { most_rounds_ = std::min(4 * most_rounds_, 20000); }

  // Halves `length` until the objective falls enough; returns where it got to.
  double search_along(double slope, double value, double& length) {
    all_scores(d_, along_);
    double found = value;
    for (int halvings = 0; halvings < 40; ++halvings, length /= 2) {
      found = softmax(length);
      if (found <= value + 1e-4 * length * slope) break;
    }
    return found;
  }

  void all_scores(const Point& of, std::vector<double>& z) const {
    const std::vector<double> base = p_.base_of(of);
    multiply_rows(p_.x_, of.data(), base.data(), lanes_, z.data());
  }
  double weight(std::size_t i) const { return p_.data_.weight(ExampleId{static_cast<std::uint32_t>(i)}); }
  std::size_t label(std::size_t i) const { return p_.data_.label(ExampleId{static_cast<std::uint32_t>(i)}); }

  // The objective after `length` of the direction; its probabilities are in share_.
  double softmax(double length) {
    double loss = 0;
    for (std::size_t i = 0; i < n_; ++i) {
      const double *z = &z_[i * lanes_], *along = &along_[i * lanes_];
      double* share = &share_[i * lanes_];
      for (std::size_t k = 0; k < lanes_; ++k) share[k] = z[k] + length * along[k];
      const double of_label = share[label(i)], most = *std::max_element(share, share + p_.classes_);
      double sum = 0;
      for (std::size_t k = 0; k < p_.classes_; ++k) sum += share[k] = std::exp(share[k] - most);
      for (std::size_t k = 0; k < p_.classes_; ++k) share[k] /= sum;
      std::fill(share + p_.classes_, share + lanes_, 0.0);
      loss += weight(i) * (std::log(sum) + most - of_label);
    }
    for (std::size_t f = 0; f <= p_.features_; ++f) {
      double sum = 0;
      for (std::size_t j = f * lanes_; j < (f + 1) * lanes_; ++j) {
        const double w = v_[j] + (length > 0 ? length * d_[j] : 0);
        sum += w * w;
      }
      loss += ridge_[f] / 2 * sum;
    }
    return loss;
  }

  // out = X^T rest + ridge of
  void back(const std::vector<double>& rest, const Point& of, Point& out) const {
    std::fill(out.begin(), out.end(), 0.0);
    double* last = &out[p_.features_ * lanes_];
    add_transposed(p_.x_, rest.data(), lanes_, out.data());
    for (std::size_t i = 0; i < n_; ++i) add(last, &rest[i * lanes_], 1, lanes_);
    for (std::size_t f = 0; f < p_.features_; ++f) {
      if (p_.centre_[f] != 0) add(&out[f * lanes_], last, -p_.centre_[f] / p_.spread_[f], lanes_);
      if (!p_.varies_[f]) std::fill_n(&out[f * lanes_], lanes_, 0.0);
      add(&out[f * lanes_], &of[f * lanes_], ridge_[f], lanes_);
    }
    if (p_.intercept_)
      add(last, &of[p_.features_ * lanes_], ridge_.back(), lanes_);
    else
      std::fill_n(last, lanes_, 0.0);
  }

  void gradient() {
    rest_ = share_;
    for (std::size_t i = 0; i < n_; ++i) {
      rest_[i * lanes_ + label(i)] -= 1;
      for (std::size_t k = 0; k < lanes_; ++k) rest_[i * lanes_ + k] *= weight(i);
    }
    g_.resize(v_.size());
    back(rest_, v_, g_);
  }

  // out = (H + damping) of
  void curvature(const Point& of, Point& out) {
    all_scores(of, along_);
    for (std::size_t i = 0; i < n_; ++i) {
      double* r = &along_[i * lanes_];
      const double* share = &share_[i * lanes_];
      double mean = 0;
      for (std::size_t k = 0; k < lanes_; ++k) mean += share[k] * r[k];
      const double w = weight(i);
      for (std::size_t k = 0; k < lanes_; ++k) r[k] = w * share[k] * (r[k] - mean);
    }
    back(along_, of, out);
    if (damping_ > 0) add(out.data(), of.data(), damping_, out.size());
  }

  // Whether the blocks of classes cost less than the rounds of conjugate gradients that they save.
  bool blocks_pay() const {
    constexpr double kRounds = 80, kMostFeatures = 400;
    const auto n = static_cast<double>(n_), d = static_cast<double>(p_.features_ + 1);
    const double nonzeros = static_cast<double>(p_.x_.index.size()) / n + 1;
    return lanes_ <= ClassBlocks::kMostLanes && d <= kMostFeatures &&
           nonzeros * nonzeros / 2 + d * d * d / (6 * n) <= kRounds * nonzeros;
  }

  void make_blocks() {
    ClassBlocks& m = *blocks_;
    const std::size_t last = p_.features_;
    m.clear();
    std::vector<double>& q = rest_;
    std::vector<double> sums((last + 1) * lanes_, 0.0);
    for (std::size_t i = 0; i < n_; ++i) {
      const double w = weight(i);
      for (std::size_t j = i * lanes_; j < (i + 1) * lanes_; ++j) q[j] = w * share_[j] * (1 - share_[j]);
      add(m.at(last, last), &q[i * lanes_], 1, lanes_);
    }
    add_squared(p_.x_, q.data(), lanes_, m.at(0, 0));
    add_transposed(p_.x_, q.data(), lanes_, sums.data());
    std::copy_n(sums.data(), last * lanes_, m.at(last, 0));
    const double* all = m.at(last, last);
    const auto centre = [&](std::size_t f) { return p_.centre_[f] / p_.spread_[f]; };
    for (std::size_t a = 0; a < last; ++a)
      for (std::size_t b = 0; b <= a; ++b) {
        if (centre(a) == 0 && centre(b) == 0) continue;
        double* const entry = m.at(a, b);
        const double *of_a = m.at(last, a), *of_b = m.at(last, b);
        for (std::size_t k = 0; k < lanes_; ++k)
          entry[k] += centre(a) * centre(b) * all[k] - centre(a) * of_b[k] - centre(b) * of_a[k];
      }
    for (std::size_t a = 0; a < last; ++a) add(m.at(last, a), all, -centre(a), lanes_);
    for (std::size_t a = 0; a <= last; ++a) {
      const bool used = a < last ? bool{p_.varies_[a]} : p_.intercept_;
      for (std::size_t b = 0; !used && b <= last; ++b)
        std::fill_n(a > b ? m.at(a, b) : m.at(b, a), lanes_, 0.0);
      for (std::size_t k = 0; k < lanes_; ++k) m.at(a, a)[k] += ridge_[a] + damping_ + 1e-12 * total_;
    }
    m.factor();
  }

  // The diagonal of H.
  void diagonal() {
    diagonal_.assign(v_.size(), 0.0);
    Point first(v_.size(), 0.0);
    double* last = &diagonal_[p_.features_ * lanes_];
    std::vector<double>& q = rest_;
    for (std::size_t i = 0; i < n_; ++i) {
      const double w = weight(i);
      for (std::size_t j = i * lanes_; j < (i + 1) * lanes_; ++j) q[j] = w * share_[j] * (1 - share_[j]);
      add(last, &q[i * lanes_], 1, lanes_);
    }
    add_transposed(p_.x_, q.data(), lanes_, first.data());
    add_transposed(squares_, q.data(), lanes_, diagonal_.data());
    for (std::size_t f = 0; f <= p_.features_; ++f) {
      const double centre = f < p_.features_ ? p_.centre_[f] / p_.spread_[f] : 0;
      for (std::size_t k = 0; k < lanes_; ++k) {
        double& d = diagonal_[f * lanes_ + k];
        if (f < p_.features_) d += centre * (centre * last[k] - 2 * first[f * lanes_ + k]);
        d = std::max(d + ridge_[f], 1e-12 * total_) + damping_;
      }
    }
  }

  // Conjugate gradients, preconditioned by the blocks of classes or their diagonal: d_ = -(H + damping)^-1 g,
  // roughly far from the optimum.
  template <class Cut>
  double direction(const Cut& cut) {
    if (!blocks_) diagonal();
    // Mostly, those of the first step serve the others too.
    else if (!std::exchange(made_, true) || rounds_ > kManyRounds)
      make_blocks();
    d_.assign(v_.size(), 0.0);
    Point left = g_, scaled(v_.size()), search(v_.size(), 0.0), curved(v_.size());
    const auto precondition = [&] {
      if (blocks_) {
        scaled = left;
        blocks_->solve(scaled.data());
        return;
      }
      for (std::size_t j = 0; j < left.size(); ++j) scaled[j] = left[j] / diagonal_[j];
    };
    precondition();
    double size = dot(left, scaled);
    const double first = size;
    if (largest_ == 0) largest_ = first;
    // |left| in the norm of the preconditioner, as a share of the gradient.
    const double share = std::clamp(std::pow(first / std::max(largest_, 1e-300), 0.25), 1e-3, 0.1);
    double previous = 1;
    for (rounds_ = 0; rounds_ < most_rounds_ && size > share * share * first; ++rounds_) {
      if (cut()) break;
      const double keep = rounds_ > 0 ? size / previous : 0;
      for (std::size_t j = 0; j < search.size(); ++j) search[j] = keep * search[j] - scaled[j];
      curvature(search, curved);
      const double bend = dot(search, curved);
      if (!(bend > 0)) break;
      const double by = size / bend;
      add(d_.data(), search.data(), by, d_.size());
      add(left.data(), curved.data(), by, left.size());
      precondition();
      previous = size;
      size = dot(left, scaled);
    }
    return dot(d_, g_);
  }

  const NewtonProblem& p_;
  std::size_t n_, lanes_;
  Point& v_;
  std::optional<ClassBlocks> blocks_;  // the preconditioner,
  bool made_ = false;
  DoubleRows squares_;                            // or its diagonal, from the squares of x
  std::vector<double> z_, share_, along_, rest_;  // [rows][lanes]
  std::vector<double> ridge_;                     // by feature; the last is that of the intercept
  double total_ = 0;                              // weight of the rows
  double largest_ = 0;                            // gradient seen
  Point g_, d_, diagonal_;
  int rounds_ = 0, most_rounds_ = 200;  // of conjugate gradients
  // Where a class has probability 0 or 1 in all rows, wrongly in some, H is next to nothing though the
  // gradient is not, and -H^-1 g leads nowhere. Damping is added to H (Levenberg, Marquardt) until steps of
  // full length do what they promise. In units of spreads and rows, so it does not depend on the units of
  // features.
  double damping_ = 0;
};

NewtonEnd NewtonProblem::solve(const Goal& goal, Point& at, const std::atomic<bool>& stop,
                               const std::function<bool()>& time_is_up) const {
  return Solver(*this, goal, at).run(goal, stop, time_is_up);
}

NewtonEnd newton_fit(const DataView& data, const Recipe& recipe, Weights& weights,
                     const std::atomic<bool>& stop, const std::function<bool()>& time_is_up) {
  const NewtonProblem problem(data, recipe);
  const NewtonProblem::Goal goal{recipe.ridge, recipe.ridge_by_spread, recipe.newton, 1e-9};
  NewtonProblem::Point at = problem.from(weights), fresh = problem.start();
  // The optimum does not depend on where it starts, and from huge weights the way is long.
  if (!(problem.objective(goal, at) <= problem.objective(goal, fresh))) at = std::move(fresh);
  const NewtonEnd end = problem.solve(goal, at, stop, time_is_up);
  if (end == NewtonEnd::stopped) return end;
  // From huge weights of huge values, intercepts can be far beyond float32.
  const double largest = problem.largest_weight(at);
  if (!(largest <= kWeightLimit))
    throw DivergenceError(fmt::format(
        "Newton's method diverged: it would overflow the weights (largest {:.2g}). Try --ridge 1", largest));
  problem.write(at, weights);
  return end;
}

}  // namespace truemax
