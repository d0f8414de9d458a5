// Draws from given probabilities in constant time (Walker's alias table, Vose's construction), and weighted
// sets of such draws.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/host_device.hpp"

namespace truemax {

// A word falls into one of n equal cells; below `keep` (in units of 2^-64 of the cell) it means the cell's
// own number, otherwise the other one.
class AliasTable {
  __extension__ using Wide = unsigned __int128;

 public:
  struct Cell {
    std::uint64_t keep = 0;
    std::uint32_t other = 0;
  };

  AliasTable() = default;
  explicit AliasTable(std::span<const double> probability);  // must sum to 1

  std::size_t cell_of(std::uint64_t word) const {
    return static_cast<std::size_t>((static_cast<Wide>(word) * cells_.size()) >> 64);
  }
  // Prefetches what pick() will read.
  void ask_for(std::uint64_t word) const { __builtin_prefetch(&cells_[cell_of(word)]); }
  std::uint32_t pick(std::uint64_t word) const { return pick(cells_.data(), cells_.size(), word); }
  TRUEMAX_HOST_DEVICE static std::uint32_t pick(const Cell* cells, std::uint64_t count, std::uint64_t word) {
    const Wide place = static_cast<Wide>(word) * count;
    const auto cell = static_cast<std::uint32_t>(place >> 64);
    return static_cast<std::uint64_t>(place) < cells[cell].keep ? cell : cells[cell].other;
  }
  std::span<const Cell> cells() const { return cells_; }

 private:
  std::vector<Cell> cells_;
};

// q_i = (1 - uniform_share) mass_i^power/sum + uniform_share/n.
std::vector<double> mixed_probabilities(std::span<const double> mass, double power, double uniform_share);

// Several draws with replacement: each outcome once, with weight times/(draws q).
class WeightedDraws {
 public:
  WeightedDraws() = default;
  WeightedDraws(std::vector<double> probability, std::size_t draws);

  std::size_t outcomes() const { return probability_.size(); }
  std::span<const AliasTable::Cell> cells() const { return table_.cells(); }
  std::size_t draws() const { return draws_; }
  double mean_count(std::size_t i) const { return static_cast<double>(draws_) * probability_[i]; }
  double inclusion(std::size_t i) const;
  std::uint64_t memory_bytes() const { return outcomes() * (sizeof(AliasTable::Cell) + sizeof(double)); }

  // Prefetches for a later draw: its cell, and the probability of its most likely outcome.
  void ask_for(std::uint64_t word) const {
    table_.ask_for(word);
    __builtin_prefetch(&probability_[table_.cell_of(word)]);
  }
  // Calls take(outcome, weight) in rising order. Uses one word per draw and overwrites the words with
  // outcomes.
  template <class Take>
  void each(std::span<std::uint64_t> words, Take&& take) const {
    for (std::uint64_t& word : words) word = table_.pick(word);
    std::sort(words.begin(), words.end());
    for (std::size_t i = 0; i < words.size();) {
      const std::uint64_t outcome = words[i];
      std::size_t times = 0;
      for (; i < words.size() && words[i] == outcome; ++i) ++times;
      take(static_cast<std::uint32_t>(outcome), static_cast<double>(times) / mean_count(outcome));
    }
  }

 private:
  std::vector<double> probability_;
  AliasTable table_;
  std::size_t draws_ = 0;
};

}  // namespace truemax
