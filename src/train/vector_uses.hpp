// The vectors that a step uses, each with all its uses, so that every vector moves once, by the sum of the
// gradients of its uses, in a fixed order: the same bits for any number of threads.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "core/team.hpp"
#include "core/types.hpp"
#include "train/learnt_state.hpp"

namespace truemax {

// How far parameters move along a gradient.
struct LearntRate {
  float rate = 0, keep = 0;  // of rms_step
  float ridge = 0;           // gradient of the ridge per unit of a parameter
};

// Moves row r of a table along g. `square` has a running mean of squared gradients for every number of the
// table, or one for every row.
inline void move_row(Embedding& table, HugeVector<float>& square, std::size_t r, const float* g,
                     const LearntRate& rate) {
  const std::size_t h = table.columns;
  if (square.size() == table.rows)
    rms_row_step(table.row(r), &square[r], g, h, rate.rate, rate.keep);
  else
    rms_step(table.row(r), square.data() + r * h, g, h, rate.rate, rate.keep);
}

// Gradients that come from elsewhere: of[i] is a vector with the gradient `rows` [i][h].
struct OtherGradients {
  std::span<const std::uint32_t> of;
  const float* rows = nullptr;
};

// The uses are listed by buckets of vectors: first every thread lists those of some rows, then every thread
// moves the vectors of some buckets. A vector's uses come in the order of the rows.
class VectorUses {
 public:
  struct Use {
    std::uint32_t row;
    float value;
  };
  static constexpr std::size_t kRowsAtOnce = 16;  // listed together

  // Takes the memory for steps of up to so many rows with up to `longest` uses each, and gradients of
  // `others` vectors from elsewhere. `vectors`: of length h.
  void reserve(std::size_t vectors, std::size_t rows, std::size_t longest, std::size_t others, std::size_t h,
               const Team& team) {
    const std::size_t lists = lists_of(rows);
    buckets_ = std::bit_ceil(std::max(kBuckets, kBucketsOfMember * team.size()));
    of_bucket_ = (vectors + buckets_ - 1) / buckets_;
    place_.assign(buckets_ * of_bucket_, kNone);
    most_of_list_ = kRowsAtOnce * longest;
    added_ = std::make_unique_for_overwrite<Added[]>(lists * most_of_list_ + others);
    ends_.resize((lists + 1) * buckets_);
    members_.resize(team.size());
    for (Member& member : members_) {
      member.moved.reserve(std::min(of_bucket_, rows * longest + others));
      member.gradient.resize(h);
    }
  }

  // Of the lists of so many uses.
  static std::uint64_t bytes(std::uint64_t uses) { return uses * sizeof(Added); }

  static std::size_t lists_of(std::size_t rows) { return (rows + kRowsAtOnce - 1) / kRowsAtOnce; }

  // Lists the rows kRowsAtOnce `list` ... of a step. each_use(i, add) calls add(vector, use) for every use of
  // row i. Lists may be made at the same time.
  template <class EachUse>
  void list(std::size_t list, std::size_t rows, const EachUse& each_use) {
    const std::size_t first = list * kRowsAtOnce, last = std::min(rows, first + kRowsAtOnce);
    fill_list(list, [&](const auto& add) {
      for (std::size_t i = first; i < last; ++i) each_use(i, add);
    });
  }

  // Moves every vector that is in the lists of these rows or has a gradient in `others`. add_use(sum, use,
  // vector) adds the gradient of a use of a vector to a sum of length h.
  template <class AddUse>
  void step(std::size_t rows, Embedding& table, HugeVector<float>& square, const OtherGradients& others,
            const LearntRate& rate, Team& team, const AddUse& add_use) {
    const std::size_t lists = lists_of(rows), h = table.columns;
    fill_list(lists, [&](const auto& add) {
      for (std::size_t i = 0; i < others.of.size(); ++i)
        add(others.of[i], Use{kOther + static_cast<std::uint32_t>(i), 0});
    });
    const auto move = [&](float* g, const Moved& moved) {
      float* const e = table.row(moved.vector);
      std::fill(g, g + h, 0.0F);
      for (const Added* a = moved.first; a != nullptr; a = a->next) {
        if (a->use.row < kOther)
          add_use(g, a->use, static_cast<const float*>(e));
        else
          add_scaled(g, others.rows + std::size_t{a->use.row - kOther} * h, 1, h);
      }
      if (rate.ridge > 0) add_scaled(g, e, rate.ridge, h);
      move_row(table, square, moved.vector, g, rate);
    };
    // The same member moves the same vectors in every step: nobody else reads their mean squares.
    team.share_near(buckets_, [&](std::size_t m, std::size_t bucket) {
      Member& member = members_[m];
      join(bucket, lists + 1, member.moved);
      for (const Moved& moved : member.moved) move(member.gradient.data(), moved);
    });
  }

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF, kOther = 0x80000000;
  static constexpr std::size_t kBuckets = 64, kBucketsOfMember = 8;
  struct Added {
    Added* next;  // of the same vector
    FeatureId vector;
    Use use;
  };
  struct Moved {
    FeatureId vector;
    Added *first, *last;
  };
  struct alignas(64) Member {
    std::vector<Moved> moved;
    std::vector<float> gradient;
  };

  // Vectors that follow each other are in different buckets: often the first ones are the most common.
  std::size_t bucket_of(FeatureId f) const { return f & (buckets_ - 1); }
  Added* start_of(std::size_t list) { return added_.get() + list * most_of_list_; }
  // add_all(add) adds all uses of the list: first to count them, then to place them.
  template <class AddAll>
  void fill_list(std::size_t list, const AddAll& add_all) {
    std::uint32_t* const end = ends_.data() + list * buckets_;
    std::fill_n(end, buckets_, 0U);
    add_all([&](FeatureId f, Use /*use*/) { ++end[bucket_of(f)]; });
    std::exclusive_scan(end, end + buckets_, end, 0U);
    Added* const start = start_of(list);
    add_all([&](FeatureId f, Use use) { start[end[bucket_of(f)]++] = {nullptr, f, use}; });
  }
  void join(std::size_t bucket, std::size_t lists, std::vector<Moved>& moved);

  std::size_t buckets_ = 0, of_bucket_ = 0;  // a power of two; the most vectors of a bucket
  std::vector<std::uint32_t> place_;         // [bucket][vector]: its place while the bucket is joined; kNone
  std::size_t most_of_list_ = 0;
  std::unique_ptr<Added[]> added_;   // [list][most of a list], by bucket; the last list is of other gradients
  std::vector<std::uint32_t> ends_;  // [list][bucket]: where its uses end in the list
  std::vector<Member> members_;
};

}  // namespace truemax
