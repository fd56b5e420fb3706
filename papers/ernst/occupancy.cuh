// Two experiments of Ernst, Hager, Thies and Wellein (2020) on latency and occupancy; neither is a product anybody wants.
//
// read_sum (table 1): every thread adds up PASSES x ILP numbers; the ILP loads of a pass do not depend on each other.
//   Team: all threads of the grid read neighbouring numbers. A block has BLOCK threads, and shared memory that nobody
//   uses limits how many blocks a multiprocessor holds. out[thread] is the thread's sum.
//
// tile_probe (figure 17): the loads and the multiply-adds of the paper's kernel for A^T B (`kernel_tiled.cuh`), without
//   its reduction. out[thread] is the sum of the thread's tile, so that the sum of `out` is sum_ij (A^T B)_ij.
//   SUMS     TILE_M * TILE_N: the true tile. 2: all products go to two sums, which takes few registers
//   DIVISOR  rows are k / DIVISOR: 1, or so large that few rows are read again and again from the L1 cache
//   Limit: multiply-adds (2 M N K), if loads arrive in time; how many warps that takes is the question.
#pragma once
#include "kernels/tall_skinny/gram/kernel_tiled.cuh"

namespace mansard {

template <class P, class Arguments>
MANSARD_DEVICE void read_sum(const Arguments& given) {
  using T = typename P::T;
  const i64 threads = static_cast<i64>(gridDim.x) * P::BLOCK;
  const i64 own = static_cast<i64>(blockIdx.x) * P::BLOCK + threadIdx.x;
  const T* at = given.A + own;
  T sums[P::ILP] = {};
MANSARD_UNROLL_BY(1)
  for (i64 pass = 0; pass < given.PASSES; ++pass, at += P::ILP * threads) {
    T values[P::ILP];
    MANSARD_UNROLL
    for (int i = 0; i < P::ILP; ++i) values[i] = at[i * threads];
    MANSARD_UNROLL
    for (int i = 0; i < P::ILP; ++i) sums[i] += values[i];
  }
  T total = T(0);
  MANSARD_UNROLL
  for (int i = 0; i < P::ILP; ++i) total += sums[i];
  given.O[own] = total;
}

template <class P, class Arguments>
MANSARD_DEVICE void tile_probe(const Arguments& given) {
  using S = Tiled<P>;
  using T = typename P::T;
  const int share = threadIdx.x % S::PER_ROW, row = threadIdx.x / S::PER_ROW;
  const int m = TiledColumns<P>::first_m(share), n = TiledColumns<P>::first_n(share);
  const i64 stride = static_cast<i64>(gridDim.x) * S::ROWS;
  T sums[P::SUMS] = {};
MANSARD_UNROLL_BY(1)
  for (i64 k = static_cast<i64>(blockIdx.x) * S::ROWS + row; k < given.K; k += stride) {
    TiledRows<P> rows;
    rows.load(given, k / P::DIVISOR, stride, m, n);
    MANSARD_UNROLL
    for (int i = 0; i < P::TILE_M; ++i)
      MANSARD_UNROLL
      for (int j = 0; j < P::TILE_N; ++j) sums[(i * P::TILE_N + j) % P::SUMS] += rows.a[0][i] * rows.b[0][j];
  }
  T total = T(0);
  MANSARD_UNROLL
  for (int i = 0; i < P::SUMS; ++i) total += sums[i];
  given.O[static_cast<i64>(blockIdx.x) * P::BLOCK + threadIdx.x] = total;
}

}  // namespace mansard
