// A = L L^H in the registers of a team: its lanes deal the rows (LANES_M) and runs of RUN columns (LANES_N) among them.
//
// As in rows.cuh the column of the pivot goes to all lanes as it is. The loop over the lanes that own it is not
// unrolled: a step's code serves LANES_N columns, and stays in the instruction cache.
#pragma once
#include "families/cholesky/pivots.cuh"

namespace mansard {

template <class T, int N, int LANES_M, int LANES_N, int RUN, int NRHS>
struct Tile {
  using Real = typename Scalar<T>::Real;
  static constexpr int TEAM = LANES_M * LANES_N;
  static constexpr int ROWS = ceil_div(N, LANES_M), SPAN = LANES_N * RUN;  // columns of a slot of all lanes
  static constexpr int SLOTS = ceil_div(N, SPAN), COLUMNS = NRHS > 0 ? NRHS : 1;
  static constexpr int LONGEST = ROWS * LANES_M > SLOTS * SPAN ? ROWS * LANES_M : SLOTS * SPAN;
  static constexpr int VECTOR = 16 / int(sizeof(T)), WIDTH = ceil_div(LONGEST, VECTOR) * VECTOR;
  static_assert(LANES_M % SPAN == 0, "the pivots of a slot have their rows in one slot");
  int down, across, info;  // of the lane
  T a[ROWS][SLOTS * RUN], b[ROWS][COLUMNS];

  MANSARD_DEVICE explicit Tile(int lane) : down(lane % LANES_M), across(lane / LANES_M), info(0) {}

  MANSARD_DEVICE int row_of(int r) const { return r * LANES_M + down; }
  MANSARD_DEVICE int column_of(int slot) const { return slot * SPAN + across * RUN; }
  // Whether rows of slot r reach to the columns of a slot.
  static MANSARD_DEVICE constexpr bool meets(int r, int slot) { return (r + 1) * LANES_M > slot * SPAN; }

  // visit(r, row, slot, first column) for all runs of the lane that may belong to the triangle, or (ALL) to the matrix
  template <bool ALL, class Visit>
  MANSARD_DEVICE void for_each(Visit visit) const {
    MANSARD_UNROLL
    for (int r = 0; r < ROWS; ++r)
      MANSARD_UNROLL
      for (int slot = 0; slot < SLOTS; ++slot)
        if (ALL || meets(r, slot)) visit(r, row_of(r), slot, column_of(slot));
  }

  template <Layout LAYOUT, class Image>
  MANSARD_DEVICE void load(const T* A) {
    constexpr int READ = LAYOUT == Layout::col ? 1 : gcd(RUN, Image::READ);
    for_each<false>([&](int r, int row, int slot, int column) {
      MANSARD_UNROLL
      for (int j = 0; j < RUN; j += READ)
        read_entries<LAYOUT, Image::PITCH, READ>(&a[r][slot * RUN + j], A, min(row, N - 1), min(column + j, N - READ));
    });
  }
  // With zeros beyond the diagonal.
  template <Layout LAYOUT, class Image>
  MANSARD_DEVICE void store(T* F) const {
    constexpr int READ = LAYOUT == Layout::col ? 1 : gcd(RUN, Image::READ);
    const T nothing[READ] = {};
    for_each<true>([&](int r, int row, int slot, int column) {
      MANSARD_UNROLL
      for (int j = 0; j < RUN; j += READ) {
        const T* from = meets(r, slot) ? &a[r][slot * RUN + j] : nothing;
        if (row < N && column + j < N) write_entries<LAYOUT, Image::PITCH, READ>(F, from, row, column + j);
      }
    });
  }

  // visit(row, column, entry, whether it is the lane's) for all right-hand sides of the lane
  template <class Visit>
  MANSARD_DEVICE void for_right(Visit visit) {
    MANSARD_UNROLL
    for (int r = 0; r < ROWS; ++r)
      MANSARD_UNROLL
      for (int c = 0; c < COLUMNS; ++c) visit(min(row_of(r), N - 1), c, b[r][c], across == 0 && row_of(r) < N);
  }

  // columns: 2 places for a column, STRIDE apart. A solver keeps inverses on the diagonal.
  template <int STRIDE>
  MANSARD_DEVICE void factor(T* columns) {
    MANSARD_UNROLL
    for (int slot = 0; slot < SLOTS; ++slot)
MANSARD_UNROLL_BY(1)
      for (int owner = 0; owner < LANES_N; ++owner)
        MANSARD_UNROLL
        for (int j = 0; j < RUN; ++j) {
          const int k = slot * SPAN + owner * RUN + j;
          if (N % SPAN == 0 || k < N) step(columns + j % 2 * STRIDE + (RUN == 1 ? owner % 2 * STRIDE : 0), k, slot, j,
                                           across == owner);
        }
  }

 private:
  MANSARD_DEVICE void step(T* column, int k, int slot, int j, bool mine) {
    const int first = slot * SPAN / LANES_M, at = slot * RUN + j;  // slot with the pivot's row, and its column
    if (mine) MANSARD_UNROLL
      for (int r = first; r < ROWS; ++r) column[row_of(r)] = a[r][at];
    if constexpr (NRHS > 0)
      if (across == 0 && row_of(first) == k) MANSARD_UNROLL
        for (int c = 0; c < NRHS; ++c) column[WIDTH + c] = b[first][c];
    __syncwarp();
    const Real inverse = inverse_of_diagonal(real_part(column[k]), k + 1, info);
    T minus[ROWS];
    MANSARD_UNROLL
    for (int r = first; r < ROWS; ++r) {
      const T scaled = by_real(column[row_of(r)], inverse);
      if (mine) a[r][at] = NRHS > 0 && r == first && row_of(r) == k ? from_real<T>(inverse) : scaled;
      minus[r] = by_real(scaled, -inverse);
      if (r == first && row_of(r) <= k) minus[r] = zero<T>();  // rows that are done
    }
    MANSARD_UNROLL
    for (int s = slot; s < SLOTS; ++s) {
      T some[RUN];
      const auto pack = *reinterpret_cast<const Pack<T, RUN>*>(column + column_of(s));
      MANSARD_UNROLL
      for (int i = 0; i < RUN; ++i) some[i] = s == slot && column_of(s) + i <= k ? zero<T>() : pack.e[i];
      MANSARD_UNROLL
      for (int r = first; r < ROWS; ++r)
        if (meets(r, s)) MANSARD_UNROLL
          for (int i = 0; i < RUN; ++i) multiply_add<true>(a[r][s * RUN + i], some[i], minus[r]);
    }
    if constexpr (NRHS > 0) eliminate(minus, column, inverse, k, first);
  }

  MANSARD_DEVICE void eliminate(const T (&minus)[ROWS], const T* column, Real inverse, int k, int first) {
    MANSARD_UNROLL
    for (int c = 0; c < COLUMNS; ++c) {
      const T known = column[WIDTH + c];
      MANSARD_UNROLL
      for (int r = first; r < ROWS; ++r)
        if (r > first || row_of(r) > k) multiply_add<false>(b[r][c], minus[r], known);
      if (row_of(first) == k) b[first][c] = by_real(known, inverse);
    }
  }
};

}  // namespace mansard
