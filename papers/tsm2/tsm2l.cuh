// C = A B for a tall A (M x K) and a small B (K x N): algorithms 6 and 7 of TSM2X (TSM2L), in a text of our own.
//
// Team: a thread owns a row of A and of C in each of TCF horizontal tiles; the rows of a tile are those of all threads of
// the grid, so that M / TCF threads are launched. A is read along columns: neighbouring threads, neighbouring numbers.
// Shared memory: one tile of B, T2 columns of T1 numbers. Barriers (__syncthreads -> buffer -> writer): tile -> all
// threads;  tile, read by all -> the next tile.
//
//   INTERLEAVED  false: one tile of A after the other, each with all of B (algorithm 6): B is loaded TCF times
//                true: a tile of B meets all tiles of A before the next one is loaded (algorithm 7): sums wait in C
//   T1           threads per block, and rows of a tile of B
//   T2           results per thread at a time
//   T3           numbers of A that a thread loads ahead, a divisor of T1
//   TCF          tiles of A
// Limit: the memory bandwidth, A read and C written once; fewer threads hide less latency.
#pragma once
#include "mansard/gpu/platform.cuh"

namespace mansard {

template <class P, class Arguments>
struct Tall {
  using T = typename P::T;
  const Arguments& given;

  // Load T3 numbers of a row of A from column k on, zeros beyond the edges.
  MANSARD_DEVICE void load(T (&to)[P::T3], i64 row, i64 k) const {
    MANSARD_UNROLL
    for (int i = 0; i < P::T3; ++i)
      to[i] = row < given.M && k + i < given.K ? given.A[row * given.a_row + (k + i) * given.a_col] : T(0);
  }
  // Fill the tile of B that begins at (k, column): each thread its row, zeros beyond the edges.
  MANSARD_DEVICE void fill(T* tile, i64 k, int column) const {
    const i64 row = k + threadIdx.x;
    MANSARD_UNROLL
    for (int i = 0; i < P::T2; ++i)
      tile[i * P::T1 + threadIdx.x] =
          row < given.K && column + i < P::N ? given.B[row * given.b_row + (column + i) * given.b_col] : T(0);
  }
  MANSARD_DEVICE T* entry(i64 row, int column) const { return given.C + row * given.c_row + column * given.c_col; }
  MANSARD_DEVICE void store(const T (&sums)[P::T2], i64 row, int column) const {
    MANSARD_UNROLL
    for (int i = 0; i < P::T2; ++i)
      if (row < given.M && column + i < P::N) *entry(row, column + i) = sums[i];
  }
  MANSARD_DEVICE void resume(T (&sums)[P::T2], i64 row, int column) const {
    MANSARD_UNROLL
    for (int i = 0; i < P::T2; ++i) sums[i] = row < given.M && column + i < P::N ? *entry(row, column + i) : T(0);
  }
};

template <class P>
MANSARD_DEVICE void multiply_tile(typename P::T (&sums)[P::T2], const typename P::T (&a)[P::T3], const typename P::T* tile) {
  MANSARD_UNROLL
  for (int k = 0; k < P::T3; ++k)
    MANSARD_UNROLL
    for (int i = 0; i < P::T2; ++i) sums[i] += a[k] * tile[i * P::T1 + k];
}

template <class P, class Arguments>
MANSARD_DEVICE void tiles_in_turn(const Tall<P, Arguments>& job, typename P::T* tile, i64 first, i64 threads) {
  typename P::T a[P::T3], next[P::T3];
MANSARD_UNROLL_BY(1)
  for (int t = 0; t < P::TCF; ++t)
MANSARD_UNROLL_BY(1)
    for (int column = 0; column < P::N; column += P::T2) {
      const i64 row = first + t * threads;
      typename P::T sums[P::T2] = {};
      job.load(a, row, 0);
MANSARD_UNROLL_BY(1)
      for (i64 k = 0; k < job.given.K; k += P::T1) {
        job.fill(tile, k, column);
        __syncthreads();  // tile is complete, written by all threads
MANSARD_UNROLL_BY(1)
        for (int l = 0; l < P::T1 && k + l < job.given.K; l += P::T3) {
          job.load(next, row, k + l + P::T3);
          multiply_tile<P>(sums, a, tile + l);
          MANSARD_UNROLL
          for (int i = 0; i < P::T3; ++i) a[i] = next[i];
        }
        __syncthreads();  // tile is about to be overwritten by the next one; all threads have read it
      }
      job.store(sums, row, column);
    }
}

template <class P, class Arguments>
MANSARD_DEVICE void tiles_interleaved(const Tall<P, Arguments>& job, typename P::T* tile, i64 first, i64 threads) {
  typename P::T a[P::T3], next[P::T3], sums[P::T2];
MANSARD_UNROLL_BY(1)
  for (int column = 0; column < P::N; column += P::T2)
MANSARD_UNROLL_BY(1)
    for (i64 k = 0; k < job.given.K; k += P::T1) {
      job.fill(tile, k, column);
      __syncthreads();  // tile is complete, written by all threads
      job.load(a, first, k);
MANSARD_UNROLL_BY(1)
      for (int t = 0; t < P::TCF; ++t) {
        const i64 row = first + t * threads;
        if (k > 0) job.resume(sums, row, column);
        else {
          MANSARD_UNROLL
          for (int i = 0; i < P::T2; ++i) sums[i] = 0;
        }
MANSARD_UNROLL_BY(1)
        for (int l = 0; l < P::T1 && k + l < job.given.K; l += P::T3) {
          const bool last = l + P::T3 >= P::T1 || k + l + P::T3 >= job.given.K;
          job.load(next, last ? row + threads : row, last ? k : k + l + P::T3);  // the next tile begins where this one did
          multiply_tile<P>(sums, a, tile + l);
          MANSARD_UNROLL
          for (int i = 0; i < P::T3; ++i) a[i] = next[i];
        }
        job.store(sums, row, column);
      }
      __syncthreads();  // tile is about to be overwritten by the next one; all threads have read it
    }
}

template <class P, class Arguments>
MANSARD_DEVICE void tsm2l(const Arguments& given) {
  static_assert(P::T1 % P::T3 == 0 && P::T1 * P::T2 * int(sizeof(typename P::T)) <= P::SHARED_BYTES);
  MANSARD_SHARED_ARENA(typename P::T, tile);
  const Tall<P, Arguments> job{given};
  const i64 first = static_cast<i64>(blockIdx.x) * P::T1 + threadIdx.x, threads = static_cast<i64>(gridDim.x) * P::T1;
  if constexpr (P::INTERLEAVED) tiles_interleaved<P>(job, tile, first, threads);
  else tiles_in_turn<P>(job, tile, first, threads);
}

}  // namespace mansard
