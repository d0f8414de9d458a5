#include "weights/block_share.hpp"

#include <algorithm>
#include <numeric>

namespace truemax {

BlockShare::BlockShare(std::span<const double> mass, std::size_t rank, std::size_t ranks)
    : classes_(mass.size()),
      rank_(rank),
      ranks_(ranks),
      owner_((mass.size() + kBlockClasses - 1) / kBlockClasses) {
  const auto mass_of = [&](std::size_t block) {
    const std::size_t from = block * kBlockClasses, to = std::min(classes_, from + kBlockClasses);
    double sum = 0;
    for (std::size_t k = from; k < to; ++k) sum += mass[k];
    return sum;
  };
  std::vector<double> load(ranks, 0.0);
  std::vector<std::uint32_t> lightest(ranks);
  std::iota(lightest.begin(), lightest.end(), 0U);
  std::vector<std::pair<double, std::uint32_t>> round;
  for (std::size_t first = 0; first < owner_.size(); first += ranks) {
    round.clear();
    for (std::size_t b = first; b < std::min(owner_.size(), first + ranks); ++b)
      round.emplace_back(-mass_of(b), static_cast<std::uint32_t>(b));
    std::sort(round.begin(), round.end());
    std::sort(lightest.begin(), lightest.end(), [&](std::uint32_t a, std::uint32_t b) {
      return load[a] != load[b] ? load[a] < load[b] : a < b;
    });
    for (std::size_t i = 0; i < round.size(); ++i) {
      owner_[round[i].second] = lightest[i];
      load[lightest[i]] -= round[i].first;
    }
  }
  for (std::size_t b = 0; b < owner_.size(); ++b)
    if (owner_[b] == rank) own_.push_back(static_cast<std::uint32_t>(b));
}

std::size_t BlockShare::global(std::size_t rank, std::size_t local) const {
  std::size_t block = local * ranks_;
  while (block < owner_.size() && owner_[block] != rank) ++block;
  return block;
}

std::size_t BlockShare::classes_of(std::size_t rank) const {
  if (owner_.empty()) return 0;
  const std::size_t whole_rounds = owner_.size() / ranks_;
  std::size_t classes = whole_rounds * kBlockClasses;
  for (std::size_t b = whole_rounds * ranks_; b < owner_.size(); ++b)
    if (owner_[b] == rank) classes += kBlockClasses;
  const std::size_t padding = owner_.size() * kBlockClasses - classes_;
  return owner_.back() == rank ? classes - padding : classes;
}

std::size_t BlockShare::most_classes(std::size_t classes, std::size_t ranks) {
  const std::size_t blocks = classes / kBlockClasses + (classes % kBlockClasses == 0 ? 0 : 1);
  return std::min(classes, (blocks + ranks - 1) / ranks * kBlockClasses);
}

}  // namespace truemax
