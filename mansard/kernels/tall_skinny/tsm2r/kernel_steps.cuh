// C = alpha A B + beta C, a thread per row of A: the kernels of Rivera, Chen, Xiong, Zhang, Song and Tao (TSM2R, 2020),
// made for column-major A, where the threads of a warp read adjacent numbers; any layout and stride.
//
// Shared memory (shared, prefetch): one tile of B, T2 columns of T1 numbers. Barriers (__syncthreads -> buffer ->
// writer): tile -> other threads;  tile, read by all -> the next tile.
//
//   STEP   inner     one result after the other: A is read N times (their algorithm 1)
//          outer     all results of a row at once: A is read once (algorithm 2)
//          shared    tiles of T1 rows and T2 columns of B are in shared memory (algorithm 3)
//          prefetch  the next numbers of A and the next tile of B are loaded meanwhile (algorithm 4)
//   T1     threads per block, and rows of a tile of B
//   T2     results per thread at a time: 1 for inner, N for outer; A is read ceil(N / T2) times
//   T3     numbers of A that a thread loads at once
//   SPLIT  blocks that share a row's K; the last one to finish adds their sums, in order
#pragma once
#include "kernels/tall_skinny/tsm2r/entry.cuh"

namespace mansard {

enum class Step { inner, outer, shared, prefetch };

// A thread's row of A and the block's range of K.
template <class P, class Arguments>
struct RowJob {
  using T = typename P::T;
  const Arguments& arguments;
  i64 row, begin, end, a_col;
  const T* A;

  MANSARD_DEVICE explicit RowJob(const Arguments& given)
      : arguments(given), row(static_cast<i64>(blockIdx.x) * P::T1 + threadIdx.x),
        a_col(P::LAYOUT_A == Layout::row ? 1 : given.a_col) {
    const i64 share = ceil_div(ceil_div(given.K, P::SPLIT), P::T1) * P::T1;
    begin = blockIdx.y * share;
    begin = begin < given.K ? begin : given.K;
    end = begin + share < given.K ? begin + share : given.K;
    const i64 inside = row < given.M ? row : given.M - 1;  // threads beyond the end repeat the last row
    A = given.A + inside * (P::LAYOUT_A == Layout::col ? 1 : given.a_row);
  }
  static MANSARD_DEVICE T value(const T* a) { return P::CONJ_A ? conjugate(*a) : *a; }
  MANSARD_DEVICE T b(i64 k, int column) const {
    const T value = arguments.B[k * arguments.b_row + column * arguments.b_col];
    return P::CONJ_B ? conjugate(value) : value;
  }
  // Load T3 numbers of A from k on, zeros beyond the end.
  MANSARD_DEVICE void load(T (&to)[P::T3], i64 k) const {
    const T* from = A + k * a_col;  // advanced in the loop, so that T3 offsets need no registers
    const bool whole = k + P::T3 <= end;
    MANSARD_UNROLL
    for (int i = 0; i < P::T3; ++i, from += a_col) to[i] = whole || k + i < end ? value(from) : zero<T>();
  }
  // Load this thread's row of the tile of B that begins at row k, zeros beyond the edges.
  MANSARD_DEVICE void load_small(T (&to)[P::T2], i64 k, int column) const {
    MANSARD_UNROLL
    for (int i = 0; i < P::T2; ++i)
      to[i] = k + threadIdx.x < end && column + i < P::N ? b(k + threadIdx.x, column + i) : zero<T>();
  }
};

// Store a row of a tile. Tiles are column-major: neighbouring threads write to neighbouring banks, and all threads read
// the same number.
template <class P>
MANSARD_DEVICE void store_tile(typename P::T* tile, const typename P::T (&row)[P::T2]) {
  MANSARD_UNROLL
  for (int i = 0; i < P::T2; ++i) tile[i * P::T1 + threadIdx.x] = row[i];
}
template <class P>
MANSARD_DEVICE void multiply(typename P::T (&sums)[P::T2], const typename P::T (&a)[P::T3], const typename P::T* tile) {
  MANSARD_UNROLL
  for (int k = 0; k < P::T3; ++k)
    MANSARD_UNROLL
    for (int i = 0; i < P::T2; ++i) multiply_add<false>(sums[i], a[k], tile[i * P::T1 + k]);
}

template <class P, class Arguments>
MANSARD_DEVICE void multiply_plain(typename P::T (&sums)[P::T2], const RowJob<P, Arguments>& job, int column) {
MANSARD_UNROLL_BY(1)
  for (i64 k = job.begin; k < job.end; ++k) {
    const auto a = job.value(job.A + k * job.a_col);
    MANSARD_UNROLL
    for (int i = 0; i < P::T2; ++i) multiply_add<false>(sums[i], a, job.b(k, column + i));
  }
}

template <class P, class Arguments>
MANSARD_DEVICE void multiply_shared(typename P::T (&sums)[P::T2], const RowJob<P, Arguments>& job, int column,
                                    typename P::T* tile) {
  typename P::T a[P::T3], small[P::T2];
MANSARD_UNROLL_BY(1)
  for (i64 k = job.begin; k < job.end; k += P::T1) {
    job.load_small(small, k, column);
    store_tile<P>(tile, small);
    __syncthreads();  // tile is complete, written by all threads
MANSARD_UNROLL_BY(1)
    for (int l = 0; l < P::T1; l += P::T3) {
      job.load(a, k + l);
      multiply<P>(sums, a, tile + l);
    }
    __syncthreads();  // tile is about to be overwritten by the next one; all threads have read it
  }
}

template <class P, class Arguments>
MANSARD_DEVICE void multiply_prefetched(typename P::T (&sums)[P::T2], const RowJob<P, Arguments>& job, int column,
                                        typename P::T* tile) {
  typename P::T a[P::T3], next[P::T3], small[P::T2];
  job.load_small(small, job.begin, column);
  store_tile<P>(tile, small);
  job.load(a, job.begin);
  __syncthreads();  // tile is complete, written by all threads
MANSARD_UNROLL_BY(1)
  for (i64 k = job.begin; k < job.end; k += P::T1) {
    job.load_small(small, k + P::T1, column);
    // not unrolled, and by blockDim instead of T1: otherwise the assembler unrolls it and needs more registers
MANSARD_UNROLL_BY(1)
    for (int l = 0; l < static_cast<int>(blockDim.x); l += P::T3) {
      job.load(next, k + l + P::T3);
      multiply<P>(sums, a, tile + l);
      MANSARD_UNROLL
      for (int i = 0; i < P::T3; ++i) a[i] = next[i];
    }
    __syncthreads();  // tile is about to be overwritten by the next one; all threads have read it
    store_tile<P>(tile, small);
    __syncthreads();  // tile is complete, written by all threads
  }
}

template <class P, class Arguments>
MANSARD_DEVICE void tsm2r_steps(const Arguments& arguments) {
  using T = typename P::T;
  using Real = typename Scalar<T>::Real;
  constexpr int WORDS = Scalar<T>::WORDS;
  static_assert(P::T1 % P::T3 == 0 && (P::STEP != Step::outer || P::T2 == P::N) && (P::STEP != Step::inner || P::T2 == 1));
  static_assert(P::T1 * P::T2 * int(sizeof(T)) <= P::SHARED_BYTES || P::STEP == Step::inner || P::STEP == Step::outer);
  MANSARD_SHARED_ARENA(T, tile);
  const RowJob<P, Arguments> job(arguments);
  const i64 rows = static_cast<i64>(gridDim.x) * P::T1;  // of all blocks, those beyond M included
  const auto partial = [&](int part, int n) {
    return static_cast<Real*>(arguments.partials) + ((static_cast<i64>(part) * P::N + n) * rows + job.row) * WORDS;
  };
MANSARD_UNROLL_BY(1)
  for (int column = 0; column < P::N; column += P::T2) {
    T sums[P::T2] = {};
    if constexpr (P::STEP == Step::prefetch) multiply_prefetched<P>(sums, job, column, tile);
    else if constexpr (P::STEP == Step::shared) multiply_shared<P>(sums, job, column, tile);
    else multiply_plain<P>(sums, job, column);
    MANSARD_UNROLL
    for (int i = 0; i < P::T2; ++i) {
      if (column + i >= P::N) continue;
      if constexpr (P::SPLIT > 1) store_words(partial(blockIdx.y, column + i), sums[i]);
      else store_entry<P>(arguments, job.row, column + i, sums[i]);
    }
  }
  if constexpr (P::SPLIT > 1) {
    u32* flag = reinterpret_cast<u32*>(tile);
    if (!last_block_to_arrive(arguments.counters + COUNTERS + blockIdx.x, P::SPLIT, flag)) return;
MANSARD_UNROLL_BY(4)
    for (int n = 0; n < P::N; ++n) {
      T sum = zero<T>(), part;
MANSARD_UNROLL_BY(4)
      for (int i = 0; i < P::SPLIT; ++i) {
        load_words(partial(i, n), part);
        add_to(sum, part);
      }
      store_entry<P>(arguments, job.row, n, sum);
    }
  }
}

}  // namespace mansard
