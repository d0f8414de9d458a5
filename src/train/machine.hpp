// What there is to compute with: measured once, the same on all ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace truemax {
namespace device {
class Engine;
}

struct Machine {
  std::size_t threads = 1;   // of the rank that has most
  std::uint64_t memory = 0;  // bytes that a run may take, with its data
  std::size_t ranks = 1;
  bool in_groups = false;  // the program of many ranks: what it chooses does not depend on their number

  struct Card {
    std::string name;
    std::uint64_t free = 0;  // bytes
  };
  // Looking for a card takes half a second, so it is done once a run needs to know (resolve says so).
  bool knows_card = false;
  std::optional<Card> card;

  bool alone() const { return ranks == 1; }
};

struct Problem;
// threads 0: all cores; memory_limit 0: what is free. Called by all ranks.
Machine machine_of(std::uint64_t threads, std::uint64_t memory_limit, const Problem& problem);
// Opens a card, if there is one.
void look_for_card(Machine& machine);
void set_card(Machine& machine, const device::Engine& engine);

}  // namespace truemax
