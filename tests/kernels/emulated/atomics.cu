// Every atomic once per thread, and a lock taken by compare-and-swap around an unprotected sum.
#include "mansard/gpu/sync.cuh"

using namespace mansard;

struct Arguments {
  int* i32;       // sum, largest, smallest
  u32* word;      // sum, wrapping counter, bits or-ed, lock, exchanged
  u64* wide;      // sum, largest
  float* single;  // sum
  double* pair;   // sum, sum under the lock
};

extern "C" __global__ void atomics(const __grid_constant__ Arguments arguments) {
  const int thread = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(arguments.i32, thread);
  atomicMax(arguments.i32 + 1, thread);
  atomicMin(arguments.i32 + 2, -thread);
  atomicAdd(arguments.word, 2u);
  atomicInc(arguments.word + 1, 4u);
  atomicOr(arguments.word + 2, 1u << thread % 32);
  atomicAdd(arguments.wide, 1ull << 33);
  atomicMax(arguments.wide + 1, static_cast<u64>(thread) << 32);
  atomicAdd(arguments.single, 0.5f);
  atomicAdd(arguments.pair, 0.25);
  while (atomicCAS(arguments.word + 3, 0u, 1u) != 0) {
  }
  const double before = arguments.pair[1];
  __nanosleep(20);  // others run while the lock is held
  arguments.pair[1] = before + thread;
  atomicExch(arguments.word + 3, 0u);
  atomicExch(arguments.word + 4, 5u);
}

MANSARD_EMULATED_ENTRY(atomics, Arguments)
