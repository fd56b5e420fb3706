// The results of warp collectives, whole warps and halves, one row of 32 lanes each.
#include "mansard/gpu/platform.cuh"

using namespace mansard;

struct Arguments {
  int* rows;
};

extern "C" __global__ void warp_words(const __grid_constant__ Arguments arguments) {
  const int lane = threadIdx.x;
  const u32 half = lane < 16 ? 0xFFFFu : 0xFFFF0000u;
  int* out = arguments.rows + lane;
  out[0 * 32] = __shfl_sync(~0u, lane, 5);
  out[1 * 32] = __shfl_sync(~0u, lane, 9, 8);
  out[2 * 32] = __shfl_up_sync(~0u, lane, 3, 16);
  out[3 * 32] = __shfl_down_sync(~0u, lane, 3, 16);
  out[4 * 32] = __shfl_xor_sync(~0u, lane, 5);
  out[5 * 32] = static_cast<int>(__ballot_sync(~0u, lane % 3 == 0));
  out[6 * 32] = __any_sync(half, lane == 20);
  out[7 * 32] = __all_sync(half, lane < 16);
  if (lane < 16) {
    out[8 * 32] = __shfl_xor_sync(half, lane, 1);
    out[8 * 32] += 100 * __shfl_xor_sync(half, lane, 2);
  } else {
    out[8 * 32] = __shfl_xor_sync(half, lane, 8);
  }
  __syncwarp();
  out[9 * 32] = __popc(half) + __ffs(lane);
  out[10 * 32] = __syncthreads_count(lane % 4 == 0);
  out[11 * 32] =
      __syncthreads_or(lane == 31) + 2 * __syncthreads_and(lane < 32) + 4 * __syncthreads_and(lane < 31);
}

MANSARD_EMULATED_ENTRY(warp_words, Arguments)
