// Some features of the first blocks of W, as one thread sees them: as they were when it last looked, with
// what it has added since, which is kept apart from W until it is added up. Lines that all threads read and
// write every few steps would go from core to core each time; this way they do so only between sums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/csr.hpp"
#include "weights/weights.hpp"

namespace truemax {

// Some of the features, numbered anew: fewer than 65,535.
class SomeFeatures {
 public:
  using Place = std::uint16_t;  // small: every feature of every row is looked up
  static constexpr Place kNone = 0xFFFF;

  SomeFeatures(std::vector<FeatureId> some, std::size_t all);

  std::span<const FeatureId> numbers() const { return some_; }  // in all
  // Among them; kNone: not one of them.
  Place place(FeatureId feature) const { return place_[feature]; }

 private:
  std::vector<FeatureId> some_;
  std::vector<Place> place_;  // by feature
};

// A row in two parts: its features that are some of them, by their numbers there, and the others.
struct SplitRow {
  RowView here, there;
};

class SplitRows {
 public:
  void clear() { end_.clear(); }
  void add(const RowView& x, const SomeFeatures& some);
  SplitRow row(std::size_t i) const;
  std::size_t size() const { return end_.size(); }  // rows

 private:
  // Of all rows, one after the other; memory beyond their ends is written, too.
  struct Part {
    std::vector<FeatureId> index;
    std::vector<float> value;
    void reserve(std::size_t count);
  };
  Part here_, there_;
  struct End {
    std::size_t here = 0, there = 0;
  };
  std::vector<End> end_;  // by row
};

class BlocksApart {
 public:
  // Of the first `classes` classes (whole blocks, or all), and these features. `begin`: the first feature in
  // add_up(). Threads that add at the same time should not follow each other from line to line.
  BlocksApart(std::size_t classes, std::shared_ptr<const SomeFeatures> features, bool intercept,
              std::size_t begin = 0);

  std::size_t blocks() const { return numbers_.size(); }
  const SomeFeatures& features() const { return *features_; }

  // Looks at w.
  void start(const Weights& w);
  // z[b][lane] = x . (w of that lane of block b) times its scale in w, plus the intercept, which is also
  // copied; as seen here.
  void score(const Weights& w, const SplitRow& x, float* z, float* intercept);
  // Every lane of block b += c[b][lane] x, and the intercept: here what is kept apart, in w the rest.
  void add(Weights& w, const SplitRow& x, const float* c);
  // Moves what was added here to w.
  void add_up(Weights& w);

 private:
  // [blocks][features here], in memory as in w, divided by its scales: as seen here, and what was added.
  Weights seen_, added_;
  std::shared_ptr<const SomeFeatures> features_;
  std::size_t begin_;
  std::vector<std::uint32_t> numbers_;  // of the blocks
  std::vector<float> more_;             // [blocks][16]: scores, or what is added
};

}  // namespace truemax
