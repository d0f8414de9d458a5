// Functions that compile for the CPU and, in a .cu file, for the GPU too.
#pragma once

#ifdef __CUDACC__
#define TRUEMAX_HOST_DEVICE __host__ __device__
#define TRUEMAX_UNROLL _Pragma("unroll")
#define TRUEMAX_NO_UNROLL _Pragma("unroll 1")
#else
#define TRUEMAX_HOST_DEVICE
#define TRUEMAX_UNROLL
#define TRUEMAX_NO_UNROLL
#endif
// Inlined always: a function without vectors of its own takes the instruction set of its caller.
#define TRUEMAX_EVERYWHERE TRUEMAX_HOST_DEVICE inline __attribute__((always_inline))
