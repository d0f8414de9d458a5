// What the timings share: a clock, and ways to touch memory that the compiler cannot take out.
#pragma once

#include <chrono>

namespace truemax {

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
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
