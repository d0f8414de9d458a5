#include "train/block_loop.hpp"

#include "train/problem.hpp"

namespace truemax {

std::size_t useful_threads(const Dataset& data, const TrainOptions& options, const Draw& draw) {
  const std::size_t threads = options.thread_count();
  if (threads == 1 || draw.complete()) return 1;
  // How often two steps have a block in common, in the mean.
  const std::vector<double> mass = label_mass(data);
  double total = 0, common = 0;
  for (const double m : mass) total += m;
  for (std::size_t k = 0; k < mass.size(); k += kLanes) {
    double label = 0;
    for (std::size_t i = k; i < std::min(mass.size(), k + kLanes); ++i) label += mass[i] / total;
    const double drawn = draw.inclusion(static_cast<ClassId>(k));
    const double there = label + (1 - label) * drawn;
    common += there * there;
  }
  constexpr double kMost = 0.3;  // of the steps may have to wait for another that is under way
  return std::clamp<std::size_t>(1 + static_cast<std::size_t>(kMost / common), 1, threads);
}

}  // namespace truemax
