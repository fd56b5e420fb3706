// C = alpha A op(A) + beta C for a batch on the double-precision tensor cores: one triangle is computed.
//
// Team. A block takes one matrix, or a part of it. A warp has one square of the triangle in registers: TILE x TILE tiles
// of 16 x 16 (gemm's tensor_tile.cuh), rows of square I times rows of square J <= I. The last square ends at the last row:
// it moves back by BACK rows, computes those of the square before again and does not store them, so that no fragment
// lies beyond its panel. Both factors of a product are read from one panel of A. Products are sums over panels of BLK_K
// columns, of which STAGES - 1 are under way.
//
// Shared memory: a ring of STAGES places, each with a panel of A (A::BYTES); then, of matrices with fewer rows than a
// square, SLACK bytes that its fragments reach. C leaves from registers: eight lanes of a fragment have eight rows of a
// column, and four have eight columns of a row, so that both an entry and its mirror are written in full sectors.
//
// Barriers (__syncthreads -> buffer -> writer):
//   arrive -> the panel of this place -> copies of all threads
//          -> the panel of the place before, read by all warps -> the copies that are started next
//
// Limits: memory bandwidth to about 100 rows of float64, then the tensor cores.
//
//   TILE    tiles of 16 along a side of a warp's square
//   PARTS   blocks per matrix, each with a part of its squares and all of A
//   BLK_K   columns of A per panel
//   STAGES  places of the ring; 1 where a panel is everything
//   KSTEP   values of k per instruction
#pragma once
#include "kernels/batched/gemm/tensor_tile.cuh"
#include "kernels/batched/rank_k/triangle.cuh"

namespace mansard {

template <class P>
struct TensorShape {
  using T = typename P::T;
  using A = Factor<P, P::LAYOUT_A, P::FEED_A, P::PITCH_A, P::MATRIX_A>;
  using B = A;
  using C = Image<T, P::N, P::N, 1, Feed::elements, P::ALIGNED, P::N, 0>;  // is not gathered
  static constexpr bool HERMITIAN = P::CONJ_A != P::CONJ_B;
  static constexpr int PANELS = ceil_div(P::K, A::DEPTH), LAST = P::K - (PANELS - 1) * A::DEPTH;
  static constexpr int SQUARES = ceil_div(ceil_div(P::N, 16), P::TILE), TILES = SQUARES * (SQUARES + 1) / 2;
  static constexpr int SIDE = ceil_div(ceil_div(P::N, 16), SQUARES) * 16;  // rows of a square
  static constexpr int BACK = SIDE <= P::N ? SQUARES * SIDE - P::N : 0;
  static constexpr int WARPS = ceil_div(TILES, P::PARTS), THREADS = WARPS * 32;
  static constexpr int STAGE = A::BYTES;
  static_assert(SIDE <= P::N || P::STAGES == 1, "fragments would reach into the next place of the ring");
  static_assert(P::STAGES * STAGE + P::SLACK <= P::SHARED_BYTES, "shared memory");
  static_assert(!P::TWO && P::GROUP == 1 && (PANELS == 1 ? P::STAGES == 1 : P::STAGES >= 2), "one factor, a ring");
};

// What gemm's tile asks of a product of A and its transpose in SQUARES x SQUARES warps.
template <class P>
struct SquareParams : P {
  static constexpr int WARPS_M = TensorShape<P>::SQUARES, WARPS_N = WARPS_M;
};
template <class P>
struct SquareShape {
  using A = typename TensorShape<P>::A::Memory;
  using B = A;
  static constexpr bool ROW_MAJOR_A = P::LAYOUT_A != Layout::col, ROW_MAJOR_B = !ROW_MAJOR_A;
  static constexpr int M = TensorShape<P>::SQUARES * TensorShape<P>::SIDE, N = M;
};

template <class P, class Arguments>
MANSARD_DEVICE void rank_k_tensor(const Arguments& x) {
  using S = TensorShape<P>;
  using T = typename P::T;
  using Unit = TensorTile<SquareParams<P>, SquareShape<P>>;
  MANSARD_SHARED_ARENA(unsigned char, arena);
  const Updated<P, Arguments> operands(x);
  const int rank = static_cast<int>(threadIdx.x);
  const int index = static_cast<int>(blockIdx.x) % P::PARTS * S::WARPS + rank / 32;  // of the square
  const i64 batch = x.BATCH, first = static_cast<i64>(blockIdx.x) / P::PARTS;
  const bool active = index < S::TILES;
  int high = 0;
MANSARD_UNROLL_BY(1)
  while (active && (high + 1) * (high + 2) / 2 <= index) ++high;
  const int low = active ? index - high * (high + 1) / 2 : 0;
  Unit unit((high * S::SQUARES + low) * 32 + rank % 32);
  const int back = high + 1 == S::SQUARES ? S::BACK : 0, left = low + 1 == S::SQUARES ? S::BACK : 0;
  constexpr int ROW = S::A::ROW_MAJOR ? S::A::Memory::PITCH : 1;  // from one row to the next
  unit.clear();
  multiply_panels<P, S>(operands, arena, first, 1, batch, rank, [&](auto depth, const T* a, const T*) {
    if (active) unit.template multiply<decltype(depth)::VALUE>(a - back * ROW, a - left * ROW);
  });
  if (!active) return;
  using Written = Triangle<P, S>;
  T* const to = matrix_at(operands.C.base, operands.C.matrix, first);
  constexpr int PUT = Scalar<T>::COMPLEX ? 1 : P::ADJACENT >= 2 ? 2 : 1;
  unit.template for_each<PUT>([&](int at_row, int at_column, const T* sum) {
    const int row = at_row - back, column = at_column - left;
    const bool again = S::BACK > 0 && (row < high * S::SIDE || column < low * S::SIDE);  // stored by another square
    if (again || row < column || S::SIDE > P::N && row >= P::N) return;
    T pair[PUT];
    MANSARD_UNROLL
    for (int i = 0; i < PUT; ++i) pair[i] = operands.scales.product(sum[i]);
    if (PUT == 2 && P::UPLO != Uplo::upper && !P::ACCUMULATE && row > column) {  // both are of the lower triangle
      Pack<T, PUT> pack;
      MANSARD_UNROLL
      for (int i = 0; i < PUT; ++i) {
        pack.e[i] = pair[i];
        if constexpr (P::UPLO == Uplo::full) to[(column + i) * operands.C.line + row] = pair[i];
      }
      store_pack(to + row * operands.C.line + column, pack);
      return;
    }
    MANSARD_UNROLL
    for (int i = 0; i < PUT; ++i)
      if (row >= column + i) Written::direct_entry(to, row, column + i, pair[i], operands);
  });
}

}  // namespace mansard
