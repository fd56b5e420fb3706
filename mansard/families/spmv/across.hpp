// One real vector: lanes across the rows of a chunk, each with a sum of its own, which takes entries from first to last.
#pragma once
#include "families/spmv/stored.hpp"

namespace mansard {

// Lane l from x[at[l]].
template <class R, int LANES, class Column>
MANSARD_INLINE Vector<R, LANES> gather_at(const R* x, const Column* at) {
#if defined(__AVX2__)
  constexpr bool SHORT = sizeof(Column) == 2;
  if constexpr (sizeof(Column) <= 4 && LANES * sizeof(R) >= 32) {
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
  Vector<R, LANES> v{};
  MANSARD_UNROLL
  for (int lane = 0; lane < LANES; ++lane) v[lane] = x[at[lane]];
  return v;
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
  // Vector v of a line of the chunk; one request per line of the cache, since each costs as much as a load.
  template <class E>
  static MANSARD_INLINE void fetch(const E* line, int v) {
    if constexpr (P::PREFETCH > 0)
      if (v * LANES * int(sizeof(E)) % CACHE_LINE < LANES * int(sizeof(E)))
        prefetch<P::PREFETCH>(reinterpret_cast<const char*>(line + v * LANES) + P::AHEAD);
  }

  static MANSARD_INLINE void chunk(const Arguments& a, i64 c) {
    const Stored<P> s = chunk_of<P>(a, c);
    const i64 first = c * C;
    const int rows = static_cast<int>(smaller<i64>(C, a.ROWS - first));
    Sum sums[VECTORS] = {};
    for (int j = 0; j < s.common; ++j) {
      const R* x = a.X + s.base(j);
      MANSARD_UNROLL
      for (int v = 0; v < VECTORS; ++v) {
        fetch(s.values + j * s.step, v);
        fetch(s.columns + j * s.step, v);
        sums[v] += values_at(s.values + j * s.step + v * LANES) *
                   gather_at<R, LANES>(x, s.columns + j * s.step + v * LANES);
      }
    }
    if (s.common < s.width) rest(a, s, first, rows, sums);
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

  // Entries that some rows lack, TOGETHER vectors of rows at a time: most have them all up to the width.
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
        return sums[u] + values_at(s.values + at) * gather_at<R, LANES>(a.X + s.base(j), s.columns + at);
      };
      for (int j = s.common; j < least; ++j)
        MANSARD_UNROLL
        for (int u = v; u < v + TOGETHER; ++u) sums[u] = next(j, u);
      for (int j = static_cast<int>(larger<i64>(s.common, least)); j < most; ++j)
        MANSARD_UNROLL
        for (int u = v; u < v + TOGETHER; ++u)  // what is not there is multiplied, but not added
          sums[u] = load<LANES>(lengths + u * LANES) > j ? next(j, u) : sums[u];
    }
  }
};

}  // namespace mansard
