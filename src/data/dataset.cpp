#include "data/dataset.hpp"

#include <algorithm>
#include <numeric>

namespace truemax {
namespace {

// A whole number as sign and digits without leading zeros; no digits if not a whole number.
struct WholeNumber {
  bool negative = false;
  std::string_view digits;

  explicit WholeNumber(std::string_view name) {
    negative = !name.empty() && name.front() == '-';
    if (negative) name.remove_prefix(1);
    if (name.empty() || !std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; }))
      return;
    digits = name.substr(std::min(name.find_first_not_of('0'), name.size() - 1));
  }
};

int compare_magnitude(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
  return a.compare(b);
}

}  // namespace

bool name_less(std::string_view a, std::string_view b) {
  const WholeNumber x(a), y(b);
  if (x.digits.empty() || y.digits.empty()) {
    if (x.digits.empty() != y.digits.empty()) return y.digits.empty();
    return a < b;
  }
  if (x.negative != y.negative) return x.negative;
  const int order = compare_magnitude(x.digits, y.digits);
  if (order != 0) return (order < 0) != x.negative;
  return a < b;  // the same number in two forms: keep the order strict
}

ClassList::ClassList(std::vector<std::string> names, std::vector<double> counts, std::vector<ClassId>* ids) {
  std::vector<ClassId> order(names.size());
  std::iota(order.begin(), order.end(), ClassId{0});
  std::sort(order.begin(), order.end(), [&](ClassId a, ClassId b) {
    return counts[a] != counts[b] ? counts[a] > counts[b] : name_less(names[a], names[b]);
  });
  names_.reserve(order.size());
  counts_.reserve(order.size());
  if (ids != nullptr) ids->resize(order.size());
  for (const ClassId i : order) {
    if (ids != nullptr) (*ids)[i] = static_cast<ClassId>(names_.size());
    names_.push_back(std::move(names[i]));
    counts_.push_back(counts[i]);
  }
  index_.make(names_);
}

ClassId ClassList::find(std::string_view name) const {
  const std::uint32_t found = index_.find(names_, name);
  return found == NameIndex::kNone ? kUnseenClass : found;
}

std::vector<ClassId> ClassList::by_name() const {
  std::vector<ClassId> order(names_.size());
  std::iota(order.begin(), order.end(), ClassId{0});
  std::sort(order.begin(), order.end(),
            [this](ClassId a, ClassId b) { return name_less(names_[a], names_[b]); });
  return order;
}

const std::vector<std::uint32_t>& ClassList::name_ranks() const {
  return ranks_.get([this] {
    std::vector<std::uint32_t> rank(size());
    const std::vector<ClassId> order = by_name();
    for (std::size_t i = 0; i < order.size(); ++i) rank[order[i]] = static_cast<std::uint32_t>(i);
    return rank;
  });
}

}  // namespace truemax
