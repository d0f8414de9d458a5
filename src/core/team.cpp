#include "core/team.hpp"

#include <bit>
#include <system_error>
#include <utility>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace truemax {
namespace {
constexpr std::uint64_t kClosed = std::uint64_t{1} << 31;
constexpr unsigned kRoundShift = 32;
}  // namespace

void pause_a_little(std::size_t looks) {
  constexpr std::size_t kPatient = 256;  // about 10 us of spinning; by then a core may be missing
  if (looks >= kPatient) {
    std::this_thread::yield();
    return;
  }
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#endif
}

Team::Team(std::size_t members) : next_(std::max<std::size_t>(members, 1)) {
  helpers_.reserve(members > 0 ? members - 1 : 0);
  try {
    for (std::size_t m = 1; m < members; ++m) helpers_.emplace_back([this, m] { serve(m); });
  } catch (const std::system_error&) {  // go on with the threads that did start
  }
}

Team::~Team() {
  ends_.store(true, std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
}

void Team::call(std::size_t member) {
  try {
    (*work_)(member);
  } catch (...) {
    const std::lock_guard lock(failing_);
    if (!failure_) failure_ = std::current_exception();
  }
}

void Team::serve(std::size_t member) {
  constexpr std::size_t kLooks = 4000;  // some 100 us of spinning: batches follow each other closely
  for (std::uint32_t seen = 0;;) {
    std::size_t looks = 0;
    while (round_.load(std::memory_order_acquire) == seen) {
      if (++looks < kLooks)
        pause_a_little(looks);
      else
        round_.wait(seen, std::memory_order_acquire);
    }
    seen = round_.load(std::memory_order_acquire);
    if (ends_.load(std::memory_order_relaxed)) return;
    if (!enter(seen)) continue;
    call(member);
    missing_.fetch_sub(1, std::memory_order_relaxed);
    door_.fetch_sub(1, std::memory_order_release);
  }
}

// False if the round was over before this helper came.
bool Team::enter(std::uint32_t round) {
  std::uint64_t door = door_.load(std::memory_order_acquire);
  do {
    if (door >> kRoundShift != round || (door & kClosed) != 0) return false;
  } while (!door_.compare_exchange_weak(door, door + 1, std::memory_order_acq_rel));
  return true;
}

void Team::run(const std::function<void(std::size_t)>& work, bool all) {
  if (helpers_.empty()) {
    work(0);
    return;
  }
  work_ = &work;
  missing_.store(static_cast<std::uint32_t>(helpers_.size()), std::memory_order_relaxed);
  const std::uint32_t round = round_.load(std::memory_order_relaxed) + 1;
  door_.store(std::uint64_t{round} << kRoundShift, std::memory_order_release);
  round_.store(round, std::memory_order_release);
  round_.notify_all();
  call(0);
  if (all)
    for (std::size_t looks = 0; missing_.load(std::memory_order_relaxed) != 0; ++looks) pause_a_little(looks);
  std::uint64_t door = door_.fetch_or(kClosed, std::memory_order_acq_rel);
  for (std::size_t looks = 0; (door & (kClosed - 1)) != 0; ++looks) {
    pause_a_little(looks);
    door = door_.load(std::memory_order_acquire);
  }
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

Meeting::Meeting(std::size_t members)
    : members_(members),
      hops_(static_cast<std::size_t>(std::bit_width(members - 1))),
      heard_(members * hops_),
      own_(members) {}

void Meeting::start() {
  for (Heard& heard : heard_) heard.round.store(0, std::memory_order_relaxed);
  for (Own& own : own_) own.round = 0;
  given_up_.store(false, std::memory_order_relaxed);
}

bool Meeting::wait(std::size_t member) {
  const std::uint32_t round = ++own_[member].round;
  for (std::size_t hop = 0; hop < hops_; ++hop) {
    const std::size_t to = (member + (std::size_t{1} << hop)) % members_;
    heard_[to * hops_ + hop].round.store(round, std::memory_order_release);
    const std::atomic<std::uint32_t>& heard = heard_[member * hops_ + hop].round;
    for (std::size_t looks = 0; heard.load(std::memory_order_acquire) < round; ++looks) {
      if (given_up_.load(std::memory_order_relaxed)) return false;
      pause_a_little(looks);
    }
  }
  return true;
}

}  // namespace truemax
