// For tests: the implicit step by definition, as the argmin of its proximal objective, found by Newton's
// method in many digits on the whole problem in (u, w), with no formula in between. Slow but faithful.
#pragma once

#include <gtest/gtest.h>

#include <boost/multiprecision/cpp_dec_float.hpp>
#include <cstddef>
#include <vector>

namespace truemax::oracle {

// Far from the optimum the Hessian loses most of the digits.
using Real = boost::multiprecision::number<boost::multiprecision::cpp_dec_float<100>>;
using Vector = std::vector<Real>;

// a y = b by Gaussian elimination; a is positive definite.
template <class Number>
std::vector<Number> solve_dense(std::vector<std::vector<Number>> a, std::vector<Number> b) {
  const std::size_t n = b.size();
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t r = i + 1; r < n; ++r) {
      if (a[r][i] == 0) continue;
      const Number factor = a[r][i] / a[i][i];
      for (std::size_t c = i; c < n; ++c) a[r][c] -= factor * a[i][c];
      b[r] -= factor * b[i];
    }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t c = i + 1; c < n; ++c) b[i] -= a[i][c] * b[c];
    b[i] /= a[i][i];
  }
  return b;
}

// Newton's method, each step halved until the objective falls. Objective: at(theta, gradient, hessian)
// returns the value and fills both; it is strictly convex, so the start does not matter.
template <class Objective, class Number>
std::vector<Number> minimise(const Objective& objective, std::vector<Number> theta) {
  std::vector<Number> gradient, ignored;
  std::vector<std::vector<Number>> hessian, ignored_too;
  for (int i = 0; i < 3000; ++i) {
    const Number value = objective.at(theta, gradient, hessian);
    const std::vector<Number> move = solve_dense(hessian, gradient);
    Number decrease = 0;
    for (std::size_t j = 0; j < move.size(); ++j) decrease += move[j] * gradient[j];
    if (decrease < Number("1e-60") * (1 + abs(value))) return theta;
    for (Number part = 1;; part /= 2) {
      std::vector<Number> next = theta;
      for (std::size_t j = 0; j < move.size(); ++j) next[j] -= part * move[j];
      if (objective.at(next, ignored, ignored_too) <= value || part < Number("1e-30")) {
        theta = next;
        break;
      }
    }
  }
  ADD_FAILURE() << "the oracle did not converge";
  return theta;
}

// A step: n rows, K classes (columns), d features.
struct Step {
  std::vector<std::vector<double>> x;  // [n][d]
  std::vector<std::size_t> label;      // [n], each below K
  std::vector<std::vector<double>> o;  // [n][K]; 0: not drawn for this row
  std::vector<double> e, u;            // [n] step and old u of each row
  std::vector<std::vector<double>> w;  // [K][d] old weights
  std::vector<double> r;               // [K] ridge factors >= 1
  bool free_last = false;              // the last feature is outside the ridge
  double rho = 0;  // if above 0, the distance of u is e/rho times the Bregman distance of exp(-u)
  double ridge(std::size_t k, std::size_t f) const { return free_last && f + 1 == features() ? 1.0 : r[k]; }
  std::size_t rows() const { return x.size(); }
  std::size_t columns() const { return w.size(); }
  std::size_t features() const { return x[0].size(); }
};

// sum_i e_i (u_i + exp(-u_i) + sum_k o_ik exp(x_i.(w_k - w_y) - u_i)) + sum_i (u_i - u_i')^2/2
//   + sum_k |w_k - w_k'|^2/2 + (r_k - 1)|w_k|^2/2,  at theta = (u_1 .. u_n, w_1 .. w_K), with its
//   derivatives. With rho > 0, (e_i/rho) (exp(-u_i) - exp(-u_i') + exp(-u_i') (u_i - u_i')) replaces
//   (u_i - u_i')^2/2.
class ProximalObjective {
 public:
  explicit ProximalObjective(const Step& step) : s_(step) {}

  std::size_t size() const { return s_.rows() + s_.columns() * s_.features(); }
  std::size_t place(std::size_t k, std::size_t f) const { return s_.rows() + k * s_.features() + f; }

  Vector start() const {
    Vector theta(s_.u.begin(), s_.u.end());
    for (const auto& w : s_.w) theta.insert(theta.end(), w.begin(), w.end());
    return theta;
  }

  Real at(const Vector& theta, Vector& gradient, std::vector<Vector>& hessian) const {
    const std::size_t d = s_.features();
    Real value = 0;
    gradient.assign(size(), Real(0));
    hessian.assign(size(), Vector(size(), Real(0)));
    for (std::size_t i = 0; i < s_.rows(); ++i) {
      const Real e(s_.e[i]), decayed = e * exp(-theta[i]), moved = theta[i] - s_.u[i];
      value += e * theta[i] + decayed;
      gradient[i] += e - decayed;
      hessian[i][i] += decayed;
      if (s_.rho > 0) {
        const Real old = e * exp(-Real(s_.u[i])), rho(s_.rho);
        value += (decayed - old + old * moved) / rho;
        gradient[i] += (old - decayed) / rho;
        hessian[i][i] += decayed / rho;
      } else {
        value += moved * moved / 2;
        gradient[i] += moved;
        hessian[i][i] += 1;
      }
      const std::size_t y = s_.label[i];
      for (std::size_t k = 0; k < s_.columns(); ++k) {
        if (s_.o[i][k] == 0) continue;
        Real exponent = -theta[i];
        // The non-zero derivatives of the exponent.
        std::vector<std::size_t> at{i};
        Vector direction{Real(-1)};
        for (std::size_t f = 0; f < d; ++f) {
          const Real x(s_.x[i][f]);
          exponent += x * (theta[place(k, f)] - theta[place(y, f)]);
          at.push_back(place(k, f)), direction.push_back(x);
          at.push_back(place(y, f)), direction.push_back(-x);
        }
        const Real grown = e * Real(s_.o[i][k]) * exp(exponent);
        value += grown;
        for (std::size_t p = 0; p < at.size(); ++p) {
          const Real part = grown * direction[p];
          gradient[at[p]] += part;
          for (std::size_t q = 0; q < at.size(); ++q) hessian[at[p]][at[q]] += part * direction[q];
        }
      }
    }
    for (std::size_t k = 0; k < s_.columns(); ++k)
      for (std::size_t f = 0; f < d; ++f) {
        const Real& w = theta[place(k, f)];
        const Real moved = w - s_.w[k][f], ridge = Real(s_.ridge(k, f)) - 1;
        value += moved * moved / 2 + ridge * w * w / 2;
        gradient[place(k, f)] += moved + ridge * w;
        hessian[place(k, f)][place(k, f)] += 1 + ridge;
      }
    return value;
  }

 private:
  const Step& s_;
};

inline double inner(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t f = 0; f < a.size(); ++f) sum += a[f] * b[f];
  return sum;
}

struct Errors {
  double u = 0, w = 0;
};

// How far u and w_k = (w_k' + sum_i C_ik x_i)/r_k, C as [n][K], are from the argmin: u relative to 1 + u; w_k
// relative to the size of its terms, the old w_k and the C_ik x_i, divided by r_k. The search starts at the
// answer (unless it is not finite), so a good one is confirmed quickly and a bad one is still detected.
inline Errors errors_of(const Step& step, const std::vector<double>& u, const std::vector<double>& c) {
  const ProximalObjective objective(step);
  const std::size_t n = step.rows(), columns = step.columns(), d = step.features();
  Vector answer(u.begin(), u.end());
  std::vector<double> size(columns, 0.0);
  for (std::size_t k = 0; k < columns; ++k) {
    double old = 0;
    for (std::size_t f = 0; f < d; ++f) {
      Real w(step.w[k][f]);
      old += step.w[k][f] * step.w[k][f];
      for (std::size_t i = 0; i < n; ++i) w += Real(c[i * columns + k]) * Real(step.x[i][f]);
      answer.push_back(w / Real(step.ridge(k, f)));
    }
    size[k] = std::sqrt(old);
    for (std::size_t i = 0; i < n; ++i)
      size[k] += std::abs(c[i * columns + k]) * std::sqrt(inner(step.x[i], step.x[i]));
    if (!step.free_last) size[k] /= step.r[k];
  }
  for (const Real& value : answer)
    if (!isfinite(value)) return {HUGE_VAL, HUGE_VAL};
  const Vector best = minimise(objective, answer);
  Errors worst;
  for (std::size_t i = 0; i < n; ++i)
    worst.u = std::max(worst.u, std::abs(Real((answer[i] - best[i]) / (1 + best[i])).convert_to<double>()));
  for (std::size_t k = 0; k < columns; ++k)
    for (std::size_t f = 0; f < d; ++f) {
      const std::size_t p = objective.place(k, f);
      const double off = std::abs(Real(answer[p] - best[p]).convert_to<double>());
      if (off > 0) worst.w = std::max(worst.w, off / size[k]);
    }
  return worst;
}

}  // namespace truemax::oracle
