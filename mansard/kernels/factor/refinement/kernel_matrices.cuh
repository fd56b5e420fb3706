// Norms of matrices, and the matrices in single precision: |A| = max_i sum_j |a_ij| and S = fl(A / 2^e), where e is the
// exponent of |A|, so that no entry of S exceeds 2.
//
// Team. A block has one of CHUNKS parts of the rows of a matrix (an item). BY_COLUMNS is false: a warp per row, lanes
// along it. True: a thread per row, so that lanes read neighbours in a column; S is written in the same order.
//
//   whole   CHUNKS = 1: norm, then S; the second reading finds A in the cache
//   norms   the largest row sum of the item to PARTS
//   narrow  |A| from the PARTS of all items of the matrix, then the item's rows of S
//
// Memory map. largest: a number per warp. Phases of `whole`: sums of rows, barrier, |A|, barrier, S.
// STATE is FAILED where |A| is zero, not finite, or where 2^-e is no normal number; S is zero then.
// Limits: memory; A is read once or (narrow after norms, of matrices beyond the cache) twice, S written once.
//
//   WARPS  of a block
#pragma once
#include "kernels/factor/refinement/numbers.cuh"

namespace mansard {

enum class Want { whole, norms, narrow };

// The largest sum of moduli among the rows of this thread or warp.
template <class P, class T>
MANSARD_DEVICE double row_sums(const T* A, i64 row_step, i64 col_step, i64 first, i64 last, i64 columns) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  double found = 0;
  if constexpr (P::BY_COLUMNS) {
    for (i64 i = first + threadIdx.x; i < last; i += 32 * P::WARPS) {
      double sum = 0;
      MANSARD_UNROLL_BY(4)
      for (i64 j = 0; j < columns; ++j) sum += modulus_1(A[i * row_step + j * col_step]);
      found = larger(found, sum);
    }
  } else {
    for (i64 i = first + warp; i < last; i += P::WARPS) {
      double sum = 0;
      MANSARD_UNROLL_BY(4)
      for (i64 j = lane; j < columns; j += 32) sum += modulus_1(A[i * row_step + j * col_step]);
      MANSARD_UNROLL
      for (int mask = 16; mask > 0; mask /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, mask);
      found = larger(found, sum);
    }
  }
  return found;
}

template <class P, class Arguments>
MANSARD_DEVICE void refinement_matrices(const Arguments& a) {
  using T = typename P::T;
  constexpr Want WANT = P::WANT;
  __shared__ double largest[P::WARPS];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const i64 rows = (a.N + a.CHUNKS - 1) / a.CHUNKS, items = a.BATCH * a.CHUNKS;
  for (i64 item = blockIdx.x; item < items; item += gridDim.x) {
    const i64 matrix = item / a.CHUNKS, first = min(a.N, item % a.CHUNKS * rows), last = min(a.N, first + rows);
    const T* const A = a.A + matrix * a.a_matrix;
    double norm = 0;
    if constexpr (WANT == Want::narrow) {
      for (i64 part = 0; part < a.CHUNKS; ++part) norm = larger(norm, a.PARTS[matrix * a.CHUNKS + part]);
    } else {
      const double own = largest_of_warp(row_sums<P>(A, a.a_row, a.a_col, first, last, a.N));
      if (lane == 0) largest[warp] = own;
      __syncthreads();  // largest: sums of all warps are there
      for (int w = 0; w < P::WARPS; ++w) norm = larger(norm, largest[w]);
      __syncthreads();  // largest is about to be overwritten for the next item; all threads have read it
    }
    if constexpr (WANT == Want::norms) {
      if (threadIdx.x == 0) a.PARTS[item] = norm;
    } else {
      const bool fits = norm >= LEAST_NORM && norm <= MOST_NORM;
      if (threadIdx.x == 0 && first == 0) {
        a.SIZES[sizes_of(matrix, a.NRHS)] = norm;
        a.STATE[matrix] = fits ? RUNNING : FAILED;
      }
      const double scale = fits ? power_of_two(-exponent_of(norm)) : 0.0;
      const i64 lines = P::BY_COLUMNS ? a.N : last - first, along = P::BY_COLUMNS ? last - first : a.N;
      typename P::S* const S = a.LOW + matrix * a.N * a.N;
      for (i64 line = warp; line < lines; line += P::WARPS) {
        MANSARD_UNROLL_BY(4)
        for (i64 k = lane; k < along; k += 32) {
          const i64 i = first + (P::BY_COLUMNS ? k : line), j = P::BY_COLUMNS ? line : k;
          const T entry = fits ? A[i * a.a_row + j * a.a_col] : zero<T>();
          S[i * a.low_row + j * a.low_col] = narrowed(by_real(entry, scale));
        }
      }
    }
  }
}

}  // namespace mansard
