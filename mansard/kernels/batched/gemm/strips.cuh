// C leaves a warp's registers in strips of eight rows: through shared memory of its own, so that global memory sees
// runs of adjacent entries wherever the rows begin.
//
// Barriers of a warp (barrier -> strip -> writer):
//   before  -> the strip, stored by all lanes -> the next eight rows
//   after   -> the strip -> other lanes, before it is stored
#pragma once
#include "kernels/batched/gemm/operands.cuh"
#include "kernels/batched/gemm/split_tile.cuh"
#include "kernels/batched/gemm/tensor_tile.cuh"

namespace mansard {

// A tile of C in double precision by slots of eight rows.
template <class P, class S>
struct DoubleTile : TensorTile<P, S> {
  using Base = TensorTile<P, S>;
  using typename Base::Columns;
  using typename Base::Rows;
  using T = typename P::T;
  static constexpr bool SPLIT = false;
  static constexpr int ROW_SLOTS = 2 * Base::TILES_M;
  using Base::Base;

  MANSARD_DEVICE int row_of(int slot, int g) const {
    return this->row + slot / 2 * 16 + Rows::of(g) + slot % 2 * Rows::SECOND;
  }
  // Calls put(column of the warp's tile, PUT adjacent sums) for all entries of the lane in a slot of rows.
  template <class Put>
  MANSARD_DEVICE void for_each_in(int slot, Put put) const {
    constexpr bool NEXT = Base::SECOND_IS_NEXT;  // neighbours are in the two fragments of a 16-column tile
    const int g = this->t * 2;
    MANSARD_UNROLL
    for (int i = 0; i < Base::TILES_N * 2; ++i) {
      const int n = i / 2, tile = NEXT ? 0 : i % 2, side = NEXT ? i % 2 : 0;
      const T pair[2] = {entry(slot, n, tile, side), entry(slot, n, NEXT ? 1 : tile, NEXT ? side : 1)};
      const int column = n * 16 + Columns::of(g + side) + tile * Columns::SECOND;
      put(column, &pair[0]);
      if constexpr (Base::PUT == 1) put(n * 16 + Columns::of(g + 1) + tile * Columns::SECOND, &pair[1]);
    }
  }
  MANSARD_DEVICE T entry(int slot, int n, int tile, int side) const {
    return Base::entry(slot / 2, n, tile, slot % 2 * 2 + side);
  }
};

// Entry (row, column) of alpha A B by ordinary multiply-adds from global memory: where halves of an infinity gave NaN.
template <class P, class Arguments>
MANSARD_DEVICE typename P::T plain_entry(const Operands<P, Arguments>& x, i64 index, int row, int column) {
  using T = typename P::T;
  constexpr bool ROW_MAJOR_A = P::LAYOUT_A != Layout::col, ROW_MAJOR_B = P::LAYOUT_B != Layout::col;
  const T* a = matrix_at(x.A.base, x.A.matrix, index) + row * (ROW_MAJOR_A ? x.A.line : x.A.step);
  const T* b = matrix_at(x.B.base, x.B.matrix, index) + column * (ROW_MAJOR_B ? x.B.step : x.B.line);
  const i64 a_k = ROW_MAJOR_A ? x.A.step : x.A.line, b_k = ROW_MAJOR_B ? x.B.line : x.B.step;
  T sum = zero<T>();
MANSARD_UNROLL_BY(1)
  for (int k = 0; k < P::K; ++k) {
    const T y = b[k * b_k];
    multiply_add<P::CONJ_A>(sum, a[k * a_k], P::CONJ_B ? conjugate(y) : y);
  }
  return x.scales.product(sum);
}

template <class R>
MANSARD_DEVICE bool is_nan(R x) {
  return x != x;
}
template <class R>
MANSARD_DEVICE bool is_nan(Complex<R> x) {
  return x.re != x.re || x.im != x.im;
}

// Distances in memory: 32 bits where they are known.
template <bool KNOWN>
struct StepOf {
  using Type = i64;
};
template <>
struct StepOf<true> {
  using Type = int;
};

// Part of C that a block computes: matrix, first row and column, and how many of them exist.
struct Part {
  i64 index;
  int m, n, rows, columns;
};

// Strips of a warp with the tile `Unit`; S has the block's tile of C.
template <class P, class S, class Unit>
struct Strip {
  using T = typename P::T;
  // every row (column) of every warp's tile exists
  static constexpr bool EVEN_M = P::M % S::M == 0 && P::WARPS_M * Unit::TILES_M * 16 == S::M;
  static constexpr bool EVEN_N = P::N % S::N == 0 && P::WARPS_N * Unit::TILES_N * 16 == S::N;
  static constexpr int WIDTH = Unit::TILES_N * 16, PITCH = WIDTH + 64 / int(sizeof(T));  // 64 bytes: other banks
  static constexpr int BYTES = 8 * PITCH * int(sizeof(T));
  static constexpr int ADJACENT = P::ADJACENT, PIECES = WIDTH / ADJACENT;  // of a row
  static constexpr int AT_ONCE = P::ACCUMULATE ? 4 : 1;                    // old entries that a lane waits for together
  static_assert(WIDTH % ADJACENT == 0, "whole pieces");

  template <class Arguments>
  static MANSARD_DEVICE void store(const Unit& unit, T* strip, const Operands<P, Arguments>& operands,
                                   const Part& part) {
    constexpr int PUT = Unit::PUT;
    MANSARD_UNROLL
    for (int slot = 0; slot < Unit::ROW_SLOTS; ++slot) {
      bool wrong = false;
      __syncwarp();  // the strip is about to be overwritten; all lanes have stored what it held
      unit.for_each_in(slot, [&](int column, const T* sum) {
        Pack<T, PUT> pack;
        MANSARD_UNROLL
        for (int i = 0; i < PUT; ++i) pack.e[i] = operands.scales.product(sum[i]), wrong |= is_nan(pack.e[i]);
        *reinterpret_cast<Pack<T, PUT>*>(strip + unit.g * PITCH + column) = pack;
      });
      __syncwarp();  // the strip is complete, written by all lanes
      if constexpr (Unit::SPLIT)
        if (__any_sync(~0u, wrong)) repair(unit, slot, strip, operands, part);
      store_rows(unit, slot, strip, operands, part);
    }
  }

 private:
  // Form the entries that are NaN again.
  template <class Arguments>
  static MANSARD_DEVICE void repair(const Unit& unit, int slot, T* strip, const Operands<P, Arguments>& operands,
                                    const Part& part) {
MANSARD_UNROLL_BY(1)
    for (int i = static_cast<int>(threadIdx.x) % 32; i < 8 * WIDTH; i += 32) {
      const int line = i / WIDTH, e = i % WIDTH, row = unit.row_of(slot, line);
      T& entry = strip[line * PITCH + e];
      if (row < part.rows && unit.column + e < part.columns && is_nan(entry))
        entry = plain_entry<P>(operands, part.index, part.m + row, part.n + unit.column + e);
    }
    __syncwarp();  // the strip: entries that other lanes have formed again
  }

  template <class Arguments>
  static MANSARD_DEVICE void store_rows(const Unit& unit, int slot, const T* strip,
                                        const Operands<P, Arguments>& operands, const Part& part) {
    const auto& C = operands.C;
    using Step = typename StepOf<(P::LINE_C > 0)>::Type;  // a row-major C has a constant pitch
    const Step row_step = P::LINE_C > 0 ? P::LINE_C : C.line, column_step = P::LINE_C > 0 ? 1 : C.step;
    T* const to = matrix_at(C.base, C.matrix, part.index) + part.m * row_step + (part.n + unit.column) * column_step;
    const int columns = part.columns - unit.column;
    MANSARD_UNROLL
    for (int begin = 0; begin < 8 * PIECES; begin += 32 * AT_ONCE) {
      const auto each = [&](auto use) {
        MANSARD_UNROLL
        for (int j = 0; j < AT_ONCE; ++j) {
          const int piece = begin + j * 32 + static_cast<int>(threadIdx.x) % 32;
          const int line = piece / PIECES, e = piece % PIECES * ADJACENT, row = unit.row_of(slot, line);
          const bool exists = (EVEN_M || row < part.rows) && (EVEN_N || e < columns);
          if ((8 * PIECES % (32 * AT_ONCE) == 0 || piece < 8 * PIECES) && exists)
            use(j, to + row * row_step + e * column_step, strip + line * PITCH + e);
        }
      };
      Pack<T, ADJACENT> old[AT_ONCE];
      if constexpr (P::ACCUMULATE)
        each([&](int j, const T* at, const T*) {
          if constexpr (ADJACENT == 1) old[j].e[0] = *at;
          else old[j] = *reinterpret_cast<const Pack<T, ADJACENT>*>(at);
        });
      each([&](int j, T* at, const T* from) {
        auto pack = *reinterpret_cast<const Pack<T, ADJACENT>*>(from);
        if constexpr (P::ACCUMULATE)
          MANSARD_UNROLL
          for (int i = 0; i < ADJACENT; ++i) pack.e[i] = operands.scales.with_old(pack.e[i], old[j].e[i]);
        if constexpr (P::ALIGNED || !Scalar<T>::COMPLEX) store_pack(at, pack);
        else *at = pack.e[0];
      });
    }
  }
};

}  // namespace mansard
