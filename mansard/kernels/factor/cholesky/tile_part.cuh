// A lane's part of a matrix in the tiled Cholesky kernels, and how it is loaded and stored.
//
// Lane (down, across) of LANES_M x LANES_N holds rows r * LANES_M + down and columns slot * SPAN + across * RUN + j,
// j < RUN: a[r][slot * RUN + j]. The matrix is padded at the front with EMPTY rows and columns to full slots. At the
// front they cost next to nothing: their steps are skipped, and after the first slot the rest has a multiple of LANES_M
// rows. RAGGED: the number of empty rows is known at run time only. All of them are in the first slot of rows, and they
// hold the identity, so that teams of a warp may have different numbers of them.
#pragma once
#include "kernels/factor/cholesky/pivots.cuh"

namespace mansard {

template <class T, int N, int LANES_M, int LANES_N, int RUN, bool RAGGED>
struct TilePart {
  using Real = typename Scalar<T>::Real;
  static constexpr int TEAM = LANES_M * LANES_N;
  static constexpr int ROWS = ceil_div(N, LANES_M), SPAN = LANES_N * RUN;  // rows per lane; columns per slot
  static constexpr int HEIGHT = ROWS * LANES_M, EMPTY = HEIGHT - N;
  static constexpr int BEGIN = EMPTY / SPAN, SLOTS = HEIGHT / SPAN, VECTOR = 16 / int(sizeof(T));
  static_assert(LANES_M % SPAN == 0, "the pivots of a slot have their rows in one slot");
  static_assert(!RAGGED || EMPTY == 0, "of ragged ones the largest fill their slots");
  int down, across;  // position of the lane in its team
  int front;         // empty rows and columns of a ragged matrix
  T a[ROWS][SLOTS * RUN];

  // `along`: neighbouring lanes have neighbouring columns instead of neighbouring rows.
  MANSARD_DEVICE TilePart(int lane, int order, bool along)
      : down(along ? lane / LANES_N : lane % LANES_M),
        across(along ? lane % LANES_N : lane / LANES_M),
        front(HEIGHT - order) {}

  MANSARD_DEVICE int empty() const { return RAGGED ? front : EMPTY; }

  // Row and column including the empty ones in front; row and column of the matrix are EMPTY less.
  MANSARD_DEVICE int row_of(int r) const { return r * LANES_M + down; }
  MANSARD_DEVICE int column_of(int slot) const { return slot * SPAN + across * RUN; }
  // Whether rows of slot r have entries on or below the diagonal in the columns of `slot`.
  static MANSARD_DEVICE constexpr bool meets(int r, int slot) { return (r + 1) * LANES_M > slot * SPAN; }
  // Whether all entries of rows of slot r in the columns of `slot` are below the diagonal.
  static MANSARD_DEVICE constexpr bool below(int r, int slot) { return r * LANES_M >= (slot + 1) * SPAN; }
  MANSARD_DEVICE bool has_row(int r) const { return (!RAGGED && EMPTY == 0) || r > 0 || row_of(r) >= empty(); }
  MANSARD_DEVICE bool has_column(int slot, int j) const {
    const bool whole = RAGGED ? slot * SPAN >= LANES_M : EMPTY % SPAN == 0 || slot > BEGIN;
    return whole || column_of(slot) + j >= empty();
  }

  // Calls visit(r, slot, j) for all pieces of WIDE columns of the lane that meet the triangle, or (ALL) the matrix.
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

  // Load from an image in shared memory.
  template <Layout LAYOUT, class Image>
  MANSARD_DEVICE void load(const T* A) {
    constexpr int READ = LAYOUT == Layout::col ? 1 : gcd(RUN, Image::READ);
    for_each<false, READ>([&](int r, int slot, int j) {
      const int row = max(row_of(r) - EMPTY, 0), column = max(column_of(slot) + j - EMPTY, 0);
      read_entries<LAYOUT, Image::PITCH, READ>(&a[r][slot * RUN + j], A, row, column);
    });
  }
  // Store to an image, with zeros above the diagonal.
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

  // Load from a triangle in bands (wedge.cuh); below, store to it.
  template <Layout LAYOUT, class Wedge, int PIECE>
  MANSARD_DEVICE void load_from(const T* memory) {
    constexpr int READ = LAYOUT == Layout::col ? 1 : gcd(RUN, PIECE);
    for_each<false, READ>([&](int r, int slot, int j) {
      const int row = r == 0 ? max(down, EMPTY) : down;  // empty rows load one that exists
      const int column = slot * SPAN < EMPTY ? max(across * RUN + j, EMPTY - slot * SPAN) : across * RUN + j;
      const auto pack = *reinterpret_cast<const Pack<T, READ>*>(memory + in_wedge<LAYOUT, Wedge>(r, slot, row, column));
      MANSARD_UNROLL
      for (int i = 0; i < READ; ++i) a[r][slot * RUN + j + i] = pack.e[i];
    });
  }
  template <Layout LAYOUT, class Wedge, int PIECE>
  MANSARD_DEVICE void store_to(T* memory) const {
    constexpr int READ = LAYOUT == Layout::col ? 1 : gcd(RUN, PIECE);
    const int below = renewed(down), after = renewed(across * RUN);  // addresses are formed here, not kept in registers
    for_each<false, READ>([&](int r, int slot, int j) {
      const int row = row_of(r) - EMPTY, column = column_of(slot) + j - EMPTY;
      Pack<T, READ> pack;
      MANSARD_UNROLL
      for (int i = 0; i < READ; ++i) pack.e[i] = entry_of(r, slot, j + i, row, column + i);
      T* to = memory + in_wedge<LAYOUT, Wedge>(r, slot, below, after + j);
      if (has_row(r) && has_column(slot, j)) *reinterpret_cast<Pack<T, READ>*>(to) = pack;
    });
  }
  // Offset in a wedge of (row, column) of the slots r and `slot`. The compile-time part is added last, so that one
  // address register serves a row.
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

  // Load from global memory, WIDE adjacent elements at a time; below, store. Entries above the diagonal are not loaded,
  // except in vectors that straddle it.
  template <Layout LAYOUT, int WIDE>
  MANSARD_DEVICE void fetch(const T* A, i64 line, i64 step) {
    for_each<false, WIDE>([&](int r, int slot, int j) {
      const int row = row_of(r) - EMPTY, column = column_of(slot) + j - EMPTY;
      const i64 from = offset<LAYOUT>(max(row, 0), max(column, 0), line, step);
      const auto pack = *reinterpret_cast<const Pack<T, WIDE>*>(A + from);
      MANSARD_UNROLL
      for (int i = 0; i < WIDE; ++i) a[r][slot * RUN + j + i] = pack.e[i];
    });
  }
  template <Layout LAYOUT, int WIDE>
  MANSARD_DEVICE void put(T* F, i64 line, i64 step) const {
    for_each<true, WIDE>([&](int r, int slot, int j) {
      const auto pack = pack_of<WIDE>(r, slot, j);
      const int row = row_of(r) - EMPTY, column = column_of(slot) + j - EMPTY;
      if (has_row(r) && has_column(slot, j)) store_pack(F + offset<LAYOUT>(row, column, line, step), pack);
    });
  }
  // Load a ragged matrix without gaps; below, store it. One address register serves a row, or (col) a column.
  template <Layout LAYOUT, int WIDE>
  MANSARD_DEVICE void fetch_ragged(const T* A) {
    const int order = HEIGHT - front;
    const T* origin = A + offset<LAYOUT>(down - front, across * RUN - front, order, 1);
    for_each<false, WIDE>([&](int r, int slot, int j) {
      Pack<T, WIDE> pack;
      MANSARD_UNROLL
      for (int i = 0; i < WIDE; ++i)
        pack.e[i] = from_real<T>(Real(row_of(r) == column_of(slot) + j + i ? 1 : 0));
      const T* from = origin + offset<LAYOUT>(r * LANES_M, slot * SPAN + j, order, 1);
      if (has_row(r) && has_column(slot, j)) pack = *reinterpret_cast<const Pack<T, WIDE>*>(from);
      MANSARD_UNROLL
      for (int i = 0; i < WIDE; ++i) a[r][slot * RUN + j + i] = pack.e[i];
    });
  }
  template <Layout LAYOUT, int WIDE>
  MANSARD_DEVICE void put_ragged(T* F) const {
    const int order = HEIGHT - front;
    T* origin = F + offset<LAYOUT>(renewed(down) - front, renewed(across) * RUN - front, order, 1);
    for_each<true, WIDE>([&](int r, int slot, int j) {
      T* to = origin + offset<LAYOUT>(r * LANES_M, slot * SPAN + j, order, 1);
      if (has_row(r) && has_column(slot, j)) store_pack(to, pack_of<WIDE>(r, slot, j));
    });
  }
  // Store row-major factors without gaps through the team's slab in shared memory, BAND slots of rows at a time: these
  // rows are one run of bytes, which is moved 16 at a time wherever it begins. `rank` is the lane's rank in its team.
  template <int WIDE, int BAND>
  MANSARD_DEVICE void put_rows(T* F, T* slab, int rank) const {
    const int odd = static_cast<int>(reinterpret_cast<u64>(F) % 16 / sizeof(T));  // elements past a 16-byte edge
    const int front = empty(), order = HEIGHT - front;
    T* mine = slab + (renewed(down) * order + renewed(across) * RUN - front);
    MANSARD_UNROLL
    for (int band = 0; band < ROWS; band += BAND) {
      const int begin = max(band * LANES_M - front, 0) * order, skip = (odd + begin) % VECTOR;
      constexpr int EMPTIEST = RAGGED ? LANES_M - 1 : EMPTY;
      const int height = min(BAND, ROWS - band) * LANES_M, upper = band == 0 ? front : 0;
      T* rows = mine + skip - upper * order;
      __syncwarp();  // slab is about to be overwritten by this band; all lanes have stored the band before from it
      MANSARD_UNROLL
      for (int r = band; r < min(band + BAND, ROWS); ++r)
        MANSARD_UNROLL
        for (int slot = BEGIN; slot < SLOTS; ++slot)
          MANSARD_UNROLL
          for (int j = 0; j < RUN; j += WIDE) {
            const auto pack = pack_of<WIDE>(r, slot, j);
            if (has_row(r) && has_column(slot, j))
              *reinterpret_cast<Pack<T, WIDE>*>(rows + (r - band) * LANES_M * order + slot * SPAN + j) = pack;
          }
      __syncwarp();  // slab is complete, written by all lanes of the team
      const int least = (height - (band == 0 ? EMPTIEST : 0)) * (HEIGHT - EMPTIEST), most = RAGGED ? height * N : least;
      store_run<TEAM>((height - upper) * order, least, most, F + begin, slab, skip, rank);
    }
  }
  // WIDE entries of L in a row, with zeros above the diagonal.
  template <int WIDE>
  MANSARD_DEVICE Pack<T, WIDE> pack_of(int r, int slot, int j) const {
    Pack<T, WIDE> pack = {};
    MANSARD_UNROLL
    for (int i = 0; i < WIDE; ++i)
      if (meets(r, slot)) pack.e[i] = entry_of(r, slot, j + i, row_of(r), column_of(slot) + j + i);
    return pack;
  }
  template <Layout LAYOUT>
  static MANSARD_DEVICE i64 offset(int row, int column, i64 line, i64 step) {
    if constexpr (LAYOUT == Layout::row) return row * line + column;
    else if constexpr (LAYOUT == Layout::col) return column * line + row;
    else return row * line + column * step;
  }
};

}  // namespace mansard
