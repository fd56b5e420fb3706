// Sizes of right-hand sides or residuals, and which matrices have converged.
//
//   start  X = 0, |b| and S = fl(b / 2^e) of every column, e the exponent of |b|
//   judge  of R = B - A X: |r| and S = fl(r / 2^e) of every column. With u = eps (|A| |x| + |b|), a column has converged
//          where |r| <= u, or where |r| <= sqrt(N) u and no longer halves; it has failed where |r| no longer halves else.
//          A matrix has converged if all of its columns have, and failed if one has.
//
// Team. A block per matrix, a warp per column, lanes along its rows. |x| is the largest |re| + |im|.
// No shared memory; the block votes by two barriers. Matrices that are not RUNNING are left alone by `judge`.
// Limits: latency, of two passes over a column; columns of one matrix share the sectors that they read.
//
//   WARPS  of a block
#pragma once
#include "kernels/factor/refinement/numbers.cuh"

namespace mansard {

enum class Want { start, judge };

// The largest modulus of a column whose entries lie `step` apart, in all lanes of the warp.
template <class T>
MANSARD_DEVICE double largest_of_column(const T* x, i64 rows, i64 step) {
  double found = 0;
  for (i64 i = threadIdx.x % 32; i < rows; i += 32) found = larger(found, modulus_1(x[i * step]));
  return largest_of_warp(found);
}

template <class P, class Arguments>
MANSARD_DEVICE void refinement_columns(const Arguments& a) {
  using T = typename P::T;
  constexpr bool START = P::WANT == Want::start;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const double most = sqrt(static_cast<double>(a.N));
  for (i64 matrix = blockIdx.x; matrix < a.BATCH; matrix += gridDim.x) {
    if (!START && a.STATE[matrix] != RUNNING) continue;  // the same for all threads of the block
    double* const sizes = a.SIZES + sizes_of(matrix, a.NRHS);
    const double norm = sizes[0];
    bool runs = false, fails = false;
    for (i64 c = warp; c < a.NRHS; c += P::WARPS) {
      const i64 at = matrix * a.N * a.NRHS + c;
      const T* const right = (START ? a.B : a.R) + at;
      const double size = largest_of_column(right, a.N, a.NRHS);
      double* const of_b = sizes + 1 + c;
      double* const of_r = of_b + a.NRHS;
      if constexpr (START) {
        fails = fails || !(size <= MOST_NORM);
        if (lane == 0) *of_b = size;
      } else {
        const double limit = norm * largest_of_column(a.X + at, a.N, a.NRHS) + *of_b, before = *of_r;
        const double unit = 0x1p-52 * limit;
        const bool halves = size <= before / 2, converged = size <= (halves ? unit : most * unit) && limit <= MOST_NORM;
        runs = runs || !converged;
        fails = fails || !(converged || halves);
        __syncwarp();  // of_r is about to be overwritten; all lanes have read it
      }
      if (lane == 0) *of_r = size;
      const double scale = power_of_two(-exponent_of(size));
      for (i64 i = lane; i < a.N; i += 32) {
        a.LOW[at + i * a.NRHS] = narrowed(by_real(right[i * a.NRHS], scale));
        if constexpr (START) a.X[at + i * a.NRHS] = zero<T>();
      }
    }
    const bool any_runs = __syncthreads_or(runs), any_fails = __syncthreads_or(fails);
    if (threadIdx.x == 0) {
      if (any_fails) a.STATE[matrix] = FAILED;
      else if (!START && !any_runs) a.STATE[matrix] = CONVERGED;
    }
  }
}

}  // namespace mansard
