// What both methods for tridiagonal and bidiagonal matrices share: constants of the precision, and extremes of a block.
#pragma once
#include "kernels/factor/two_sided/rotations.cuh"
#include "mansard/gpu/factor_scalars.cuh"

namespace mansard {

enum class Form { tridiagonal, bidiagonal };

template <class R>
struct Precision {
  static constexpr R UNIT = sizeof(R) == 8 ? R(0x1p-53) : R(0x1p-24);  // unit roundoff
};

// Least and largest numbers of a block of threads, in all of them; `room` has three numbers per warp.
template <class R, int THREADS>
struct Extremes {
  static constexpr int WARPS = THREADS / 32;
  R* const room;
  MANSARD_DEVICE explicit Extremes(R* shared) : room(shared) {}

  MANSARD_DEVICE void combine(R& low, R& high, R& largest) const {
    MANSARD_UNROLL
    for (int step = 16; step > 0; step /= 2) {
      low = fmin(low, __shfl_xor_sync(0xffffffffu, low, step));
      high = fmax(high, __shfl_xor_sync(0xffffffffu, high, step));
      largest = fmax(largest, __shfl_xor_sync(0xffffffffu, largest, step));
    }
    const int warp = threadIdx.x / 32;
    if (threadIdx.x % 32 == 0) {
      room[3 * warp] = low;
      room[3 * warp + 1] = high;
      room[3 * warp + 2] = largest;
    }
    __syncthreads();  // room is complete, written by a lane of every warp
    MANSARD_UNROLL_BY(4)
    for (int w = 0; w < WARPS; ++w) {
      low = fmin(low, room[3 * w]);
      high = fmax(high, room[3 * w + 1]);
      largest = fmax(largest, room[3 * w + 2]);
    }
  }
};

}  // namespace mansard
