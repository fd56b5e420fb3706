// Warps pass values on through shared memory, with warp collectives between a read and the next write; then the first
// warp waits for the last and the last for the first, by votes and shuffles alone, as warps may that share no barrier.
#include "mansard/gpu/relaxed.cuh"

using namespace mansard;

struct Arguments {
  int* out;  // a number per thread
  int rounds;
};

extern "C" __global__ void warp_turns(const __grid_constant__ Arguments arguments) {
  MANSARD_SHARED_ARENA(int, words);  // one per thread, then two flags
  const int thread = threadIdx.x, threads = blockDim.x, warps = threads / 32, warp = thread / 32;
  int* flags = words + threads;
  words[thread] = thread;
  if (thread < 2) flags[thread] = 0;
  __syncthreads();
  for (int round = 0; round < arguments.rounds; ++round) {
    int value = words[(thread + 32) % threads];
    value = __shfl_xor_sync(~0u, value, 3);
    value = __shfl_xor_sync(~0u, value, 2);
    __syncthreads();  // all have read the words of this round
    words[thread] = value;
    __syncthreads();  // all words of the next round are there
  }
  if (warp == warps - 1 && thread % 32 == 0) post_release(&flags[0], 1);
  if (warp == 0) {
    while (__any_sync(~0u, peek_acquire(&flags[0]) == 0)) {
    }
    if (thread == 0) post_release(&flags[1], 1);
  }
  if (warp == warps - 1) {
    while (__shfl_sync(~0u, peek_acquire(&flags[1]), 0) == 0) pause();
  }
  arguments.out[thread] = words[thread];
}

MANSARD_EMULATED_ENTRY(warp_turns, Arguments)
