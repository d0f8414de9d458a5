// Compiled twice (bench/CMakeLists.txt). The copy for this machine renames the namespace Eigen: functions of
// the same name with other instructions would be merged by the linker.
#include "eigen_dense.hpp"

#include <Eigen/Dense>

namespace truemax {
namespace {

using Matrix = Eigen::MatrixXd;
using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

class OfSize final : public EigenDense {
 public:
  explicit OfSize(Eigen::Index n)
      : a_(n, n), b_(n, n), work_(n, n), inverse_(n, n), out_(Matrix::Zero(n, n)), right_(n), x_(n), lu_(n) {}

  void set(const double* a, const double* b, const double* right) override {
    const Eigen::Index n = a_.rows();
    a_ = Eigen::Map<const RowMajor>(a, n, n);
    b_ = Eigen::Map<const RowMajor>(b, n, n);
    right_ = Eigen::Map<const Eigen::VectorXd>(right, n);
  }
  double invert_by_llt() override {
    work_ = a_;
    const Eigen::LLT<Eigen::Ref<Matrix>> factored(work_);
    inverse_.setIdentity();
    factored.solveInPlace(inverse_);
    return inverse_(0, 0);
  }
  double invert_by_ldlt() override {
    work_ = a_;
    const Eigen::LDLT<Eigen::Ref<Matrix>> factored(work_);
    inverse_.setIdentity();
    factored.solveInPlace(inverse_);
    return inverse_(0, 0);
  }
  double add_product() override {
    out_.noalias() += a_ * b_;
    return out_(0, 0);
  }
  double solve_lu() override {
    lu_.compute(b_);
    x_ = lu_.solve(right_);
    return x_(0);
  }
  double inverse(std::size_t i, std::size_t j) const override { return inverse_(index(i), index(j)); }
  double out(std::size_t i, std::size_t j) const override { return out_(index(i), index(j)); }
  double x(std::size_t i) const override { return x_(index(i)); }

 private:
  static Eigen::Index index(std::size_t i) { return static_cast<Eigen::Index>(i); }

  Matrix a_, b_, work_, inverse_, out_;
  Eigen::VectorXd right_, x_;
  Eigen::PartialPivLU<Matrix> lu_;
};

}  // namespace

std::unique_ptr<EigenDense> TRUEMAX_EIGEN_MAKER(std::size_t n) {
  return std::make_unique<OfSize>(static_cast<Eigen::Index>(n));
}

}  // namespace truemax
