// Sums n doubles: shuffles within a warp, dynamic and static shared memory within the block, a ticket across
// blocks.
#include "mansard/gpu/platform.cuh"
#include "mansard/gpu/sync.cuh"

using namespace mansard;

struct Arguments {
  const double* x;
  double* partial;
  u32* ticket;
  double* sum;
  int n;
};

extern "C" __global__ void __launch_bounds__(96) tree_sum(const __grid_constant__ Arguments arguments) {
  MANSARD_SHARED_ARENA(double, per_warp);
  __shared__ u32 arrived;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  double value = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < arguments.n; i += gridDim.x * blockDim.x) {
    value += __ldg(arguments.x + i);
  }
  MANSARD_UNROLL
  for (int step = 16; step > 0; step /= 2) value += __shfl_down_sync(~0u, value, step);
  if (lane == 0) per_warp[warp] = value;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 1; i < 3; ++i) value += per_warp[i];
    store_l2(arguments.partial + blockIdx.x, value);
    __threadfence();
    arrived = atomicAdd(arguments.ticket, 1u);
  }
  __syncthreads();  // everyone learns the ticket
  if (arrived != gridDim.x - 1) return;
  value = threadIdx.x < gridDim.x ? load_l2(arguments.partial + threadIdx.x) : 0;
  if (warp == 0) {
    MANSARD_UNROLL
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(~0u, value, step);
    if (lane == 0) *arguments.sum = value;
  }
}

MANSARD_EMULATED_ENTRY(tree_sum, Arguments)
