// Shared by the timings: a clock, and memory accesses that the compiler cannot remove.
#pragma once

#include <ctime>

#include <chrono>

namespace truemax {

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// CPU time of this thread. Wall-clock time would include time in which other programs have the core.
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
