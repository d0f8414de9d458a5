#include "core/team.hpp"

#include <algorithm>
#include <bit>
#include <new>
#include <system_error>
#include <utility>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

#include "core/cores.hpp"
#include "core/parallel.hpp"

namespace truemax {
namespace {
constexpr std::uint64_t kClosed = std::uint64_t{1} << 31;
constexpr unsigned kRoundShift = 32;
}  // namespace

Patience::Patience(std::size_t members) : seats_(members), core_for_each_(members <= available_threads()) {}

void Patience::sit(std::size_t member) {
  std::atomic<int>& core = seats_[member].core;
  const int here = current_core();
  if (core.load(std::memory_order_relaxed) != here) core.store(here, std::memory_order_relaxed);
}

bool Patience::shares_core(std::size_t member) {
  sit(member);
  const int here = core_of(member);  // two that are not known count as one: then members give way early
  for (std::size_t m = 0; m < seats_.size(); ++m)
    if (m != member && core_of(m) == here) return true;
  return false;
}

// A member that gives way to another program loses the rest of its slice, and by then the one that it waited
// for may have given way, too: they would take turns at doing nothing. So it spins for some milliseconds,
// unless another member needs its core.
void Patience::pause(std::size_t member, std::size_t looks) {
  constexpr std::size_t kLook = 256, kMost = 1 << 16;  // on x86 10 us, and 3 ms
  const bool gives_way = looks >= kLook && (!core_for_each_ || looks >= kMost);
  if (gives_way || (looks % kLook == kLook - 1 && shares_core(member))) {
    std::this_thread::yield();
    return;
  }
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#endif
}

Team::Team(std::size_t members)
    : next_(std::max<std::size_t>(members, 1)),
      usable_(usable_cores()),
      patience_(next_.size()),
      go_to_(next_.size(), -1),
      core_of_(next_.size()) {
  helpers_.reserve(members > 0 ? members - 1 : 0);
  try {
    for (std::size_t m = 1; m < members; ++m) helpers_.emplace_back([this, m] { serve(m); });
  } catch (const std::system_error&) {  // go on with the threads that did start
  } catch (const std::bad_alloc&) {
  }
}

Team::~Team() {
  ends_.store(true, std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
}

void Team::call(std::size_t member) {
  if (go_to_[member] >= 0) go_to_core(std::exchange(go_to_[member], -1));
  patience_.sit(member);
  try {
    (*work_)(member);
  } catch (...) {
    const std::lock_guard lock(failing_);
    if (!failure_) failure_ = std::current_exception();
  }
}

void Team::serve(std::size_t member) {
  constexpr std::size_t kLooks = 4000;  // some 100 us: batches follow each other closely
  constexpr std::size_t kSpins = 256;
  for (std::uint32_t seen = 0;;) {
    std::size_t looks = 0;
    while (round_.load(std::memory_order_acquire) == seen) {
      if (++looks >= kLooks)
        round_.wait(seen, std::memory_order_acquire);
      else if (looks < kSpins)
        patience_.pause(member, looks);
      else
        std::this_thread::yield();  // nobody waits for it
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
    for (std::size_t looks = 0; missing_.load(std::memory_order_relaxed) != 0; ++looks)
      patience_.pause(0, looks);
  std::uint64_t door = door_.fetch_or(kClosed, std::memory_order_acq_rel);
  for (std::size_t looks = 0; (door & (kClosed - 1)) != 0; ++looks) {
    patience_.pause(0, looks);
    door = door_.load(std::memory_order_acquire);
  }
  if (all) spread();
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

// Members that share a core go apart before the next round. Where other programs have the cores, the system
// knows better, and a move takes some 20 us: so there are few.
void Team::spread() noexcept {
  constexpr std::size_t kAtFirst = 64, kRoundsOfMove = 64;
  ++rounds_;
  if (moves_ >= kAtFirst + rounds_ / kRoundsOfMove || usable_.size() < size()) return;
  for (std::size_t m = 0; m < size(); ++m) core_of_[m] = patience_.core_of(m);
  moves_ += static_cast<std::uint32_t>(move_apart({core_of_.data(), size()}, usable_, go_to_));
}

Meeting::Meeting(std::size_t members)
    : members_(members),
      hops_(static_cast<std::size_t>(std::bit_width(members - 1))),
      patience_(members),
      heard_(members * hops_),
      own_(members) {}

void Meeting::start() {
  for (Heard& heard : heard_) heard.round.store(0, std::memory_order_relaxed);
  for (Own& own : own_) own.round = 0;
  given_up_.store(false, std::memory_order_relaxed);
}

}  // namespace truemax
