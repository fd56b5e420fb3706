// A = L L^H in the registers of a team: its lanes deal the rows (LANES_M) and runs of RUN columns (LANES_N) among them.
// A team is part of a warp, or two warps that are a block.
//
// As in rows.cuh the column of the pivot goes to all lanes as it is. Its owners leave it as it is, too: columns are
// scaled in the end, with what the steps have written down. The loop over the lanes that own it is not unrolled: a
// step's code serves LANES_N columns, and stays in the instruction cache.
//
// Slots are whole ones; where the matrix does not fill them, EMPTY rows and columns come before its first ones. There
// they cost next to nothing: their steps are left out, and what remains has a multiple of LANES_M rows as soon as the
// first slot is done. How many there are may be known at run time only (RAGGED): all are in the first slot of rows, and
// hold the identity, so that teams of a warp may differ in them.
#pragma once
#include "families/cholesky/pivots.cuh"

namespace mansard {

template <class T, int N, int LANES_M, int LANES_N, int RUN, int NRHS, bool RAGGED = false>
struct Tile {
  using Real = typename Scalar<T>::Real;
  static constexpr int TEAM = LANES_M * LANES_N;
  static constexpr int ROWS = ceil_div(N, LANES_M), SPAN = LANES_N * RUN;  // columns of a slot of all lanes
  static constexpr int HEIGHT = ROWS * LANES_M, EMPTY = HEIGHT - N;
  static constexpr int BEGIN = EMPTY / SPAN, SLOTS = HEIGHT / SPAN, COLUMNS = NRHS > 0 ? NRHS : 1;
  static constexpr int VECTOR = 16 / int(sizeof(T)), WIDTH = ceil_div(HEIGHT, VECTOR) * VECTOR;
  static constexpr int PLACES = 3;  // for columns: two on their way, and the inverses of the diagonal
  static_assert(LANES_M % SPAN == 0, "the pivots of a slot have their rows in one slot");
  static_assert(!RAGGED || (EMPTY == 0 && NRHS == 0), "of ragged ones the largest fill their slots");
  int down, across, info;  // of the lane
  int front;               // empty rows and columns of a ragged matrix
  T a[ROWS][SLOTS * RUN], b[ROWS][COLUMNS];

  MANSARD_DEVICE explicit Tile(int lane, int order = N)
      : down(lane % LANES_M), across(lane / LANES_M), info(0), front(HEIGHT - order) {}

  // Lanes of a team wait for each other; two warps are a block.
  static MANSARD_DEVICE void meet() {
    if constexpr (TEAM > 32) __syncthreads();
    else __syncwarp();
  }
  MANSARD_DEVICE int empty() const { return RAGGED ? front : EMPTY; }

  // Places of rows and columns, the empty ones counted; of the matrix they are EMPTY less.
  MANSARD_DEVICE int row_of(int r) const { return r * LANES_M + down; }
  MANSARD_DEVICE int column_of(int slot) const { return slot * SPAN + across * RUN; }
  // Whether rows of slot r reach to the columns of a slot.
  static MANSARD_DEVICE constexpr bool meets(int r, int slot) { return (r + 1) * LANES_M > slot * SPAN; }
  // Whether they are below the diagonal there.
  static MANSARD_DEVICE constexpr bool below(int r, int slot) { return r * LANES_M >= (slot + 1) * SPAN; }
  MANSARD_DEVICE bool has_row(int r) const { return (!RAGGED && EMPTY == 0) || r > 0 || row_of(r) >= empty(); }
  MANSARD_DEVICE bool has_column(int slot, int j) const {
    const bool whole = RAGGED ? slot * SPAN >= LANES_M : EMPTY % SPAN == 0 || slot > BEGIN;
    return whole || column_of(slot) + j >= empty();
  }

  // visit(r, slot, j) for all pieces of WIDE columns of the lane that may belong to the triangle, or (ALL) to the matrix
  template <bool ALL, int WIDE, class Visit>
  static MANSARD_DEVICE void for_each(Visit visit) {
    static_assert(RUN % WIDE == 0 && (WIDE == 1 || EMPTY % WIDE == 0), "pieces are whole");
    MANSARD_UNROLL
    for (int r = 0; r < ROWS; ++r)
      MANSARD_UNROLL
      for (int slot = BEGIN; slot < SLOTS; ++slot)
        if (ALL || meets(r, slot)) MANSARD_UNROLL
          for (int j = 0; j < RUN; j += WIDE) visit(r, slot, j);
  }

  template <Layout LAYOUT, class Image>
  MANSARD_DEVICE void load(const T* A) {
    constexpr int READ = LAYOUT == Layout::col ? 1 : gcd(RUN, Image::READ);
    for_each<false, READ>([&](int r, int slot, int j) {
      const int row = max(row_of(r) - EMPTY, 0), column = max(column_of(slot) + j - EMPTY, 0);
      read_entries<LAYOUT, Image::PITCH, READ>(&a[r][slot * RUN + j], A, row, column);
    });
  }
  // With zeros beyond the diagonal.
  template <Layout LAYOUT, class Image>
  MANSARD_DEVICE void store(T* F) const {
    constexpr int READ = LAYOUT == Layout::col ? 1 : gcd(RUN, Image::READ);
    const T nothing[READ] = {};
    for_each<true, READ>([&](int r, int slot, int j) {
      const T* from = meets(r, slot) ? &a[r][slot * RUN + j] : nothing;
      const int row = row_of(r) - EMPTY, column = column_of(slot) + j - EMPTY;
      if (has_row(r) && has_column(slot, j)) write_entries<LAYOUT, Image::PITCH, READ>(F, from, row, column);
    });
  }

  // The same from and to wedge.cuh.
  template <Layout LAYOUT, class Wedge, int PIECE>
  MANSARD_DEVICE void load_from(const T* memory) {
    constexpr int READ = LAYOUT == Layout::col ? 1 : gcd(RUN, PIECE);
    for_each<false, READ>([&](int r, int slot, int j) {
      const int row = r == 0 ? max(down, EMPTY) : down;  // something that is there
      const int column = slot * SPAN < EMPTY ? max(across * RUN + j, EMPTY - slot * SPAN) : across * RUN + j;
      const auto pack = *reinterpret_cast<const Pack<T, READ>*>(memory + in_wedge<LAYOUT, Wedge>(r, slot, row, column));
      MANSARD_UNROLL
      for (int i = 0; i < READ; ++i) a[r][slot * RUN + j + i] = pack.e[i];
    });
  }
  template <Layout LAYOUT, class Wedge, int PIECE>
  MANSARD_DEVICE void store_to(T* memory) const {
    constexpr int READ = LAYOUT == Layout::col ? 1 : gcd(RUN, PIECE);
    const int below = renewed(down), after = renewed(across * RUN);  // addresses have not waited for this in registers
    for_each<false, READ>([&](int r, int slot, int j) {
      const int row = row_of(r) - EMPTY, column = column_of(slot) + j - EMPTY;
      Pack<T, READ> pack;
      MANSARD_UNROLL
      for (int i = 0; i < READ; ++i) pack.e[i] = entry_of(r, slot, j + i, row, column + i);
      T* to = memory + in_wedge<LAYOUT, Wedge>(r, slot, below, after + j);
      if (has_row(r) && has_column(slot, j)) *reinterpret_cast<Pack<T, READ>*>(to) = pack;
    });
  }
  // Of a row and a column of these slots. What is known when it is compiled comes last: one address serves a row.
  template <Layout LAYOUT, class Wedge>
  static MANSARD_DEVICE int in_wedge(int r, int slot, int row, int column) {
    const int band = LAYOUT == Layout::col ? slot * SPAN / LANES_M : r;
    const int above = r * LANES_M - EMPTY, before = slot * SPAN - EMPTY;
    if constexpr (LAYOUT == Layout::col) return column * Wedge::pitch(band) + row + Wedge::at(band, before, above);
    else return row * Wedge::pitch(band) + column + Wedge::at(band, above, before);
  }
  MANSARD_DEVICE T entry_of(int r, int slot, int j, int row, int column) const {
    const T entry = a[r][slot * RUN + j];
    return below(r, slot) ? entry : lower_entry(entry, row, column);
  }

  // The same from and to global memory, WIDE adjacent elements at a time. What is beyond the diagonal is not read but
  // where a piece of the lanes lies across it.
  template <Layout LAYOUT, int WIDE>
  MANSARD_DEVICE void fetch(const T* A, i64 line, i64 step) {
    for_each<false, WIDE>([&](int r, int slot, int j) {
      const int row = row_of(r) - empty(), column = column_of(slot) + j - empty();
      Pack<T, WIDE> pack;
      if (RAGGED && !(has_row(r) && has_column(slot, j))) {
        MANSARD_UNROLL
        for (int i = 0; i < WIDE; ++i) pack.e[i] = from_real<T>(Real(row == column + i ? 1 : 0));
      } else {
        const i64 from = offset<LAYOUT>(max(row, 0), max(column, 0), line, step);
        pack = *reinterpret_cast<const Pack<T, WIDE>*>(A + from);
      }
      MANSARD_UNROLL
      for (int i = 0; i < WIDE; ++i) a[r][slot * RUN + j + i] = pack.e[i];
    });
  }
  template <Layout LAYOUT, int WIDE>
  MANSARD_DEVICE void put(T* F, i64 line, i64 step) const {
    for_each<true, WIDE>([&](int r, int slot, int j) {
      const int row = row_of(r) - empty(), column = column_of(slot) + j - empty();
      Pack<T, WIDE> pack = {};
      MANSARD_UNROLL
      for (int i = 0; i < WIDE; ++i)
        if (meets(r, slot)) pack.e[i] = entry_of(r, slot, j + i, row, column + i);
      if (has_row(r) && has_column(slot, j)) store_pack(F + offset<LAYOUT>(row, column, line, step), pack);
    });
  }
  // The same by way of shared memory, the rows of a slot at a time: rows without gaps are one run of bytes, which is
  // moved 16 at a time wherever it begins. `slab` has room for them, `rank` is the lane's place in its team.
  template <int WIDE>
  MANSARD_DEVICE void put_rows(T* F, T* slab, int rank) const {
    const int odd = static_cast<int>(reinterpret_cast<u64>(F) % 16 / sizeof(T));  // where the first row begins
    T* mine = slab + (renewed(down) * N + renewed(across) * RUN - EMPTY);
    MANSARD_UNROLL
    for (int r = 0; r < ROWS; ++r) {
      const int begin = max(r * LANES_M - EMPTY, 0) * N, skip = (odd + begin) % VECTOR;
      T* rows = mine + skip - (r == 0 ? EMPTY * N : 0);
      __syncwarp();  // everybody has read the rows before
      MANSARD_UNROLL
      for (int slot = BEGIN; slot < SLOTS; ++slot)
        MANSARD_UNROLL
        for (int j = 0; j < RUN; j += WIDE) {
          const int row = row_of(r) - EMPTY, column = column_of(slot) + j - EMPTY;
          Pack<T, WIDE> pack = {};
          MANSARD_UNROLL
          for (int i = 0; i < WIDE; ++i)
            if (meets(r, slot)) pack.e[i] = entry_of(r, slot, j + i, row, column + i);
          if (has_row(r) && has_column(slot, j))
            *reinterpret_cast<Pack<T, WIDE>*>(rows + slot * SPAN + j) = pack;
        }
      __syncwarp();
      store_run<TEAM>((r == 0 ? LANES_M - EMPTY : LANES_M) * N, F + begin, slab, skip, rank);
    }
  }
  template <Layout LAYOUT>
  static MANSARD_DEVICE i64 offset(int row, int column, i64 line, i64 step) {
    if constexpr (LAYOUT == Layout::row) return row * line + column;
    else if constexpr (LAYOUT == Layout::col) return column * line + row;
    else return row * line + column * step;
  }

  // visit(row, column, entry, whether it is the lane's) for all right-hand sides of the lane
  template <class Visit>
  MANSARD_DEVICE void for_right(Visit visit) {
    MANSARD_UNROLL
    for (int r = 0; r < ROWS; ++r)
      MANSARD_UNROLL
      for (int c = 0; c < COLUMNS; ++c) visit(max(row_of(r) - EMPTY, 0), c, b[r][c], across == 0 && has_row(r));
  }

  // columns: PLACES places for a column, STRIDE apart. A solver keeps inverses on the diagonal.
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
    meet();
    scale(inverses, begin);
  }

 private:
  // The first that any team of the warp has to do.
  MANSARD_DEVICE int first_step() const {
    int begin = empty();
    if constexpr (RAGGED) MANSARD_UNROLL
      for (int step = TEAM; step < 32; step *= 2) begin = min(begin, __shfl_xor_sync(0xffffffffu, begin, step));
    return begin;
  }

  MANSARD_DEVICE void step(T* column, Real* inverses, int k, int slot, int owner, int j) {
    const int first = slot * SPAN / LANES_M;  // slot with the pivot's row
    if (across == owner) MANSARD_UNROLL
      for (int r = first; r < ROWS; ++r) column[row_of(r)] = a[r][slot * RUN + j];
    if constexpr (NRHS > 0)
      if (across == 0 && row_of(first) == k) MANSARD_UNROLL
        for (int c = 0; c < NRHS; ++c) column[WIDTH + c] = b[first][c];
    meet();
    T over[ROWS];  // the column by its pivot
    const Real inverse = divide(over, column, k, first);
    if (down == 0 && across == 0) inverses[k] = inverse;
    if (row_of(first) <= k) over[first] = zero<T>();  // rows that are done, as are columns below
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

  // Returns 1 / l_kk. Twice by that costs real numbers less than a second way, for pivots without a normal inverse,
  // whose registers would all wait for the branch.
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

  // Every column by the inverse of its diagonal entry, or (a solver) that entry for it.
  MANSARD_DEVICE void scale(const Real* inverses, int begin) {
    MANSARD_UNROLL
    for (int slot = BEGIN; slot < SLOTS; ++slot)
      MANSARD_UNROLL
      for (int i = 0; i < RUN; ++i) {
        const int column = column_of(slot) + i;
        const Real inverse = inverses[RAGGED || slot == BEGIN ? max(column, begin) : column];
        MANSARD_UNROLL
        for (int r = 0; r < ROWS; ++r)
          if (meets(r, slot)) {
            T& entry = a[r][slot * RUN + i];
            entry = NRHS > 0 && row_of(r) == column ? from_real<T>(inverse) : by_real(entry, inverse);
          }
      }
  }

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
