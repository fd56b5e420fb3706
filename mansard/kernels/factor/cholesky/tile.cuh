// A = L L^H in the registers of a team, in tiles (tile_part.cuh). A team is part of a warp, or two warps that are a
// block.
//
// Step k:  a_ij -= conj(a_jk) * (a_ik / a_kk). Column k goes to all lanes through shared memory, unscaled. Its owners
// do not scale it either: after the last step column k is multiplied by inverses[k] = 1 / l_kk. The loop over the
// LANES_N lanes that own the columns of a slot is rolled: the code of a step serves LANES_N columns and stays in the
// instruction cache. Barriers (meet): one per step -> place k % 2 of `columns` -> owners of column k; after the last
// step -> inverses -> lane (0, 0).
#pragma once
#include "kernels/factor/cholesky/tile_part.cuh"

namespace mansard {

template <class T, int N, int LANES_M, int LANES_N, int RUN, int NRHS, bool RAGGED = false>
struct Tile : TilePart<T, N, LANES_M, LANES_N, RUN, RAGGED> {
  using Part = TilePart<T, N, LANES_M, LANES_N, RUN, RAGGED>;
  using Real = typename Part::Real;
  using Part::a, Part::down, Part::across, Part::empty, Part::row_of, Part::column_of, Part::meets, Part::has_row;
  using Part::TEAM, Part::ROWS, Part::SPAN, Part::EMPTY, Part::BEGIN, Part::SLOTS, Part::VECTOR, Part::HEIGHT;
  static constexpr int COLUMNS = NRHS > 0 ? NRHS : 1, WIDTH = ceil_div(HEIGHT, VECTOR) * VECTOR;
  static constexpr int PLACES = 3;  // two for published columns, used in turn, and one for the inverses of the diagonal
  static_assert(!RAGGED || NRHS == 0, "ragged ones are factored, not solved with");
  int info;
  T b[ROWS][COLUMNS];

  MANSARD_DEVICE explicit Tile(int lane, int order = N, bool along = false) : Part(lane, order, along), info(0) {}

  // Barrier of a team: of its warp, or of the block where the team is two warps.
  static MANSARD_DEVICE void meet() {
    if constexpr (TEAM > 32) __syncthreads();
    else __syncwarp();
  }

  // Calls visit(row, column, entry, has) for the lane's entries of the right-hand sides. Lanes of a row hold copies;
  // `has` is true in one of them.
  template <class Visit>
  MANSARD_DEVICE void for_right(Visit visit) {
    MANSARD_UNROLL
    for (int r = 0; r < ROWS; ++r)
      MANSARD_UNROLL
      for (int c = 0; c < COLUMNS; ++c) visit(max(row_of(r) - EMPTY, 0), c, b[r][c], across == 0 && has_row(r));
  }

  // All steps. `columns` points to the team's PLACES places, STRIDE apart. For solves the diagonal holds 1 / l_kk.
  template <int STRIDE>
  MANSARD_DEVICE void factor(T* columns) {
    const int begin = first_step();
    Real* inverses = reinterpret_cast<Real*>(columns + 2 * STRIDE);
    MANSARD_UNROLL
    for (int slot = BEGIN; slot < SLOTS; ++slot) {
      const bool partial = RAGGED ? slot * SPAN < LANES_M : slot == BEGIN;
MANSARD_UNROLL_BY(1)
      for (int owner = partial ? max(begin - slot * SPAN, 0) / RUN : 0; owner < LANES_N; ++owner)
        MANSARD_UNROLL
        for (int j = 0; j < RUN; ++j) {
          const int k = slot * SPAN + owner * RUN + j;
          if ((!RAGGED && EMPTY % RUN == 0) || !partial || k >= begin)
            step(columns + (RUN % 2 == 0 ? j : k) % 2 * STRIDE, inverses, k, slot, owner, j);
        }
    }
    meet();  // inverses are complete, written by lane (0, 0)
    scale(inverses, begin);
  }

 private:
  // First step that any team of the warp needs; steps of empty rows before it are skipped.
  MANSARD_DEVICE int first_step() const {
    int begin = empty();
    if constexpr (RAGGED) MANSARD_UNROLL
      for (int step = TEAM; step < 32; step *= 2) begin = min(begin, __shfl_xor_sync(0xffffffffu, begin, step));
    return begin;
  }

  MANSARD_DEVICE void step(T* column, Real* inverses, int k, int slot, int owner, int j) {
    const int first = slot * SPAN / LANES_M;  // slot of the pivot row
    if (across == owner) MANSARD_UNROLL
      for (int r = first; r < ROWS; ++r) column[row_of(r)] = a[r][slot * RUN + j];
    if constexpr (NRHS > 0)
      if (across == 0 && row_of(first) == k) MANSARD_UNROLL
        for (int c = 0; c < NRHS; ++c) column[WIDTH + c] = b[first][c];
    meet();  // `column` is complete, written by the owners of column k
    T over[ROWS];  // a_ik / a_kk
    const Real inverse = divide(over, column, k, first);
    if (down == 0 && across == 0) inverses[k] = inverse;
    if (row_of(first) <= k) over[first] = zero<T>();  // rows up to k are final; below, columns up to k
    MANSARD_UNROLL
    for (int s = slot; s < SLOTS; ++s) {
      T some[RUN];
      const auto pack = *reinterpret_cast<const Pack<T, RUN>*>(column + column_of(s));
      MANSARD_UNROLL
      for (int i = 0; i < RUN; ++i)
        some[i] = s == slot && (i <= j ? across <= owner : across < owner) ? zero<T>() : pack.e[i];
      MANSARD_UNROLL
      for (int r = first; r < ROWS; ++r)
        if (meets(r, s)) MANSARD_UNROLL
          for (int i = 0; i < RUN; ++i) multiply_add<true>(a[r][s * RUN + i], some[i], negated(over[r]));
    }
    if constexpr (NRHS > 0) eliminate(over, column, inverse, k, first);
  }

  // over_i = a_ik / a_kk; returns 1 / l_kk. Real numbers are multiplied by 1 / l_kk twice: that costs less than a
  // second path for pivots without a normal inverse, since all registers would wait for the branch.
  MANSARD_DEVICE Real divide(T (&over)[ROWS], const T* column, int k, int first) {
    const Real pivot = real_part(column[k]);
    if constexpr (!Scalar<T>::COMPLEX) {
      const Real inverse = inverse_of_diagonal(pivot, k + 1 - empty(), info);
      MANSARD_UNROLL
      for (int r = first; r < ROWS; ++r) over[r] = column[row_of(r)] * inverse * inverse;
      return inverse;
    } else {
      Real inverse = quick_inverse_root(pivot);
      MANSARD_UNROLL
      for (int r = first; r < ROWS; ++r) over[r] = column[row_of(r)];
      if (invertible(pivot)) {
        MANSARD_UNROLL
        for (int r = first; r < ROWS; ++r) over[r] = by_real(over[r], inverse * inverse);
      } else {
        inverse = inverse_of_diagonal(pivot, k + 1 - empty(), info);
        MANSARD_UNROLL
        for (int r = first; r < ROWS; ++r) over[r] = by_real(by_real(over[r], inverse), inverse);
      }
      return inverse;
    }
  }

  // l_ik = a_ik / l_kk for all columns; for solves the diagonal becomes 1 / l_kk.
  MANSARD_DEVICE void scale(const Real* inverses, int begin) {
    MANSARD_UNROLL
    for (int slot = BEGIN; slot < SLOTS; ++slot)
      MANSARD_UNROLL
      for (int i = 0; i < RUN; ++i) {
        const int column = column_of(slot) + i;
        const bool partial = RAGGED ? slot * SPAN < LANES_M : slot == BEGIN;
        const Real inverse = inverses[partial ? max(column, begin) : column];
        MANSARD_UNROLL
        for (int r = 0; r < ROWS; ++r)
          if (meets(r, slot)) {
            T& entry = a[r][slot * RUN + i];
            entry = NRHS > 0 && row_of(r) == column ? from_real<T>(inverse) : by_real(entry, inverse);
          }
      }
  }

  // b_i -= over_i * b_k for i > k, and y_k = b_k / l_kk.
  MANSARD_DEVICE void eliminate(const T (&over)[ROWS], const T* column, Real inverse, int k, int first) {
    MANSARD_UNROLL
    for (int c = 0; c < COLUMNS; ++c) {
      const T known = column[WIDTH + c];
      MANSARD_UNROLL
      for (int r = first; r < ROWS; ++r)
        if (r > first || row_of(r) > k) multiply_add<false>(b[r][c], negated(over[r]), known);
      if (row_of(first) == k) b[first][c] = by_real(known, inverse);
    }
  }
};

}  // namespace mansard
