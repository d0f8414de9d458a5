#include "train/group_rule.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "rule/descent_scalar.hpp"
#include "rule/methods.hpp"
#include "rule/mirror_rate.hpp"
#include "solve/prox_blocks.hpp"
#include "solve/prox_guess.hpp"
#include "solve/row_scalar.hpp"

namespace truemax {
namespace {

constexpr float kNoLabel = -std::numeric_limits<float>::max();  // of a rank without the row's label

// The own blocks of a row as the scalar solvers of solve/ take them, and the ranks as the threads that share
// them.
struct OwnClasses {
  GroupRows& rows;
  const GroupRow& row;
  int blocks() const { return static_cast<int>(row.end - row.begin); }
  static int lanes() { return static_cast<int>(kLanes); }
  double weight(int b) const { return rows.weight[row.begin + static_cast<std::uint32_t>(b)]; }
  double norm(int b) const { return rows.norm[row.begin + static_cast<std::uint32_t>(b)]; }
  float& at(int b, int lane) const {
    return rows.score[(row.begin + static_cast<std::size_t>(b)) * kLanes + static_cast<std::size_t>(lane)];
  }
};
struct AllRanks {
  Ranks& ranks;
  double sum(double x) const { return ranks.sum_of(x); }
  double highest(double x) const { return ranks.max_of(x); }
};

class ProxGroup final : public GroupRule {
 public:
  ProxGroup(const LaneSetup& setup, std::size_t most_rows)
      : rho_(setup.recipe.rule), complete_(setup.draw->complete()), search_(most_rows) {
    declined_.reserve(most_rows);
    guesses_.reserve(most_rows);
  }

  bool wants_shrunken() const override { return true; }
  void start(double decayed) override {
    inverse_rho_ = 1 / rho_.at(decayed, complete_);
    declined_.clear();
  }
  std::span<const std::uint32_t> declined() const override { return declined_; }

  bool next(GroupRows& rows, GroupPart& part) override {
    switch (part.phase++) {
      case 0:
        return send_labels(rows, part);
      case 1:
        return send_starts(rows, part);
      case 2:
        return begin_search(rows, part);
      default:
        return search_on(rows, part);
    }
  }

  void solve_alone(GroupRows& rows, GroupRow& row, Ranks& ranks) override {
    constexpr double kLeastNorm = 1e-30;  // of a row without features, whose u moves all the same
    RowStep step;
    step.e = row.e, step.u = row.u, step.rho = 1 / inverse_rho_;
    step.label_norm = std::max(row.label_norm, kLeastNorm);
    step.label_score = row.label_score;
    for (std::uint32_t b = row.begin; b < row.end; ++b) rows.norm[b] = std::max(rows.norm[b], kLeastNorm);
    solve_prox_row_scalar(step, OwnClasses{rows, row}, AllRanks{ranks});
    row.u = step.u, row.label_coefficient = step.label_coefficient;
    std::copy_n(rows.score + std::size_t{row.begin} * kLanes, (row.end - row.begin) * kLanes,
                rows.coefficient + std::size_t{row.begin} * kLanes);
  }

 private:
  static ProxBlocks blocks_of(const GroupRows& rows, const GroupRow& row) {
    ProxBlocks p;
    p.e = row.e, p.label_score = row.label_score;
    p.blocks = row.end - row.begin;
    p.score = rows.score + std::size_t{row.begin} * kLanes;
    p.coefficient = rows.coefficient + std::size_t{row.begin} * kLanes;
    p.norm = rows.norm.data() + row.begin, p.weight = rows.weight.data() + row.begin;
    return p;
  }

  static bool send_labels(GroupRows& rows, GroupPart& part) {
    part.how = Combine::sum, part.size = 0;
    for (std::size_t i = part.first; i < part.last; ++i) {
      const GroupRow& row = rows.row[i];
      part.message[part.size++] = row.has_label() ? static_cast<float>(row.label_score) : 0.0F;
    }
    return true;
  }

  static bool send_starts(GroupRows& rows, GroupPart& part) {
    // From the last row on: a row's answer is shorter than what it sends next.
    for (std::size_t i = part.last; i-- > part.first;) {
      GroupRow& row = rows.row[i];
      row.label_score = static_cast<double>(part.message[i - part.first]);
      ProxBlocks p = blocks_of(rows, row);
      const ProxStart start = prox_start(p);
      part.message[2 * (i - part.first)] = static_cast<float>(start.sum);
      part.message[2 * (i - part.first) + 1] = static_cast<float>(start.squares);
    }
    part.size = 2 * (part.last - part.first);
    return true;
  }

  bool begin_search(GroupRows& rows, GroupPart& part) {
    part.open.clear();
    guesses_.clear();
    for (std::size_t i = part.first; i < part.last; ++i) {
      GroupRow& row = rows.row[i];
      const double sum = static_cast<double>(part.message[2 * (i - part.first)]),
                   squares = static_cast<double>(part.message[2 * (i - part.first) + 1]);
      const auto number = static_cast<std::uint32_t>(i);
      if (!prox_takes(row.u, inverse_rho_) || !(squares < kMostProxSquares)) {
        declined_.push_back(number);
        continue;
      }
      if (!(sum > kLeastProxSum)) {
        row.label_coefficient = 0;
        row.u = prox_alone(row.u, inverse_rho_);
        std::fill_n(rows.coefficient + std::size_t{row.begin} * kLanes, (row.end - row.begin) * kLanes, 0.0F);
        continue;
      }
      const double base = 1 + quick_exp(-row.u) * inverse_rho_;
      guesses_.add(row.e, base, row.label_norm, sum, squares);
      part.open.push_back(number);
    }
    guesses_.find(inverse_rho_);
    for (std::size_t j = 0; j < part.open.size(); ++j)
      search_[part.open[j]] = ProxSearch<DoubleMath>(guesses_.equation(j, inverse_rho_), guesses_.y(j),
                                                     guesses_.g(j), guesses_.common(j));
    return send_sums(rows, part);
  }

  // Loops apart from those of the searches: the next row begins while this one waits for its arithmetic. A
  // row that is done sends its part of c_y along with the evaluations of the others.
  bool send_sums(GroupRows& rows, GroupPart& part) {
    part.size = 0;
    for (const std::uint32_t i : part.open) {
      const ProxBlocks blocks = blocks_of(rows, rows.row[i]);
      if (search_[i].done()) {
        part.message[part.size++] = static_cast<float>(prox_finish(blocks, search_[i].root().move));
        continue;
      }
      const ProxSums<double> at = prox_sums(blocks, search_[i].common());
      part.message[part.size++] = static_cast<float>(at.value);
      part.message[part.size++] = static_cast<float>(at.slope);
    }
    return part.size > 0;
  }

  bool search_on(GroupRows& rows, GroupPart& part) {
    std::size_t from = 0, left = 0;
    for (const std::uint32_t i : part.open) {
      GroupRow& row = rows.row[i];
      ProxSearch<DoubleMath>& search = search_[i];
      if (search.done()) {
        row.label_coefficient = static_cast<double>(part.message[from++]);
        continue;
      }
      search.take({static_cast<double>(part.message[from]), static_cast<double>(part.message[from + 1])});
      from += 2;
      if (search.done()) {
        const ProxRoot<double> root = search.root();
        if (root.evaluations == 0) {
          declined_.push_back(i);
          continue;
        }
        row.u = -quick_log(root.g);
      }
      part.open[left++] = i;
    }
    part.open.resize(left);
    return send_sums(rows, part);
  }

  MirrorRate rho_;
  bool complete_;
  double inverse_rho_ = 1;
  ProxGuesses guesses_;  // of a part
  std::vector<ProxSearch<DoubleMath>> search_;
  std::vector<std::uint32_t> declined_;
};

// scent, umax and exact: a maximum, then a sum, then what the classes give to the label.
class ExplicitGroup : public GroupRule {
 public:
  explicit ExplicitGroup(std::size_t most_rows) : highest_(most_rows) {}

  bool next(GroupRows& rows, GroupPart& part) override {
    switch (part.phase++) {
      case 0:
        return send_highest(rows, part);
      case 1:
        return send_sums(rows, part);
      case 2:
        return part.size = take_sums(rows, part), part.size > 0;
      default:
        for (std::size_t i = part.first; i < part.last; ++i)
          finish(rows.row[i], static_cast<double>(part.message[i - part.first]));
        return false;
    }
  }

 protected:
  // The weight of a class in the sum, by that of its block.
  virtual double counts(double o) const = 0;
  // The sum of the other classes, relative to exp(base); fills the coefficients and returns what this rank's
  // classes give to the label. `base`: the highest score, or that of the label if it is higher.
  virtual double take_sum(GroupRows& rows, GroupRow& row, double base, double sum) = 0;
  // Whether the sum alone says what the label gets.
  virtual bool needs_total() const { return true; }
  virtual void finish(GroupRow& row, double total) = 0;

  // coefficient <- -factor o coefficient; returns the sum of what was taken.
  static double scale_coefficients(GroupRows& rows, const GroupRow& row, double factor) {
    double sum = 0;
    for (std::size_t b = row.begin; b < row.end; ++b) {
      const double by = factor * rows.weight[b];
      float* const c = rows.coefficient + b * kLanes;
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        const double taken = by * static_cast<double>(c[lane]);
        sum += taken;
        c[lane] = static_cast<float>(-taken);
      }
    }
    return sum;
  }

 private:
  bool send_highest(GroupRows& rows, GroupPart& part) {
    part.how = Combine::max, part.size = 0;
    for (std::size_t i = part.first; i < part.last; ++i) {
      const GroupRow& row = rows.row[i];
      const float* const z = rows.score + std::size_t{row.begin} * kLanes;
      float highest = kNoScore;
      for (std::size_t k = 0; k < (row.end - row.begin) * kLanes; ++k) highest = std::max(highest, z[k]);
      part.message[part.size++] = row.has_label() ? static_cast<float>(row.label_score) : kNoLabel;
      part.message[part.size++] = highest;
    }
    return true;
  }

  // Puts exp(z - highest) in place of the coefficients.
  bool send_sums(GroupRows& rows, GroupPart& part) {
    for (std::size_t i = part.first; i < part.last; ++i) {
      GroupRow& row = rows.row[i];
      row.label_score = static_cast<double>(part.message[2 * (i - part.first)]);
      highest_[i] = std::max(static_cast<double>(part.message[2 * (i - part.first) + 1]), row.label_score);
      double sum = 0;
      for (std::size_t b = row.begin; b < row.end; ++b) {
        double of_block = 0;
        for (std::size_t k = b * kLanes; k < (b + 1) * kLanes; ++k) {
          const bool used = rows.score[k] > 0.5F * kNoScore;
          const double part_of = used ? quick_exp(static_cast<double>(rows.score[k]) - highest_[i]) : 0.0;
          rows.coefficient[k] = static_cast<float>(part_of);
          of_block += part_of;
        }
        sum += counts(rows.weight[b]) * of_block;
      }
      part.message[i - part.first] = static_cast<float>(sum);
    }
    part.how = Combine::sum, part.size = part.last - part.first;
    return true;
  }

  std::size_t take_sums(GroupRows& rows, GroupPart& part) {
    for (std::size_t i = part.first; i < part.last; ++i)
      part.message[i - part.first] = static_cast<float>(
          take_sum(rows, rows.row[i], highest_[i], static_cast<double>(part.message[i - part.first])));
    return needs_total() ? part.last - part.first : 0;
  }

  std::vector<double> highest_;
};

class ScentGroup final : public ExplicitGroup {
 public:
  ScentGroup(const LaneSetup& setup, std::size_t most_rows)
      : ExplicitGroup(most_rows), rate_(setup.recipe.rule), complete_(setup.draw->complete()) {}
  void start(double decayed) override { rho_ = rate_.at(decayed, complete_); }

 private:
  double counts(double o) const override { return o; }
  double take_sum(GroupRows& rows, GroupRow& row, double base, double sum) override {
    const ScentMove move = scent_move(row.u, rho_, log_of_sum(sum, base - row.label_score), row.least_weight);
    row.u = move.u;
    return scale_coefficients(rows, row,
                              row.e * std::exp(std::min(base - (row.label_score + row.u), move.most)));
  }
  void finish(GroupRow& row, double total) override { row.label_coefficient = total; }

  MirrorRate rate_;
  bool complete_;
  double rho_ = 1;
};

class UmaxGroup final : public ExplicitGroup {
 public:
  UmaxGroup(const LaneSetup& setup, std::size_t most_rows)
      : ExplicitGroup(most_rows), delta_(setup.recipe.rule.delta), most_u_(setup.problem.u_bound()) {}
  void start(double /*decayed*/) override {}

 private:
  double counts(double /*o*/) const override { return 1; }
  double take_sum(GroupRows& rows, GroupRow& row, double base, double sum) override {
    row.u = umax_raised(row.u, log_of_sum(sum, base - row.label_score), delta_);
    return scale_coefficients(rows, row,
                              row.e * std::exp(std::min(base - (row.label_score + row.u), delta_)));
  }
  void finish(GroupRow& row, double total) override {
    row.label_coefficient = total;
    row.u = umax_u(row.u, total, row.e, delta_, most_u_);
  }

  double delta_, most_u_;
};

class ExactGroup final : public ExplicitGroup {
 public:
  explicit ExactGroup(std::size_t most_rows) : ExplicitGroup(most_rows) {}
  void start(double /*decayed*/) override {}

 private:
  double counts(double /*o*/) const override { return 1; }
  bool needs_total() const override { return false; }
  double take_sum(GroupRows& rows, GroupRow& row, double base, double sum) override {
    const double factor = row.e / (sum + std::exp(row.label_score - base));
    scale_coefficients(rows, row, factor);
    row.label_coefficient = factor * sum;  // 1 - p_y without cancellation
    return 0;
  }
  void finish(GroupRow& /*row*/, double /*total*/) override {}
};

}  // namespace

bool has_group_rule(std::string_view method) {
  return method == "prox" || method == "scent" || method == "umax" || method == "exact";
}

std::unique_ptr<GroupRule> make_group_rule(const LaneSetup& setup, std::size_t most_rows) {
  const std::string_view name = setup.rule.info().name;
  if (name == "prox") return std::make_unique<ProxGroup>(setup, most_rows);
  if (name == "scent") return std::make_unique<ScentGroup>(setup, most_rows);
  if (name == "umax") return std::make_unique<UmaxGroup>(setup, most_rows);
  if (name == "exact") return std::make_unique<ExactGroup>(most_rows);
  return nullptr;
}

}  // namespace truemax
