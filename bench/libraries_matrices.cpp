// solve/dense.hpp beside Eigen, for the sizes that solve/implicit_batch.cpp uses.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "eigen_dense.hpp"
#include "libraries.hpp"
#include "solve/dense.hpp"

namespace truemax {
namespace {

struct Matrices {
  explicit Matrices(std::size_t n) : size(n), pivot(n), x(n) {
    std::mt19937_64 random(1);
    std::normal_distribution<double> normal;
    std::vector<double> half(n * n);
    for (double& v : half) v = normal(random);
    definite.set_zero(n, n), other.set_zero(n, n), work.set_zero(n, n), out.set_zero(n, n);
    std::vector<double> flat_definite, flat_other;
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j) {
        double sum = i == j ? 1 : 0;  // I + D^1/2 G D^1/2, as implicit_batch.cpp inverts it
        for (std::size_t k = 0; k < n; ++k) sum += half[i * n + k] * half[j * n + k] / static_cast<double>(n);
        definite(i, j) = sum, other(i, j) = normal(random);
        flat_definite.push_back(sum), flat_other.push_back(other(i, j));
      }
    for (std::size_t i = 0; i < n; ++i) right.push_back(normal(random));
    baseline = eigen_baseline(n), native = eigen_native(n);
    for (EigenDense* one : {baseline.get(), native.get()})
      one->set(flat_definite.data(), flat_other.data(), right.data());
  }
  double invert() {
    std::copy_n(definite.row(0), size * definite.stride(), work.row(0));
    invert_definite(work.row(0), size, work.stride());
    return work(0, 0);
  }
  double multiply() {
    add_product(out.row(0), out.stride(), definite.row(0), definite.stride(), other.row(0), other.stride(),
                size, size, size);
    return out(0, 0);
  }
  double solve() {
    std::copy_n(other.row(0), size * other.stride(), work.row(0));
    std::copy_n(right.data(), size, x.data());
    factor_lu(work.row(0), size, work.stride(), pivot.data());
    truemax::solve_lu(work.row(0), size, work.stride(), pivot.data(), x.data());
    return x[0];
  }

  std::size_t size;
  DenseMatrix definite, other, work, out;
  std::vector<std::size_t> pivot;
  std::vector<double> right, x;
  std::unique_ptr<EigenDense> baseline, native;
};

// The largest difference relative to the largest number.
template <class Ours, class Theirs>
double difference(std::size_t rows, std::size_t columns, Ours&& ours, Theirs&& theirs) {
  double most = 0, size = 0;
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < columns; ++j) {
      most = std::max(most, std::abs(ours(i, j) - theirs(i, j)));
      size = std::max(size, std::abs(ours(i, j)));
    }
  return most / size;
}

std::string check_matrices(Matrices& m) {
  constexpr double kTolerance = 1e-11;
  const std::size_t n = m.size;
  for (EigenDense* eigen : {m.baseline.get(), m.native.get()}) {
    const auto theirs = [&](std::size_t i, std::size_t j) { return eigen->inverse(i, j); };
    m.invert(), eigen->invert_by_llt();
    double off = difference(n, n, m.work, theirs);
    eigen->invert_by_ldlt();
    off = std::max(off, difference(n, n, m.work, theirs));
    m.out.set_zero(n, n);
    m.multiply(), eigen->add_product();
    off = std::max(off,
                   difference(n, n, m.out, [&](std::size_t i, std::size_t j) { return eigen->out(i, j); }));
    m.solve(), eigen->solve_lu();
    off = std::max(off, difference(
                            n, 1, [&](std::size_t i, std::size_t) { return m.x[i]; },
                            [&](std::size_t i, std::size_t) { return eigen->x(i); }));
    if (!(off < kTolerance)) return fmt::format("n={}: Eigen and truemax differ by {}", n, off);
  }
  return {};
}

}  // namespace

void compare_matrices() {
  using Run = std::function<double(Matrices&)>;
  const std::vector<std::pair<std::string, Run>> runs = {
      {"invert, LLT/truemax", [](Matrices& m) { return m.invert(); }},
      {"invert, LLT/Eigen", [](Matrices& m) { return m.baseline->invert_by_llt(); }},
      {"invert, LLT/Eigen, native", [](Matrices& m) { return m.native->invert_by_llt(); }},
      {"invert, LDLT/truemax", [](Matrices& m) { return m.invert(); }},
      {"invert, LDLT/Eigen", [](Matrices& m) { return m.baseline->invert_by_ldlt(); }},
      {"invert, LDLT/Eigen, native", [](Matrices& m) { return m.native->invert_by_ldlt(); }},
      {"add a product/truemax", [](Matrices& m) { return m.multiply(); }},
      {"add a product/Eigen", [](Matrices& m) { return m.baseline->add_product(); }},
      {"add a product/Eigen, native", [](Matrices& m) { return m.native->add_product(); }},
      {"LU and solve/truemax", [](Matrices& m) { return m.solve(); }},
      {"LU and solve/Eigen", [](Matrices& m) { return m.baseline->solve_lu(); }},
      {"LU and solve/Eigen, native", [](Matrices& m) { return m.native->solve_lu(); }}};
  for (const auto& [name, run] : runs)
    for (const std::size_t n : {2UL, 5UL, 8UL, 20UL, 32UL, 64UL}) {
      const std::size_t slash = name.find('/');
      add<Matrices>(
          fmt::format("matrices/{}, n = {}{}", name.substr(0, slash), n, name.substr(slash)),
          [n] { return std::make_shared<Matrices>(n); }, check_matrices, run);
    }
}

}  // namespace truemax
