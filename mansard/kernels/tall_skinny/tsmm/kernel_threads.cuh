// W = alpha A C + beta W, a few threads per row: the mapping of Ernst, Hager, Thies and Wellein (2020) for row-major,
// of Rivera, Chen, Xiong, Zhang, Song and Tao (TSM2L, 2020) for column-major matrices; any layout and stride.
//
// PER_ROW threads share a row of W. All of them read the row of A, number by number, and multiply it with their columns
// of a row of C. Rows are distributed cyclically over the grid: fewer blocks mean more rows per thread. Shared memory
// (SOURCE shared): C. Barriers: __syncthreads -> C -> other threads;  IN_PLACE: __syncwarp -> a row of A, read by its
// PER_ROW threads -> W, which overwrites it.
//
//   PER_ROW     threads per row
//   TRANSPOSED  a thread's columns interleave with its neighbours' (adjacent stores) instead of being contiguous
//   UNROLL      rows that a thread works on at once
//   SOURCE      where C is read from: registers | shared | cache
#pragma once
#include "mansard/gpu/complex.cuh"
#include "mansard/gpu/platform.cuh"

namespace mansard {

enum class Source { registers, shared, cache };
enum class Layout { row, col, any };
using LayoutA = Layout;
using LayoutW = Layout;

template <class P>
struct ThreadsShape {
  using T = typename P::T;
  static constexpr int RESULTS = ceil_div(P::N, P::PER_ROW);  // entries of a row per thread
  static constexpr int ROWS = P::BLOCK / P::PER_ROW;          // rows that a block computes at once
  static constexpr int STEP = P::TRANSPOSED ? P::PER_ROW : 1;
  static constexpr bool EVEN = P::N == RESULTS * P::PER_ROW;  // all threads have RESULTS entries
  static_assert(ROWS >= 1 && (P::SOURCE != Source::shared || P::M * P::N * int(sizeof(T)) <= P::SHARED_BYTES));
};

// Entry (m, n) of C, conjugated if CONJ.
template <class P, class Arguments>
MANSARD_DEVICE typename P::T small_entry(const Arguments& arguments, const typename P::T* shared, int m, int n) {
  if constexpr (P::SOURCE == Source::shared) {
    return shared[m * P::N + n];
  } else {
    const auto c = arguments.C[m * arguments.c_row + n * arguments.c_col];
    return P::CONJ ? conjugate(c) : c;
  }
}

template <class P, class Arguments>
MANSARD_DEVICE void tsmm_threads(const Arguments& arguments) {
  using S = ThreadsShape<P>;
  using T = typename P::T;
  MANSARD_SHARED_ARENA(T, shared);
  if constexpr (P::SOURCE == Source::shared) {
    for (int i = threadIdx.x; i < P::M * P::N; i += P::BLOCK) {
      const T c = arguments.C[i / P::N * arguments.c_row + i % P::N * arguments.c_col];
      shared[i] = P::CONJ ? conjugate(c) : c;
    }
    __syncthreads();  // shared holds C, written by all threads
  }
  const int share = threadIdx.x % P::PER_ROW, first = P::TRANSPOSED ? share : share * S::RESULTS;
  const auto has = [&](int j) { return S::EVEN || first + j * S::STEP < P::N; };
  constexpr bool HELD = P::SOURCE == Source::registers;
  T held[HELD ? P::M : 1][S::RESULTS];
  if constexpr (HELD)
    MANSARD_UNROLL
    for (int m = 0; m < P::M; ++m)
      MANSARD_UNROLL
      for (int j = 0; j < S::RESULTS; ++j)
        held[m][j] = has(j) ? small_entry<P>(arguments, shared, m, first + j * S::STEP) : zero<T>();

  const i64 a_row = P::LAYOUT_A == Layout::col ? 1 : arguments.a_row, a_col = P::LAYOUT_A == Layout::row ? 1 : arguments.a_col;
  const i64 w_row = P::LAYOUT_W == Layout::col ? 1 : arguments.w_row, w_col = P::LAYOUT_W == Layout::row ? 1 : arguments.w_col;
  const i64 stride = static_cast<i64>(gridDim.x) * S::ROWS;
  const bool working = threadIdx.x / P::PER_ROW < S::ROWS;
MANSARD_UNROLL_BY(1)
  for (i64 base = static_cast<i64>(blockIdx.x) * S::ROWS + threadIdx.x / P::PER_ROW; base - threadIdx.x / P::PER_ROW < arguments.K;
       base += stride * P::UNROLL) {
    T sums[P::UNROLL][S::RESULTS];
    MANSARD_UNROLL
    for (int i = 0; i < P::UNROLL * S::RESULTS; ++i) sums[i / S::RESULTS][i % S::RESULTS] = zero<T>();
    const auto valid = [&](int u) { return working && base + u * stride < arguments.K; };
    const T* rows = arguments.A + base * a_row;
    const auto multiply = [&](int m) {
      T a[P::UNROLL];
      MANSARD_UNROLL
      for (int u = 0; u < P::UNROLL; ++u) a[u] = valid(u) ? rows[u * stride * a_row + m * a_col] : zero<T>();
      MANSARD_UNROLL
      for (int j = 0; j < S::RESULTS; ++j) {
        const T c = HELD ? held[HELD ? m : 0][j] : has(j) ? small_entry<P>(arguments, shared, m, first + j * S::STEP) : zero<T>();
        MANSARD_UNROLL
        for (int u = 0; u < P::UNROLL; ++u) multiply_add<false>(sums[u][j], a[u], c);
      }
    };
    if constexpr (HELD) {
      MANSARD_UNROLL
      for (int m = 0; m < P::M; ++m) multiply(m);
    } else {
MANSARD_UNROLL_BY(8)
      for (int m = 0; m < P::M; ++m) multiply(m);
    }
    if constexpr (P::IN_PLACE && P::PER_ROW > 1) __syncwarp();  // A's row, read by all, becomes W's
    MANSARD_UNROLL
    for (int u = 0; u < P::UNROLL; ++u)
      MANSARD_UNROLL
      for (int j = 0; j < S::RESULTS; ++j)
        if (valid(u) && has(j)) {
          T* w = arguments.W + (base + u * stride) * w_row + (first + j * S::STEP) * w_col;
          *w = scaled<T>(sums[u][j], arguments.alpha_re, arguments.alpha_im, arguments.beta_re, arguments.beta_im, w);
        }
  }
}

}  // namespace mansard
