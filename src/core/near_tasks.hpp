// Tasks of the members of a team within one phase of a run: each member takes its own first, whose memory is
// in the cache of its core, then those that slower members have not begun.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace truemax {

class NearTasks {
 public:
  // So many tasks of each member.
  NearTasks(std::size_t members, std::size_t each)
      : each_(static_cast<std::uint32_t>(each)), begun_(members) {}

  // Makes a member's tasks anew, while no member is in take().
  void renew(std::size_t member) { begun_[member].tasks.store(0, std::memory_order_relaxed); }
  // Calls work(owner, task) until all tasks of all members have been begun.
  template <class Work>
  void take(std::size_t member, const Work& work) {
    for (std::size_t i = 0; i < begun_.size(); ++i) {
      const std::size_t owner = (member + i) % begun_.size();
      std::atomic<std::uint32_t>& begun = begun_[owner].tasks;
      while (begun.load(std::memory_order_relaxed) < each_) {
        const std::uint32_t task = begun.fetch_add(1, std::memory_order_relaxed);
        if (task < each_) work(owner, std::size_t{task});
      }
    }
  }

 private:
  struct alignas(64) Begun {
    std::atomic<std::uint32_t> tasks{0};
  };
  std::uint32_t each_;
  std::vector<Begun> begun_;  // by member
};

}  // namespace truemax
