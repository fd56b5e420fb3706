// Elimination by panels of WIDTH columns, for matrices of kernel_rowwise.hpp that are too large to be unrolled.
//
// Panel at k:  factor columns [k, k + W) right-looking;  U_kj = L_kk^-1 A_kj;  A_ij -= sum over q of l_iq * u_qj  for
// the columns behind it, with W multiply-adds per load and store of an entry: one would leave the core waiting for
// memory. The next column of a panel is searched for its pivot while it is updated. More than 64 steps: panels update
// only the columns of their block of BLOCK columns. The columns behind the block are updated once per block, as a
// product of matrices.
#pragma once
#include "kernels/factor/lu/search.hpp"
#include "mansard/cpu/groups.hpp"

namespace mansard {

// S: LuRowwise, the matrix in its workspace.
template <class S>
struct LuPanels {
  using R = typename S::R;
  using V = typename S::V;
  using Search = Largest<typename S::Bits>;
  static constexpr int LANES = S::LANES, M = S::M, K = S::K;
  static constexpr int WIDTH = larger(4, LANES);              // columns of a panel
  static constexpr int LIMIT = larger(1, S::TILE_N / WIDTH);  // vectors of a row in a register tile
  static constexpr int REST = K % WIDTH, END = S::LENGTH / LANES;  // columns of a narrower last panel; vectors of a row
  static constexpr int BLOCK = K > 64 ? larger(32, WIDTH) : round_up(K, WIDTH);
  S& all;

  // Factor the matrix; right-hand sides are updated as columns behind it.
  void eliminate() const {
    int begin = 0;
    for (; begin + BLOCK < K; begin += BLOCK) {
      const int end = begin + BLOCK;
      for (int k = begin; k < end; k += WIDTH) panel<WIDTH>(k, end / LANES);
      for_tiles<LIMIT>(end / LANES, END, [&](int vector, auto count) __attribute__((always_inline)) {
        for (int k = begin; k < end; k += WIDTH) lower<WIDTH, count>(k, vector * LANES, end);
        lose_products<count>(begin, end, vector * LANES, end, M);
      });
    }
    for (; begin + WIDTH <= K; begin += WIDTH) panel<WIDTH>(begin, END);
    if constexpr (REST > 0) panel<REST>(begin, END);
  }

  // Backward substitution U X = Y by panels of WIDTH rows; X replaces Y.
  void substitute() const {
    for (int end = K; end > 0;) {
      const int begin = (end - 1) / BLOCK * BLOCK;
      if constexpr (REST > 0)
        if (end == K) solve<REST>(K - REST, begin);
      for (int k = end / WIDTH * WIDTH - WIDTH; k >= begin; k -= WIDTH) solve<WIDTH>(k, begin);
      if constexpr (S::RIGHT > 1)
        for_tiles<LIMIT>(S::FIRST / LANES, END, [&](int vector, auto count) __attribute__((always_inline)) {
          lose_products<count>(begin, end, vector * LANES, 0, begin);
        });
      end = begin;
    }
  }

 private:
  // Vectors of a row that a panel of W columns loads: WIDTH columns, or as many as the padded row still has.
  template <int W>
  static constexpr int VECTORS = W == WIDTH ? WIDTH / LANES : smaller(WIDTH, S::LENGTH - K + REST) / LANES;

  // Factor columns [k, k + W), then update the vectors of all rows from there to vector `end`.
  template <int W>
  MANSARD_INLINE void panel(int k, int end) const {
    R** const rows = all.rows.data();
    i64 place = k;
    if constexpr (S::PIVOT) {
      Search even{S::size_of(&rows[k][k]), k}, odd{0, M};
      int i = k + 1;
      for (; i + 1 < M; i += 2) {
        odd.take(S::countable(&rows[i][k]), i);
        even.take(S::countable(&rows[i + 1][k]), i + 1);
      }
      if (i < M) odd.take(S::countable(&rows[i][k]), i);
      place = even.first_of(odd);
    }
    step<0, W>(k, place);
    for_tiles<LIMIT>(k / LANES + VECTORS<W>, end, [&](int vector, auto count) __attribute__((always_inline)) {
      lower<W, count>(k, vector * LANES, M);
    });
  }

  // Step j of the panel that begins at column k: row `place` is the pivot row.
  template <int j, int W>
  MANSARD_INLINE void step(int k, i64 place) const {
    R** const rows = all.rows.data();
    const int at = k + j;
    all.exchange(at, place);
    const R factor = all.invert(at);
    V pivot[VECTORS<W>];
    read(pivot, rows[at] + k);
    Search even{0, M}, odd{0, M};
    if (at + 1 < M) {
      const R next = reduce_in_panel<j>(rows[at + 1] + k, factor, pivot);
      even = {S::size_of(&next), at + 1};
    }
    const auto visit = [&](int i, Search& search) __attribute__((always_inline)) {
      const R next = reduce_in_panel<j>(rows[i] + k, factor, pivot);
      if constexpr (S::PIVOT && j + 1 < W) search.take(S::countable(&next), i);
    };
    int i = at + 2;
    for (; i + 1 < M; i += 2) visit(i, odd), visit(i + 1, even);
    if (i < M) visit(i, odd);
    if constexpr (j + 1 < W) step<j + 1, W>(k, S::PIVOT ? even.first_of(odd) : at + 1);
  }

  // Update one row's part of the panel in step j; it keeps the multipliers of steps 0 .. j. Returns its entry in the
  // next column, for the search.
  template <int j, int COUNT>
  static MANSARD_INLINE R reduce_in_panel(R* row, R factor, const V (&pivot)[COUNT]) {
    constexpr int FIRST = j / LANES, LANE = j % LANES, NEXT = smaller(j + 1, COUNT * LANES - 1);
    V entries[COUNT];
    read(entries, row);
    const R multiplier = entries[FIRST][LANE] * factor;
    MANSARD_UNROLL
    for (int v = FIRST; v < COUNT; ++v) {
      V reduced = minus_product(entries[v], multiplier, pivot[v]);
      MANSARD_UNROLL
      for (int lane = 0; v == FIRST && lane < LANE; ++lane) reduced[lane] = entries[v][lane];
      if (v == FIRST) reduced[LANE] = multiplier;
      store<LANES>(row + v * LANES, entries[v] = reduced);
    }
    return entries[NEXT / LANES][NEXT % LANES];
  }

  // COUNT vectors from `column` on: rows of U in the panel's rows, then the update of the rows below, up to `end`.
  template <int W, int COUNT>
  MANSARD_INLINE void lower(int k, int column, int end) const {
    R** const rows = all.rows.data();
    V minus[W][COUNT];
    MANSARD_UNROLL
    for (int r = 0; r < W; ++r) {
      read(minus[r], rows[k + r] + column);
      MANSARD_UNROLL
      for (int q = 0; q < r; ++q) add(minus[r], rows[k + r][k + q], minus[q]);
      if (r > 0) write(rows[k + r] + column, minus[r]);
      negate(minus[r]);
    }
    reduce(k, column, minus, k + W, end);
  }

  // COUNT vectors of right-hand sides from `column` on: solve for X in W rows from k on, then update the rows above,
  // from `begin` on.
  template <int W, int COUNT>
  MANSARD_INLINE void upper(int k, int column, int begin) const {
    R** const rows = all.rows.data();
    V minus[W][COUNT];
    MANSARD_UNROLL
    for (int r = W - 1; r >= 0; --r) {
      read(minus[r], rows[k + r] + column);
      MANSARD_UNROLL
      for (int q = r + 1; q < W; ++q) add(minus[r], rows[k + r][k + q], minus[q]);
      MANSARD_UNROLL
      for (int v = 0; v < COUNT; ++v) minus[r][v] *= all.reciprocals[k + r];
      write(rows[k + r] + column, minus[r]);
      negate(minus[r]);
    }
    reduce(k, column, minus, begin, k);
  }

  // a_ij += l_iq * (-u_qj) for rows i in [begin, end) and the W rows q of the panel. The rows come negated: ARM can
  // multiply-add by a lane of a vector, but for a multiply-subtract compilers broadcast the lane first.
  template <int W, int COUNT>
  MANSARD_INLINE void reduce(int k, int column, const V (&minus)[W][COUNT], int begin, int end) const {
    R** const rows = all.rows.data();
#pragma GCC unroll 2
    for (int i = begin; i < end; ++i) {
      R* const row = rows[i];
      V entries[COUNT], multipliers[ceil_div(W, LANES)];
      read(multipliers, row + k);
      read(entries, row + column);
      MANSARD_UNROLL
      for (int q = 0; q < W; ++q) add(entries, multipliers[q / LANES][q % LANES], minus[q]);
      write(row + column, entries);
    }
  }

  // a_ij -= sum over q in [first, last) of a_iq * a_qj, for rows i in [begin, end) and COUNT vectors j from `column`
  // on.
  template <int COUNT>
  MANSARD_AS_WRITTEN __attribute__((noinline)) void lose_products(int first, int last, int column, int begin,
                                                                  int end) const {
    for (; begin + 4 <= end; begin += 4) lose_products<4, COUNT>(first, last, column, begin);
    for (; begin < end; ++begin) lose_products<1, COUNT>(first, last, column, begin);
  }
  template <int ROWS, int COUNT>
  MANSARD_INLINE void lose_products(int first, int last, int column, int begin) const {
    R** const rows = all.rows.data();
    const R* lines[ROWS];
    V sums[ROWS][COUNT] = {};
    MANSARD_UNROLL
    for (int i = 0; i < ROWS; ++i) lines[i] = rows[begin + i];
    for (int q = first; q < last; ++q) {
      V known[COUNT];
      read(known, rows[q] + column);
      MANSARD_UNROLL
      for (int i = 0; i < ROWS; ++i) add(sums[i], lines[i][q], known);
    }
    MANSARD_UNROLL
    for (int i = 0; i < ROWS; ++i) {
      V entries[COUNT];
      read(entries, rows[begin + i] + column);
      MANSARD_UNROLL
      for (int v = 0; v < COUNT; ++v) entries[v] -= sums[i][v];
      write(rows[begin + i] + column, entries);
    }
  }

  template <int COUNT>
  static MANSARD_INLINE void read(V (&to)[COUNT], const R* from) {
    MANSARD_UNROLL
    for (int v = 0; v < COUNT; ++v) to[v] = load<LANES>(from + v * LANES);
  }
  template <int COUNT>
  static MANSARD_INLINE void write(R* to, const V (&from)[COUNT]) {
    MANSARD_UNROLL
    for (int v = 0; v < COUNT; ++v) store<LANES>(to + v * LANES, from[v]);
  }
  template <int COUNT>
  static MANSARD_INLINE void negate(V (&row)[COUNT]) {
    MANSARD_UNROLL
    for (int v = 0; v < COUNT; ++v) row[v] = as_found(-row[v]);
  }
  template <int COUNT>
  static MANSARD_INLINE void add(V (&to)[COUNT], R factor, const V (&row)[COUNT]) {
    MANSARD_UNROLL
    for (int v = 0; v < COUNT; ++v) add_product(to[v], factor, row[v]);
  }

  // Solve for X in W rows from k on and update the right-hand sides above them: all rows if there is one right-hand
  // side, otherwise those from `begin` on.
  template <int W>
  MANSARD_INLINE void solve(int k, int begin) const {
    if constexpr (S::RIGHT > 1)
      for_tiles<LIMIT>(S::FIRST / LANES, END, [&](int vector, auto count) __attribute__((always_inline)) {
        upper<W, count>(k, vector * LANES, begin);
      });
    else solve_one<W>(k);
  }
  template <int W>
  MANSARD_INLINE void solve_one(int k) const {
    R** const rows = all.rows.data();
    R known[W];
    MANSARD_UNROLL
    for (int r = W - 1; r >= 0; --r) {
      R sum = rows[k + r][S::N];
      MANSARD_UNROLL
      for (int q = W - 1; q > r; --q) subtract_product(sum, rows[k + r][k + q], known[q]);
      rows[k + r][S::N] = known[r] = sum * all.reciprocals[k + r];
    }
#pragma GCC unroll 2
    for (int i = 0; i < k; ++i) {
      R sums[2]{rows[i][S::N], 0};
      MANSARD_UNROLL
      for (int q = 0; q < W; ++q) subtract_product(sums[q % 2], rows[i][k + q], known[q]);
      rows[i][S::N] = sums[0] + sums[1];
    }
  }
};

}  // namespace mansard
