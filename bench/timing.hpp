// What the timings share: a clock, and ways to touch memory that the compiler cannot take out.
#pragma once

#include <ctime>

#include <chrono>

namespace truemax {

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Seconds that this thread has had a core: other programs on the machine take the core away, which says
// nothing about a loop of one thread.
inline double thread_seconds() {
  timespec at{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
  return static_cast<double>(at.tv_sec) + 1e-9 * static_cast<double>(at.tv_nsec);
}

// Keeps a value in a register as if it were used, without an instruction.
inline void use(float v) {
  asm volatile("" : : "x"(v));
}
inline void launder(float& v) {
  asm volatile("" : "+x"(v));
}
inline void launder(double& v) {
  asm volatile("" : "+x"(v));
}

}  // namespace truemax
