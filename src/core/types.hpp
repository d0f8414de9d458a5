// Letters of the whole project: N rows, D features, K classes; see ARCHITECTURE.md, "Letters".
#pragma once

#include <cstddef>
#include <cstdint>

namespace truemax {

using FeatureId = std::uint32_t;
using ClassId = std::uint32_t;
// A row is a list of features; an example is a row with one of its labels. Distinct types keep their numbers
// apart.
enum class RowId : std::uint32_t {};
enum class ExampleId : std::uint32_t {};
constexpr std::uint32_t number_of(RowId row) {
  return static_cast<std::uint32_t>(row);
}
constexpr std::uint32_t number_of(ExampleId example) {
  return static_cast<std::uint32_t>(example);
}
inline constexpr std::uint64_t kMostRows = 0xFFFFFFFFu;

// All ids in [first, end), for loops.
template <class Id>
class IdRange {
 public:
  class Iterator {
   public:
    explicit constexpr Iterator(std::uint32_t at) : at_(at) {}
    constexpr Id operator*() const { return Id{at_}; }
    constexpr Iterator& operator++() {
      ++at_;
      return *this;
    }
    constexpr bool operator==(const Iterator&) const = default;

   private:
    std::uint32_t at_;
  };
  constexpr IdRange(std::size_t first, std::size_t end)
      : first_(static_cast<std::uint32_t>(first)), end_(static_cast<std::uint32_t>(end)) {}
  constexpr Iterator begin() const { return Iterator(first_); }
  constexpr Iterator end() const { return Iterator(end_); }
  constexpr std::size_t size() const { return end_ - first_; }
  constexpr bool empty() const { return first_ == end_; }

 private:
  std::uint32_t first_, end_;
};

// The class of a label that training never saw.
inline constexpr ClassId kUnseenClass = 0xFFFFFFFFu;

// Classes in a block: the weights of 16 classes share a cache line, and draws may take whole blocks.
inline constexpr std::size_t kBlockClasses = 16;

}  // namespace truemax
