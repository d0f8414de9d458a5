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

// Pause between two polls of what another thread writes.
void pause_a_little(std::size_t looks);

class Team {
 public:
  // As many members as the system allows, at least one.
  explicit Team(std::size_t members);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  std::size_t size() const { return helpers_.size() + 1; }

  // Every member calls work(its number); returns when all have finished. Rethrows the first exception.
  void run(const std::function<void(std::size_t member)>& work);

  // Calls work(member, task) for every task, each on the next free member. No task may depend on another.
  template <class Work>
  void share(std::size_t tasks, const Work& work) {
    struct Job {
      const Work& work;
      std::size_t tasks;
      std::atomic<std::size_t> next{0};
    } job{work, tasks};
    run([&job](std::size_t member) {  // one reference: std::function takes no memory for it
      for (std::size_t task = job.next++; task < job.tasks; task = job.next++) job.work(member, task);
    });
  }
  // The same for tasks of a few nanoseconds: work(member, i) for every i below n, `size` of them at a time.
  template <class Work>
  void share_chunks(std::size_t n, std::size_t size, const Work& work) {
    share((n + size - 1) / size, [&](std::size_t member, std::size_t chunk) {
      for (std::size_t i = chunk * size; i < std::min(n, (chunk + 1) * size); ++i) work(member, i);
    });
  }

 private:
  void serve(std::size_t member);
  void call(std::size_t member);

  // Separate cache lines: helpers poll the first, the caller the second.
  static constexpr std::size_t kLine = 64;
  alignas(kLine) std::atomic<std::uint32_t> round_{0};
  alignas(kLine) std::atomic<std::uint32_t> working_{0};
  alignas(kLine) const std::function<void(std::size_t)>* work_ = nullptr;
  bool ends_ = false;
  std::mutex failing_;
  std::exception_ptr failure_;
  std::vector<std::jthread> helpers_;
};

}  // namespace truemax
