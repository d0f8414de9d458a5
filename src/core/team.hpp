// Persistent threads for pieces of work of a few microseconds, for which starting threads would cost more
// than the work. The caller is member 0.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace truemax {

// Pauses of the members of a team between two polls of what another one writes.
class Patience {
 public:
  explicit Patience(std::size_t members);
  // The member works now, where it is.
  void sit(std::size_t member);
  // Where it was when it last sat down or looked; -1: not known.
  int core_of(std::size_t member) const { return seats_[member].core.load(std::memory_order_relaxed); }
  // `looks`: its polls before this one.
  void pause(std::size_t member, std::size_t looks);

 private:
  bool shares_core(std::size_t member);

  struct alignas(64) Seat {
    std::atomic<int> core{-1};
  };
  std::vector<Seat> seats_;
  bool core_for_each_;
};

class Team {
 public:
  // As many members as the system allows, at least one.
  explicit Team(std::size_t members);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  std::size_t size() const { return helpers_.size() + 1; }

  // Every member calls work(its number); returns when all have finished. Rethrows the first exception.
  void run(const std::function<void(std::size_t member)>& work) { run(work, true); }

  // Calls work(member, task) for every task, each on the next free member. No task may depend on another.
  template <class Work>
  void share(std::size_t tasks, const Work& work) {
    struct Job {
      const Work& work;
      std::size_t tasks;
      std::atomic<std::size_t> next{0};
    } job{work, tasks};
    // One reference: std::function takes no memory for it. Where other programs have the cores, a member may
    // come late: the others do its tasks and do not wait for it.
    run(
        [&job](std::size_t member) {
          for (std::size_t task = job.next++; task < job.tasks; task = job.next++) job.work(member, task);
        },
        false);
  }
  // The same where neighbours in the list of tasks share memory, or the next list has the same ones: every
  // member starts with its own part of the list, and then takes what others have not yet begun of theirs.
  template <class Work>
  void share_near(std::size_t tasks, const Work& work) {
    struct Job {
      const Work& work;
      std::size_t tasks;
      std::vector<Next>& next;
      std::size_t members;  // fewer than counters, if the system did not start all threads
      std::size_t first(std::size_t member) const { return member * tasks / members; }
    } job{work, tasks, next_, size()};
    for (std::size_t m = 0; m < size(); ++m) next_[m].task.store(job.first(m), std::memory_order_relaxed);
    run(
        [&job](std::size_t member) {
          for (std::size_t hop = 0; hop < job.members; ++hop) {
            const std::size_t of = (member + hop) % job.members, end = job.first(of + 1);
            std::atomic<std::size_t>& next = job.next[of].task;
            while (next.load(std::memory_order_relaxed) < end) {
              const std::size_t task = next++;
              if (task < end) job.work(member, task);
            }
          }
        },
        false);
  }
  // share() for tasks of a few nanoseconds: work(member, i) for every i below n, `size` of them at a time.
  template <class Work>
  void share_chunks(std::size_t n, std::size_t size, const Work& work) {
    share((n + size - 1) / size, [&](std::size_t member, std::size_t chunk) {
      for (std::size_t i = chunk * size; i < std::min(n, (chunk + 1) * size); ++i) work(member, i);
    });
  }

 private:
  void run(const std::function<void(std::size_t member)>& work, bool all);
  void serve(std::size_t member);
  void call(std::size_t member);
  void spread() noexcept;
  bool enter(std::uint32_t round);

  struct alignas(64) Next {
    std::atomic<std::size_t> task{0};
  };

  // Separate cache lines: helpers poll the first, the caller the second.
  static constexpr std::size_t kLine = 64;
  alignas(kLine) std::atomic<std::uint32_t> round_{0};
  std::vector<Next> next_;   // by member: of its own tasks
  std::vector<int> usable_;  // cores
  // Round in the upper half; kClosed once nobody may enter it any more; the helpers that are inside.
  alignas(kLine) std::atomic<std::uint64_t> door_{0};
  std::atomic<std::uint32_t> missing_{0};  // helpers that have not finished the round
  std::uint32_t moves_ = 0;
  std::uint64_t rounds_ = 0;
  std::mutex failing_;
  alignas(kLine) const std::function<void(std::size_t)>* work_ = nullptr;
  std::atomic<bool> ends_{false};
  std::exception_ptr failure_;
  Patience patience_;
  std::vector<int> go_to_;    // by member: the core to go to before its next round; -1: none
  std::vector<int> core_of_;  // by member
  std::vector<std::jthread> helpers_;
};

// Where the members of a team wait for each other within a run, in about a microsecond. Each tells the member
// 1, 2, 4, ... places further on that it and all it has heard of have come, so no two of them write the same
// cache line.
class Meeting {
 public:
  explicit Meeting(std::size_t members);

  // Before the run.
  void start();
  // Returns when all members have called it. False: one of them has given up.
  bool wait(std::size_t member) {
    return wait(member, [] { return false; });
  }
  // Meanwhile calls some_work(), which returns false if there is none. It should take less than a
  // microsecond: the others may be waiting for this member.
  template <class Work>
  bool wait(std::size_t member, Work&& some_work) {
    const std::uint32_t round = ++own_[member].round;
    patience_.sit(member);
    for (std::size_t hop = 0; hop < hops_; ++hop) {
      const std::size_t to = (member + (std::size_t{1} << hop)) % members_;
      heard_[to * hops_ + hop].round.store(round, std::memory_order_release);
      const std::atomic<std::uint32_t>& heard = heard_[member * hops_ + hop].round;
      for (std::size_t looks = 0; heard.load(std::memory_order_acquire) < round; ++looks) {
        if (given_up_.load(std::memory_order_relaxed)) return false;
        if (!some_work()) patience_.pause(member, looks);
      }
    }
    return true;
  }
  // A member that fails lets the others go on.
  void give_up() { given_up_.store(true, std::memory_order_relaxed); }

 private:
  struct alignas(64) Heard {
    std::atomic<std::uint32_t> round{0};
  };
  struct alignas(64) Own {
    std::uint32_t round = 0;
  };
  std::size_t members_, hops_ = 0;
  Patience patience_;
  std::vector<Heard> heard_;  // [members][hops]
  std::vector<Own> own_;
  std::atomic<bool> given_up_{false};
};

}  // namespace truemax
