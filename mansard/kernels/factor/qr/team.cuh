// A team: the LANES_M x LANES_N threads that factor a matrix, barriers and sums among them.
//
// Thread (row, column) holds rows row, row + LANES_M, ... of columns column, column + LANES_N, ... Threads of a column
// are lanes of one warp, so that sums along it are shuffles. A team is part of a warp (several matrices per warp), a
// warp, or, if it is WIDE, a block of warps that share the columns.
#pragma once
#include "mansard/gpu/factor_scalars.cuh"

namespace mansard {

template <class P>
struct Team {
  static constexpr int ROWS = P::LANES_M, COLUMNS = P::LANES_N, THREADS = ROWS * COLUMNS;
  static constexpr bool WIDE = THREADS > 32;
  static constexpr int ACROSS = WIDE ? 32 / ROWS : COLUMNS;  // threads of a team's row that are in one warp
  static constexpr int UNIT = WIDE ? THREADS : 32;           // threads that share barriers: a warp or the block
  static constexpr int TEAMS = UNIT / THREADS;               // teams of a unit
  static_assert(UNIT % THREADS == 0 && 32 % ROWS == 0, "teams fill warps");

  const int lane, index, rank, row, column;
  MANSARD_DEVICE Team()
      : lane(threadIdx.x % 32), index(WIDE ? 0 : lane / THREADS), rank(WIDE ? threadIdx.x : lane % THREADS),
        row(lane % (ROWS * ACROSS) / ACROSS), column(WIDE ? threadIdx.x / 32 * ACROSS + lane % ACROSS : lane % ACROSS) {}

  // Barrier of a unit.
  static MANSARD_DEVICE void meet() {
    if constexpr (WIDE) __syncthreads();
    else __syncwarp();
  }
  // Whether `mine` holds in any thread of the unit; in a block this is a barrier, too.
  static MANSARD_DEVICE bool any(bool mine) {
    if constexpr (WIDE) return __syncthreads_or(mine) != 0;
    else return __any_sync(0xffffffffu, mine) != 0;
  }

  // Sum over the threads of a column, in all of them.
  template <class R>
  static MANSARD_DEVICE R sum(R x) {
    MANSARD_UNROLL
    for (int step = ACROSS; step < ROWS * ACROSS; step *= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
  }
  template <class R>
  static MANSARD_DEVICE Complex<R> sum(Complex<R> x) {
    return {sum(x.re), sum(x.im)};
  }
  // Value of x in the thread (its_row, its_column), of a team in one warp; below, in thread its_row of the same column.
  template <class T>
  MANSARD_DEVICE T of(T x, int its_row, int its_column) const {
    if constexpr (THREADS == 1) return x;
    else return lane_value<ROWS * ACROSS>(x, its_row * ACROSS + its_column);
  }
  template <class T>
  MANSARD_DEVICE T of_row(T x, int its_row) const {
    if constexpr (ROWS == 1) return x;
    else return of(x, its_row, lane % ACROSS);
  }
};

}  // namespace mansard
