#include "train/sets.hpp"

#include <vector>

#include "evaluate/ranking.hpp"

namespace truemax {

std::size_t TrainSets::bytes() const {
  std::vector<const DataView*> all{&data};
  for (const std::optional<DataView>* other : {&test, &valid})
    if (*other) all.push_back(&**other);
  return bytes_of(all) + (test && test->ranking ? test->ranking->memory.bytes() : 0);
}

}  // namespace truemax
