// Cooperative: in every round each block adds what its left and right neighbours held in the round before.
#include "mansard/gpu/sync.cuh"

using namespace mansard;

struct Arguments {
  double* values;  // 2 x blocks, alternating between rounds
  u32* arrived;
  u32* round;
  int rounds;
};

// The last block to arrive opens the next round.
MANSARD_DEVICE void grid_barrier(const Arguments& arguments) {
  __syncthreads();
  if (threadIdx.x == 0) {
    const u32 now = load_acquire(arguments.round);
    if (atomic_add_acq_rel(arguments.arrived, 1) == gridDim.x - 1) {
      *arguments.arrived = 0;
      store_release(arguments.round, now + 1);
    } else {
      wait_until_differs(arguments.round, now);
    }
  }
  __syncthreads();
}

extern "C" __global__ void grid_rounds(const __grid_constant__ Arguments arguments) {
  MANSARD_SHARED_ARENA(double, neighbour);
  const int blocks = gridDim.x, block = blockIdx.x, thread = threadIdx.x;
  for (int round = 0; round < arguments.rounds; ++round) {
    const double* old = arguments.values + round % 2 * blocks;
    double* next = arguments.values + (round + 1) % 2 * blocks;
    if (thread < 2) neighbour[thread] = load_l2(old + (block + (thread == 0 ? blocks - 1 : 1)) % blocks);
    __syncthreads();
    if (thread == 0) store_l2(next + block, load_l2(old + block) + neighbour[0] + neighbour[1]);
    grid_barrier(arguments);
  }
}

MANSARD_EMULATED_ENTRY(grid_rounds, Arguments)
