// Sparse product with several vectors, complex ones, or CSR rows on CPUs: lanes run along the reals of a row of X.
//
// A row's entries are added from first to last. Products with the real and with the imaginary parts of entries are
// summed separately, so that nothing is shuffled before the sums are complete.
#pragma once
#include "kernels/sparse/spmv/stored.hpp"

namespace mansard {

template <class P, class Arguments>
struct Along {
  using T = typename P::T;
  using V = typename P::V;
  using R = typename Scalar<T>::Real;
  using Q = typename Scalar<V>::Real;
  static constexpr int WORDS = Scalar<T>::WORDS, PAIRS = Scalar<V>::WORDS;  // PAIRS = 2: entries are complex
  static constexpr int LANES = P::LANES, REALS = WORDS * P::NVECS;
  static constexpr int TILE = smaller(ceil_div(REALS, LANES), 8 / PAIRS);  // vectors per register tile
  using Sum = Lanes<R, LANES>;

  // Compute COUNT reals of row `row` from `first` on.
  template <int COUNT>
  static MANSARD_INLINE void piece(const Arguments& a, const Stored<P>& s, int length, i64 row, int first) {
    constexpr int VECTORS = ceil_div(COUNT, LANES), LAST = COUNT - (VECTORS - 1) * LANES;
    Sum sums[PAIRS][VECTORS] = {};
    const R* X = reinterpret_cast<const R*>(a.X) + first;
    for (int j = 0; j < length; ++j) {
      const Q* value = reinterpret_cast<const Q*>(s.values + j * s.step);
      const R* x = X + (s.base(j) + static_cast<i64>(s.columns[j * s.step])) * a.x_pitch * WORDS;
      MANSARD_UNROLL
      for (int v = 0; v < VECTORS; ++v) {
        const Sum of_x = v < VECTORS - 1 ? load_part<LANES, LANES>(x + v * LANES) : load_part<LANES, LAST>(x + v * LANES);
        MANSARD_UNROLL
        for (int part = 0; part < PAIRS; ++part) add_product(sums[part][v], static_cast<R>(value[part]), of_x);
      }
    }
    if constexpr (PAIRS == 2) {
      MANSARD_UNROLL
      for (int v = 0; v < VECTORS; ++v) {
        const Sum by_i = turned<R, LANES>(sums[1][v], std::make_integer_sequence<int, LANES>());
        sums[0][v] = P::CONJ ? sums[0][v] - by_i : sums[0][v] + by_i;
      }
    }
    const R* own = X + row * a.x_pitch * WORDS;
    R* y = reinterpret_cast<R*>(a.Y) + row * a.y_pitch * WORDS + first;
    const R* z = reinterpret_cast<const R*>(a.Z) + row * a.z_pitch * WORDS + first;
    MANSARD_UNROLL
    for (int v = 0; v < VECTORS - 1; ++v)
      put<P, LANES, LANES>(a, sums[0][v], own + v * LANES, y + v * LANES, z + v * LANES);
    constexpr int BEFORE = (VECTORS - 1) * LANES;
    put<P, LANES, LAST>(a, sums[0][VECTORS - 1], own + BEFORE, y + BEFORE, z + BEFORE);
  }

  static MANSARD_INLINE void row(const Arguments& a, const Stored<P>& s, int length, i64 to) {
    constexpr int WHOLE = TILE * LANES, TILES = REALS / WHOLE, LEFT = REALS - TILES * WHOLE;
    for (int tile = 0; tile < TILES; ++tile) piece<WHOLE>(a, s, length, to, tile * WHOLE);
    if constexpr (LEFT > 0) piece<LEFT>(a, s, length, to, TILES * WHOLE);
  }

  // Prefetch a C-th of the next chunk: rows read a chunk with strides, which the hardware does not predict.
  static MANSARD_INLINE void fetch_next(const Arguments& a, i64 c, int r) {
    if constexpr (P::PREFETCH > 0 && P::FORMAT == Format::sell) {
      const i64 begin = static_cast<i64>(a.STARTS[c + 1]) * 128;
      const i64 share = round_up((begin - static_cast<i64>(a.STARTS[c]) * 128) / P::C, i64{CACHE_LINE});
      for (i64 at = r * share; at < (r + 1) * share; at += CACHE_LINE) prefetch<P::PREFETCH>(a.MATRIX + begin + at);
    }
  }

  static MANSARD_INLINE void chunk(const Arguments& a, i64 c) {
    const Stored<P> all = chunk_of<P>(a, c);
    for (int r = 0; r < P::C && c * P::C + r < a.ROWS; ++r) {
      const i64 stored = c * P::C + r;
      const int length = P::RAGGED && all.common < all.width ? a.LENGTHS[stored] : all.width;
      fetch_next(a, c, r);
      Stored<P> one = all;
      one.values += r, one.columns += r;
      row(a, one, length, P::PERMUTED ? a.PERMUTATION[stored] : stored);
    }
  }

  // ABREAST rows of one real vector at once: additions of a row depend on each other, those of different rows do not.
  // Pays where rows are SHORT; long rows keep the core busy alone, and four of them are many memory streams.
  static constexpr bool PLAIN = REALS == 1 && PAIRS == 1;
  static constexpr int ABREAST = PLAIN ? 4 : 1, SHORT = 16;
  template <int ABREAST>
  static MANSARD_INLINE void csr_rows(const Arguments& a, i64 r) {
    const V* values[ABREAST];
    decltype(a.COLUMNS) columns[ABREAST];
    int lengths[ABREAST], common = 0;
    R sums[ABREAST] = {};
    MANSARD_UNROLL
    for (int q = 0; q < ABREAST; ++q) {
      const i64 begin = a.STARTS[r + q];
      lengths[q] = static_cast<int>(a.STARTS[r + q + 1] - begin);
      values[q] = a.MATRIX + begin, columns[q] = a.COLUMNS + begin;
      common = q == 0 ? lengths[q] : smaller(common, lengths[q]);
    }
    // two entries at a time, whose columns are one load; X is one vector, so its rows are adjacent
    const auto add = [&](int q, int j, auto count) {
      const Columns<count, StoredColumn<P::INDEX>> of(columns[q] + j);
      MANSARD_UNROLL
      for (int i = 0; i < count; ++i) add_product(sums[q], static_cast<R>(values[q][j + i]), a.X[of.at[i]]);
    };
    constexpr std::integral_constant<int, 1> ONE;
    constexpr std::integral_constant<int, 2> TWO;
    int j = 0;
    for (; j + 1 < common; j += 2)
      MANSARD_UNROLL
      for (int q = 0; q < ABREAST; ++q) add(q, j, TWO);
    MANSARD_UNROLL
    for (int q = 0; q < ABREAST; ++q) {
      int i = j;
      for (; i + 1 < lengths[q]; i += 2) add(q, i, TWO);
      if (i < lengths[q]) add(q, i, ONE);
      const i64 row = r + q;
      put<P, 1, 1>(a, sums[q], a.X + row, a.Y + row, a.Z + row);
    }
  }

  static MANSARD_INLINE void csr_row(const Arguments& a, i64 r) {
    if constexpr (PLAIN) return csr_rows<1>(a, r);
    const i64 begin = a.STARTS[r];
    const int length = static_cast<int>(a.STARTS[r + 1] - begin);
    row(a, {a.MATRIX + begin, a.COLUMNS + begin, nullptr, 1, length, length}, length, r);
  }
};

}  // namespace mansard
