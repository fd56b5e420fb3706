// Sparse product with one real vector on CPUs: lanes are rows of a chunk; each adds its entries from first to last.
#pragma once
#include "kernels/sparse/spmv/stored.hpp"

namespace mansard {

// Gather written as one initialiser list: lane by lane, each address would take an addition.
template <class R, int LANES, class Column, int... L>
MANSARD_INLINE Vector<R, LANES> each_at(const R* x, const Columns<LANES, Column>& columns,
                                        std::integer_sequence<int, L...>) {
  const Vector<R, LANES> v = {x[columns.at[L]]...};
  return v;
}

// Gather: lane l gets x[at[l]], by the instruction of that name if BY_INSTRUCTION, or by a load for each lane.
template <class R, int LANES, bool BY_INSTRUCTION, class Column>
MANSARD_INLINE Vector<R, LANES> gather_at(const R* x, const Column* at) {
#if defined(__AVX2__)
  constexpr bool SHORT = sizeof(Column) == 2;
  if constexpr (BY_INSTRUCTION && sizeof(Column) <= 4 && LANES * sizeof(R) >= 32) {
    Vector<int, LANES> wide;
    if constexpr (SHORT) wide = __builtin_convertvector(load<LANES>(at), Vector<int, LANES>);
    else wide = load<LANES>(at);
#if defined(__AVX512F__)
    if constexpr (sizeof(R) == 8 && LANES == 8) return _mm512_i32gather_pd(reinterpret_cast<__m256i>(wide), x, 8);
    if constexpr (sizeof(R) == 4 && LANES == 16) return _mm512_i32gather_ps(reinterpret_cast<__m512i>(wide), x, 4);
#endif
    if constexpr (sizeof(R) == 8 && LANES == 4) return _mm256_i32gather_pd(x, reinterpret_cast<__m128i>(wide), 8);
    if constexpr (sizeof(R) == 4 && LANES == 8) return _mm256_i32gather_ps(x, reinterpret_cast<__m256i>(wide), 4);
  }
#endif
  return each_at<R, LANES>(x, Columns<LANES, Column>(at), std::make_integer_sequence<int, LANES>());
}

template <class P, class Arguments>
struct Across {
  using R = typename P::T;
  using V = typename P::V;
  static constexpr int LANES = P::LANES, C = P::C, VECTORS = C / LANES;
  using Sum = Vector<R, LANES>;
  using Length = Vector<IndexOf<R>, LANES>;
  static_assert(C % LANES == 0, "lanes are rows of a chunk");

  static MANSARD_INLINE Sum values_at(const V* p) {
    if constexpr (std::is_same_v<V, R>) return load<LANES>(p);
    else return __builtin_convertvector(load<LANES>(p), Sum);
  }
  // Prefetch as many bytes as entries j of a chunk have, AHEAD bytes behind them. Values and columns of a SELL chunk
  // are adjacent, chunk after chunk, so that prefetches go through memory in order: two separate streams lose a tenth
  // (Neoverse N1). One prefetch per cache line, since each costs as much as a load.
  static MANSARD_INLINE void fetch(const Stored<P>& s, int j) {
    if constexpr (P::PREFETCH > 0 && P::FORMAT == Format::sell) {
      constexpr int BYTES = C * int(sizeof(V) + sizeof(typename Stored<P>::Column));
      const char* from = reinterpret_cast<const char*>(s.values) + P::AHEAD + i64{j} * BYTES;
      MANSARD_UNROLL
      for (int at = 0; at < BYTES; at += CACHE_LINE) prefetch<P::PREFETCH>(from + at);
    } else if constexpr (P::PREFETCH > 0) {
      fetch_line(s.values + j * s.step);
      fetch_line(s.columns + j * s.step);
    }
  }
  template <class E>
  static MANSARD_INLINE void fetch_line(const E* line) {
    MANSARD_UNROLL
    for (int at = 0; at < C * int(sizeof(E)); at += CACHE_LINE)
      prefetch<P::PREFETCH>(reinterpret_cast<const char*>(line) + P::AHEAD + at);
  }

  // Prefetch the lengths of a later chunk: they are read only where rows differ, which the hardware cannot predict.
  static MANSARD_INLINE void fetch_lengths(const Arguments& a, i64 c) {
    if constexpr (P::PREFETCH > 0 && P::RAGGED && P::FORMAT == Format::sell) {
      const i64 next = smaller(c + 4, (a.ROWS - 1) / C);
      prefetch<P::PREFETCH>(a.COMMON[next] < a.WIDTHS[next] ? a.LENGTHS + next * C : a.WIDTHS + next);
    }
  }

  static MANSARD_INLINE void chunk(const Arguments& a, i64 c) {
    const Stored<P> s = chunk_of<P>(a, c);
    const i64 first = c * C;
    const int rows = static_cast<int>(smaller<i64>(C, a.ROWS - first));
    Sum sums[VECTORS] = {};
    fetch_lengths(a, c);
    const bool few = s.common < s.width && rows == C && short_rows(a, s, first) <= FEW;
    const int together = few ? s.width : s.common;
    for (int j = 0; j < together; ++j) {
      const R* x = a.X + s.base(j);
      fetch(s, j);
      MANSARD_UNROLL
      for (int v = 0; v < VECTORS; ++v)
        add_product(sums[v], values_at(s.values + j * s.step + v * LANES),
                    gather_at<R, LANES, P::VGATHER>(x, s.columns + j * s.step + v * LANES));
    }
    if (few) again(a, s, first, sums);
    else if (s.common < s.width) rest(a, s, first, rows, sums);
    if (rows == C && !P::PERMUTED) {
      MANSARD_UNROLL
      for (int v = 0; v < VECTORS; ++v) {
        const i64 row = first + v * LANES;
        put<P, LANES, LANES>(a, sums[v], a.X + row, a.Y + row, a.Z + row);
      }
    } else {
      R all[C];
      MANSARD_UNROLL
      for (int v = 0; v < VECTORS; ++v) store<LANES>(all + v * LANES, sums[v]);
      for (int r = 0; r < rows; ++r) {
        const i64 row = P::PERMUTED ? a.PERMUTATION[first + r] : first + r;
        put<P, 1, 1>(a, all[r], a.X + row, a.Y + row, a.Z + row);
      }
    }
  }

  // Up to FEW rows that are shorter than the others, as at the faces of a grid: they are summed with the others beyond
  // their ends, and then again alone, which is cheaper than masks.
  static constexpr int FEW = C / 8;
  static MANSARD_INLINE int short_rows(const Arguments& a, const Stored<P>& s, i64 first) {
    int count = 0;
    for (int r = 0; r < C; ++r) count += a.LENGTHS[first + r] < s.width;
    return count;
  }
  static MANSARD_INLINE void again(const Arguments& a, const Stored<P>& s, i64 first, Sum (&sums)[VECTORS]) {
    R all[C];
    MANSARD_UNROLL
    for (int v = 0; v < VECTORS; ++v) store<LANES>(all + v * LANES, sums[v]);
    for (int r = 0; r < C; ++r) {
      const int length = a.LENGTHS[first + r];
      if (length == s.width) continue;
      R sum = 0;
      for (int j = 0; j < length; ++j)
        add_product(sum, static_cast<R>(s.values[j * s.step + r]),
                    a.X[s.base(j) + static_cast<i64>(s.columns[j * s.step + r])]);
      all[r] = sum;
    }
    MANSARD_UNROLL
    for (int v = 0; v < VECTORS; ++v) sums[v] = load<LANES>(all + v * LANES);
  }

  // Entries that some rows do not have, for TOGETHER vectors of rows at a time: most groups have them all.
  static constexpr int TOGETHER = smaller(VECTORS, 4);
  static MANSARD_INLINE void rest(const Arguments& a, const Stored<P>& s, i64 first, int rows, Sum (&sums)[VECTORS]) {
    static_assert(VECTORS % TOGETHER == 0, "whole groups of vectors");
    IndexOf<R> lengths[C] = {};
    for (int r = 0; r < rows; ++r) lengths[r] = a.LENGTHS[first + r];
    MANSARD_UNROLL
    for (int v = 0; v < VECTORS; v += TOGETHER) {
      IndexOf<R> least = lengths[v * LANES], most = least;
      for (int r = v * LANES + 1; r < (v + TOGETHER) * LANES; ++r)
        least = smaller(least, lengths[r]), most = larger(most, lengths[r]);
      const auto next = [&](int j, int u) {
        const i64 at = j * s.step + u * LANES;
        return plus_product(sums[u], values_at(s.values + at), gather_at<R, LANES, P::VGATHER>(a.X + s.base(j), s.columns + at));
      };
      for (int j = s.common; j < least; ++j) {
        if (j % (VECTORS / TOGETHER) == v / TOGETHER) fetch(s, j);
        MANSARD_UNROLL
        for (int u = v; u < v + TOGETHER; ++u) sums[u] = next(j, u);
      }
      for (int j = static_cast<int>(larger<i64>(s.common, least)); j < most; ++j)
        MANSARD_UNROLL
        for (int u = v; u < v + TOGETHER; ++u)  // padding is multiplied, but not added
          sums[u] = load<LANES>(lengths + u * LANES) > j ? next(j, u) : sums[u];
    }
  }
};

}  // namespace mansard
