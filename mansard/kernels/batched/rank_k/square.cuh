// A warp's square of the triangle of C on the tensor cores.
//
// A square has TILE x TILE tiles of 16 x 16, rows of square I times rows of square J <= I, in double precision (gemm's
// tensor_tile.cuh), or float32 and complex64 as three TF32 products (split_tile.cuh). The last square ends at the last
// row: it moves back by BACK rows, computes those of the square before again and does not store them, so that no
// fragment lies beyond its panel.
#pragma once
#include "kernels/batched/gemm/strips.cuh"
#include "kernels/batched/rank_k/factors.cuh"

namespace mansard {

template <class P>
struct TensorShape {
  using T = typename P::T;
  using A = Factor<P, P::LAYOUT_A, P::FEED_A, P::PITCH_A, P::MATRIX_A>;
  using B = A;
  using C = Image<T, P::N, P::N, P::GROUP, P::FEED_C, P::ALIGNED, P::PITCH_C, P::MATRIX_C>;
  static constexpr bool BY_IMAGE = P::OUT == Out::back, HERMITIAN = P::CONJ_A != P::CONJ_B;
  static constexpr int PANELS = ceil_div(P::K, A::DEPTH), LAST = P::K - (PANELS - 1) * A::DEPTH;
  static constexpr int SQUARES = ceil_div(ceil_div(P::N, 16), P::TILE), TILES = SQUARES * (SQUARES + 1) / 2;
  static constexpr int SIDE = ceil_div(ceil_div(P::N, 16), SQUARES) * 16;  // rows of a square
  static constexpr int BACK = SIDE <= P::N ? SQUARES * SIDE - P::N : 0;
  static constexpr int OF_BLOCK = ceil_div(TILES, P::PARTS);  // squares of a matrix that a block has
  static constexpr int THREADS = P::GROUP * OF_BLOCK * 32;
  static constexpr int OF_A = P::GROUP > 1 ? P::MATRIX_A : 0;  // to the next matrix
  static constexpr int STAGE = A::BYTES;
  static constexpr bool RING_OF_GROUPS = PANELS == 1 && P::STAGES == 2;
  static_assert(SIDE <= P::N || PANELS == 1, "fragments would reach into the next place of the ring");
  static_assert(RING_OF_GROUPS ? STAGE + P::SLACK <= P::PLACE && 2 * P::PLACE <= P::SHARED_BYTES
                               : P::STAGES * STAGE + P::SLACK <= P::SHARED_BYTES, "shared memory");
  static_assert(!BY_IMAGE || C::BYTES <= (RING_OF_GROUPS ? P::PLACE : P::SHARED_BYTES), "shared memory of the image");
  static_assert(PANELS == 1 ? P::STAGES <= 2 : P::STAGES >= 2 && P::GROUP == 1, "panels of one matrix pass a ring");
  static_assert(P::PARTS == 1 || !BY_IMAGE && P::GROUP == 1, "a part of a matrix has no image");
  static_assert(!P::TWO, "one factor");
};

// What gemm's tiles ask of a product of A and its transpose in SQUARES x SQUARES warps.
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

template <class P>
struct Square {
  using S = TensorShape<P>;
  using T = typename P::T;
  using Double = DoubleTile<SquareParams<P>, SquareShape<P>>;
  using Split = SplitTile<SquareParams<P>, SquareShape<P>>;
  using Unit = typename Either<sizeof(typename Scalar<T>::Real) == 8, Double, Split>::Type;
  static constexpr bool SPLIT = Unit::SPLIT;
  static constexpr int PUT = Unit::PUT;                                  // adjacent entries of a row that a lane has
  static constexpr int ROW = S::A::ROW_MAJOR ? S::A::Memory::PITCH : 1;  // from one row of A to the next
  static_assert(!SPLIT || S::BY_IMAGE, "NaN are formed again in the image");
  int high, low;   // squares of the rows and of the columns: low <= high
  int back, left;  // by how much they have moved back
  Unit unit;

  MANSARD_DEVICE Square(int index, int lane) : Square(index, row_of(index), lane) {}

  // Add the products of DEPTH values of k.
  template <int DEPTH>
  MANSARD_DEVICE void multiply(const T* a) {
    unit.template multiply<DEPTH>(a - back * ROW, a - left * ROW);
  }
  // Whether this square stores entry (row, column) of its rows: those of the lower triangle that no square before has.
  MANSARD_DEVICE bool stores(int row, int column) const {
    return row >= column && (S::BACK == 0 || column >= low * S::SIDE);
  }
  // Calls put(row, column, PUT adjacent sums) for the lane's entries in rows that exist and are of no square before.
  template <class Put>
  MANSARD_DEVICE void for_each(Put put) const {
    MANSARD_UNROLL
    for (int slot = 0; slot < Unit::ROW_SLOTS; ++slot) {
      const int row = unit.row_of(slot, unit.g) - back;
      if (S::BACK > 0 && row < high * S::SIDE || S::SIDE > P::N && row >= P::N) continue;
      unit.for_each_in(slot, [&](int column, const T* sums) { put(row, unit.column + column - left, sums); });
    }
  }

 private:
  MANSARD_DEVICE Square(int index, int row, int lane)
      : high(row), low(index - row * (row + 1) / 2), back(high + 1 == S::SQUARES ? S::BACK : 0),
        left(low + 1 == S::SQUARES ? S::BACK : 0), unit((high * S::SQUARES + low) * 32 + lane) {
    unit.clear();
  }
  static MANSARD_DEVICE int row_of(int index) {
    int row = 0;
MANSARD_UNROLL_BY(1)
    while ((row + 1) * (row + 2) / 2 <= index) ++row;
    return row;
  }
};

}  // namespace mansard
