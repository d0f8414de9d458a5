#include "weights/on_device.hpp"

#include <utility>

namespace truemax {

std::unique_ptr<device::Evaluated> rows_on_device(device::Passer& device, CsrView rows,
                                                  std::span<const std::uint32_t> row,
                                                  std::span<const std::uint32_t> label) {
  std::vector<std::uint64_t> begin(rows.begin.begin(), rows.begin.end());
  if (begin.empty()) begin.push_back(0);
  const std::uint64_t before = begin.front();
  for (std::uint64_t& at : begin) at -= before;
  return device.add_rows(
      {begin, {rows.index + before, rows.nonzeros()}, {rows.value + before, rows.nonzeros()}},
      {row, label, {}});
}

PassResult pass_on_device(device::Passer& device, CsrView rows, std::size_t top,
                          std::span<const std::uint32_t> row, std::span<const std::uint32_t> label,
                          std::vector<double>* label_score) {
  const auto there = rows_on_device(device, rows, row, label);
  device::Pass pass = device.pass(*there, static_cast<std::uint32_t>(top));
  PassResult result;
  result.top = pass.top;
  result.highest = std::move(pass.highest), result.excess = std::move(pass.excess);
  result.best.assign(pass.best.begin(), pass.best.end());
  result.best_score.assign(pass.best_score.begin(), pass.best_score.end());
  if (label_score != nullptr) *label_score = std::move(pass.label_score);
  return result;
}

}  // namespace truemax
