#include "train/machine.hpp"

#include <algorithm>

#include "core/memory_budget.hpp"
#include "core/parallel.hpp"
#include "device/open.hpp"
#include "ranks/ranks.hpp"
#include "train/problem.hpp"

namespace truemax {

Machine machine_of(std::uint64_t threads, std::uint64_t memory_limit, const Problem& problem) {
  Ranks& all = ranks();
  Machine machine;
  machine.threads =
      threads > 0 ? resolve_threads(threads) : std::max<std::size_t>(1, resolve_threads(0) / all.here());
  // What is counted by them must be chosen alike; lanes ask the recipe for those of their own rank.
  machine.threads = static_cast<std::size_t>(all.max_of(static_cast<double>(machine.threads)));
  machine.ranks = all.size();
  machine.in_groups = all.in_groups();
  // The data are already in memory: the run can use what is free now plus the data.
  machine.memory = memory_limit > 0 ? memory_limit : memory_of_each(all.here()) + problem.bytes;
  if (!all.alone())  // what is chosen by the memory must be chosen alike
    machine.memory = static_cast<std::uint64_t>(-all.max_of(-static_cast<double>(machine.memory)));
  if (problem.stream && memory_limit == 0)  // its buffers are not taken yet
    machine.memory -= std::min(machine.memory, problem.stream->buffer_bytes);
  return machine;
}

void look_for_card(Machine& machine) {
  machine.knows_card = true;
  if (device::find().cards == 0) return;
  if (const auto engine = device::open({device::Kind::automatic, 0})) set_card(machine, *engine);
}

void set_card(Machine& machine, const device::Engine& engine) {
  machine.knows_card = true;
  machine.card = Machine::Card{engine.card().name, engine.card().free};
}

}  // namespace truemax
