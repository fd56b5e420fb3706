// Elimination by panels, for matrices of `rowwise` whose steps are not written out.
//
// A panel of four columns (or a vector's worth) is factored first, right-looking, and the rest of the matrix then loses
// four multiples of rows at once: an entry that came from memory meets four multiply-adds before it returns, where one
// would leave the core waiting for its loads and stores. The column that comes next is searched while it is computed.
// Where a matrix is larger than the first cache, panels change nothing beyond their block of 32 columns, and what comes
// after it is changed by all of them at once, as a product of matrices.
#pragma once
#include "kernels/factor/lu/search.hpp"
#include "mansard/cpu/groups.hpp"

namespace mansard {

// S: LuRowwise, whose rows are changed.
template <class S>
struct LuPanels {
  using R = typename S::R;
  using V = typename S::V;
  using Search = Largest<typename S::Bits>;
  static constexpr int LANES = S::LANES, M = S::M, K = S::K;
  static constexpr int WIDTH = larger(4, LANES);              // columns of a panel
  static constexpr int LIMIT = larger(1, S::TILE_N / WIDTH);  // vectors of a row in a tile
  static constexpr int REST = K % WIDTH, END = S::LENGTH / LANES;  // vectors of a row
  static constexpr int BLOCK = K > 64 ? larger(32, WIDTH) : round_up(K, WIDTH);
  S& all;

  // All steps, and what they do to the right-hand sides.
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

  // X from U X = Y, which took the place of the right-hand sides.
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
  // Vectors of a panel of W columns, as far as there are any.
  template <int W>
  static constexpr int VECTORS = W == WIDTH ? WIDTH / LANES : smaller(WIDTH, S::LENGTH - K + REST) / LANES;

  // Columns [k, k + W), and what they do to the vectors before `end`.
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

  // Step j of a panel that begins with column k; the row at `place` has the pivot.
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

  // What a row becomes in step j of a panel: multipliers of former steps stay before its own. Returns the entry of the
  // next column.
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

  // COUNT vectors from `column` on: the rows of the panel, then those below it, before `end`.
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

  // The same upwards, from `begin` on, with unknowns that become known.
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

  // Rows [begin, end) lose multiples of W known ones, whose signs are changed: ARM adds multiples of a vector by a lane
  // of another, but for differences compilers spread the lane first.
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

  // Rows [begin, end) lose the products of their entries in the columns [first, last) and the rows of these numbers.
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

  // W unknowns from row k on; the rows above lose what they contribute: of several right-hand sides from `begin` on.
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
