// W as a device takes it: its memory as it is, without scales.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/csr.hpp"
#include "device/engine.hpp"
#include "weights/pass.hpp"
#include "weights/weights.hpp"

namespace truemax {

// `zero`: all numbers of the matrix are 0, and need not be read.
inline device::HostWeights host_weights(Weights& w, bool zero = false) {
  return {zero ? std::span<float>() : w.memory(), w.intercept(), static_cast<std::uint32_t>(w.classes()),
          static_cast<std::uint32_t>(w.features())};
}

// To be read only.
inline device::HostWeights host_weights(const Weights& w) {
  return host_weights(const_cast<Weights&>(w));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
}

std::unique_ptr<device::Evaluated> rows_on_device(device::Passer& device, CsrView rows,
                                                  std::span<const std::uint32_t> row = {},
                                                  std::span<const std::uint32_t> label = {});

// The pass of rows on a device that has W. `row` and `label`: of examples whose scores are wanted too, into
// `label_score`.
PassResult pass_on_device(device::Passer& device, CsrView rows, std::size_t top,
                          std::span<const std::uint32_t> row = {}, std::span<const std::uint32_t> label = {},
                          std::vector<double>* label_score = nullptr);

}  // namespace truemax
