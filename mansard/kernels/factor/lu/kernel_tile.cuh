// A^-1 for a stack of matrices: a block of threads per matrix, which lies in their registers (tile.cuh), and goes
// through shared memory on its way there and back.
//
//   WARPS    per block
//   LANES_N  lanes along the columns: they share their rows
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
  __syncthreads();
  Some tile;
  const T* a = S::A::origin(image, operands.A, number);
  MANSARD_UNROLL
  for (int q = 0; q < Some::SLOTS; ++q)
    MANSARD_UNROLL
    for (int j = 0; j < Some::WIDTH; ++j) tile.a[q][j] = zero<T>();
  tile.each([&](int q, int j, int row, int column) {
    tile.a[q][j] = a[entry_at<P::LAYOUT_A, S::A::PITCH>(row, column)];
  });
  __syncthreads();  // everybody has read what is overwritten
  tile.invert(arena, steps);
  __syncthreads();
  T* f = S::F::origin(image, operands.F, number);
  tile.each([&](int q, int j, int row, int column) {
    const int place = steps.places[row];
    const T x = product_of<false>(tile.a[q][j], steps.inverted[place]);
    f[entry_at<P::LAYOUT_F, S::F::PITCH>(place, steps.rows[column])] = x;
  });
  if (threadIdx.x == 0) arguments.INFO[number] = tile.info;
  __syncthreads();
  S::F::template store<S::THREADS, false>(image, operands.F, number, 1, Scales{}, threadIdx.x);
}

}  // namespace mansard
