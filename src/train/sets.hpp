// The rows of a run.
#pragma once

#include <cstddef>
#include <optional>

#include "data/data_view.hpp"

namespace truemax {

struct TrainSets {
  DataView data;
  std::optional<DataView> test{};
  std::optional<DataView> valid{};  // required by --patience

  std::size_t bytes() const;  // shared rows count once
};

}  // namespace truemax
