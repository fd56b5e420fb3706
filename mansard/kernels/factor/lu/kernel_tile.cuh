// A^-1 of a batch by Gauss-Jordan elimination: one thread block per matrix, which stays in registers (tile.cuh).
//
// Step k, pivot row p:  m_i = -a_ik / a_pk;  a_ij += m_i * a_pj for i != p, j != k;  a_ik = m_i, a_pk = 1.
// After N steps every row is divided by its pivot, and the permutation is applied where entries are stored.
//
// Team. The block's threads form a grid of (WARPS * 32 / LANES_N) x LANES_N; a lane holds a tile of SLOTS x WIDTH
// entries, cyclic in both directions: rows (q * WARPS + warp) * (32 / LANES_N) + rank, columns j * LANES_N + part.
//
// Shared memory, in this order (BYTES):
//   region     size                       written by                             reused
//   image      IMAGE: A::BYTES            copies of all threads                  by offers once A is in registers
//     offers   2 * WARPS * OFFER          one row per warp and step, sets in turn   by F once all steps are done
//     F image  F::BYTES                   all threads, scaled rows
//   inverted   INVERTED: N numbers        thread 0: inverse of pivot k
//   rows       N ints                     thread 0: row of A that was the pivot row of step k
//   places     N ints                     thread 0: step in which row i was the pivot row
//
// Phases, with barriers (all __syncthreads) as barrier -> buffer -> writer:
//   1  copy A to the image                   -> image -> copies of other threads
//   2  load tiles into registers             -> image -> offers of phase 3
//   3  N steps, one barrier each (tile.cuh)  -> offers[k % 2] -> the other warps
//      after the last step                   -> offers -> F image; rows, places, inverted -> thread 0
//   4  scale rows into the F image           -> F image -> other threads
//   5  store F to global memory
//
// Limits: one barrier and one search per step, and registers (255, 168, 128, 96 per thread for 8, 12, 16, 20 warps per
// multiprocessor). A square tile needs the least of the pivot row and column per entry.
//
//   WARPS    warps per block
//   LANES_N  lanes along the columns; 32 / LANES_N lanes of a warp lie along the rows
#pragma once
#include "kernels/factor/lu/operands.cuh"
#include "kernels/factor/lu/tile.cuh"

namespace mansard {

template <class P>
struct LuTileShape {
  using T = typename P::T;
  static constexpr int N = P::N, THREADS = P::WARPS * 32;
  using A = ImageOf<T, P::LAYOUT_A, N, N, 1, P::FEED_A, P::ALIGNED, P::PITCH_A, P::MATRIX_A>;
  using F = ImageOf<T, P::LAYOUT_F, N, N, 1, P::FEED_F, P::ALIGNED, P::PITCH_F, P::MATRIX_F>;
  static constexpr int most(int a, int b) { return a > b ? a : b; }
  static constexpr int OFFERS = 2 * P::WARPS * TileShape<T, N, P::WARPS, P::LANES_N>::OFFER;
  static constexpr int IMAGE = most(OFFERS, most(A::BYTES, F::BYTES));
  static constexpr int INVERTED = ceil_div(N * int(sizeof(T)), 16) * 16;
  static constexpr int BYTES = IMAGE + INVERTED + 2 * N * 4;
  static_assert(BYTES <= P::SHARED_BYTES, "shared memory");
};

template <class P, class Arguments>
MANSARD_DEVICE void lu_tile(const Arguments& arguments) {
  using S = LuTileShape<P>;
  using T = typename P::T;
  using Some = Tile<T, S::N, P::WARPS, P::LANES_N, P::PIVOT>;
  MANSARD_SHARED_ARENA(unsigned char, arena);
  const Operands<P, Arguments> operands(arguments);
  const i64 number = blockIdx.x;
  if (number >= arguments.BATCH) return;
  T* image = reinterpret_cast<T*>(arena);
  int* rows = reinterpret_cast<int*>(arena + S::IMAGE + S::INVERTED);
  const typename Some::Steps steps{rows, rows + S::N, reinterpret_cast<T*>(arena + S::IMAGE)};
  S::A::template fill<S::THREADS>(image, operands.A, number, 1, arguments.BATCH, threadIdx.x);
  cp_async_commit();
  cp_async_wait<0>();
  __syncthreads();  // image: the copies of all threads have arrived
  Some tile;
  const T* a = S::A::origin(image, operands.A, number);
  MANSARD_UNROLL
  for (int q = 0; q < Some::SLOTS; ++q)
    MANSARD_UNROLL
    for (int j = 0; j < Some::WIDTH; ++j) tile.a[q][j] = zero<T>();
  tile.each([&](int q, int j, int row, int column) {
    tile.a[q][j] = a[entry_at<P::LAYOUT_A, S::A::PITCH>(row, column)];
  });
  __syncthreads();  // image is about to be overwritten by offers; all warps have read it
  tile.invert(arena, steps);
  __syncthreads();  // offers are about to be overwritten by F; steps, written by thread 0, are complete
  T* f = S::F::origin(image, operands.F, number);
  tile.each([&](int q, int j, int row, int column) {
    const int place = steps.places[row];
    const T x = product_of<false>(tile.a[q][j], steps.inverted[place]);
    f[entry_at<P::LAYOUT_F, S::F::PITCH>(place, steps.rows[column])] = x;
  });
  if (threadIdx.x == 0) arguments.INFO[number] = tile.info;
  __syncthreads();  // image holds F, written by all threads
  S::F::template store<S::THREADS, false>(image, operands.F, number, 1, Scales{}, threadIdx.x);
}

}  // namespace mansard
