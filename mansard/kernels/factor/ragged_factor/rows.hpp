// Rows of one matrix in a thread's workspace, for kernels whose sizes are known at run time.
//
// A row is padded to whole vectors, so that an update y -= f x of rows y by a row x has no remainder. Where an update
// begins in the middle of a vector (`Edge`), lanes before its first column are blended in again. Complex entries are
// two reals, side by side.
#pragma once
#include "kernels/batched/ragged_gemm/kernel.hpp"
#include <cmath>
#include <limits>

namespace mansard {

// One matrix of a ragged batch; the host makes the table (operations/factor/ragged_rows.py).
struct RaggedItem {
  i64 rows, columns, right;  // of A, and right-hand sides
  i64 index;                 // of the matrix in the batch: where its info and determinant go
  i64 numbers;               // where its pivots or tau begin
  i64 a, b, f, x;            // where its matrices begin, in elements
};

// Calls visit(i, Int<count>()) for groups of COUNT rows of [begin, end), then for single ones.
template <int COUNT, class Visit>
MANSARD_INLINE void for_rows(i64 begin, i64 end, Visit visit) {
  for (; begin + COUNT <= end; begin += COUNT) visit(begin, Int<COUNT>());
  if constexpr (COUNT > 1)
    for (; begin < end; ++begin) visit(begin, Int<1>());
}

template <class T>
struct RowsOf {
  using R = typename Scalar<T>::Real;
  static constexpr int WORDS = Scalar<T>::WORDS, LANES = native_lanes<R>;
  using V = Vector<R, LANES>;
  using Lane = std::conditional_t<sizeof(R) == 8, i64, int>;
  using Lanes = Vector<Lane, LANES>;

  // ---- entries ----------------------------------------------------------------------------------------------

  struct Entry {
    R re, im;  // im is zero, and not used, of real numbers
  };
  static constexpr R LEAST = 4 * std::numeric_limits<R>::min();  // its reciprocal does not overflow

  static MANSARD_INLINE Entry at(const R* p) {
    if constexpr (WORDS == 2) return {p[0], p[1]};
    else return {p[0], R(0)};
  }
  static MANSARD_INLINE void put(R* p, Entry e) {
    p[0] = e.re;
    if constexpr (WORDS == 2) p[1] = e.im;
  }
  static MANSARD_INLINE Entry conj(Entry e) { return {e.re, -e.im}; }
  static MANSARD_INLINE R size(Entry e) { return WORDS == 2 ? std::abs(e.re) + std::abs(e.im) : std::abs(e.re); }
  static MANSARD_INLINE Entry times(Entry a, Entry b) {
    if constexpr (WORDS == 1) return {a.re * b.re, 0};
    else return {minus_product(a.re * b.re, a.im, b.im), plus_product(a.re * b.im, a.im, b.re)};
  }
  static MANSARD_INLINE Entry minus_times(Entry c, Entry a, Entry b) {
    subtract_product(c.re, a.re, b.re);
    if constexpr (WORDS == 2) {
      add_product(c.re, a.im, b.im);
      subtract_product(c.im, a.re, b.im), subtract_product(c.im, a.im, b.re);
    }
    return c;
  }
  // a / b. Complex: the divisor is scaled to about one by a power of two, then Smith's method divides by its larger
  // part, so that nothing overflows unless the quotient does.
  static Entry divide(Entry a, Entry b) {
    if constexpr (WORDS == 1) return {a.re / b.re, 0};
    else {
      const R scale = unit_scale(larger(std::abs(b.re), std::abs(b.im)));
      a = {a.re * scale, a.im * scale}, b = {b.re * scale, b.im * scale};
      if (std::abs(b.re) < std::abs(b.im)) a = {a.im, -a.re}, b = {b.im, -b.re};
      const R ratio = b.im / b.re, below = plus_product(b.re, b.im, ratio);
      return {plus_product(a.re, a.im, ratio) / below, minus_product(a.im, a.re, ratio) / below};
    }
  }
  // A power of two that scales x to about one; 1 for zero, infinities and NaN.
  static R unit_scale(R x) {
    int exponent = 0;
    if (!(x > 0 && x <= std::numeric_limits<R>::max())) return 1;
    std::frexp(x, &exponent);
    return std::ldexp(R(1), smaller(-exponent, std::numeric_limits<R>::max_exponent - 1));
  }

  // ---- vectors ----------------------------------------------------------------------------------------------

  static MANSARD_INLINE i64 padded(i64 reals) { return round_up<i64>(reals, LANES); }
  // Reals from one row to the next: a line more where rows would share few sets of the cache.
  static MANSARD_INLINE i64 pitch(i64 reals) {
    const i64 whole = padded(reals);
    return whole * i64(sizeof(R)) % 512 == 0 ? whole + CACHE_LINE / i64(sizeof(R)) : whole;
  }

  // Copy `reals` reals to the workspace; the last vector ends in zeros.
  static MANSARD_INLINE void read(R* to, const R* from, i64 reals) {
    i64 j = 0;
    for (; j + LANES <= reals; j += LANES) store<LANES>(to + j, load<LANES>(from + j));
    if (j < reals) store<LANES>(to + j, FirstLanes<R>(static_cast<int>(reals - j)).load(from + j));
  }
  static MANSARD_INLINE void write(R* to, const R* from, i64 reals) {
    i64 j = 0;
    for (; j + LANES <= reals; j += LANES) store<LANES>(to + j, load<LANES>(from + j));
    if (j < reals) FirstLanes<R>(static_cast<int>(reals - j)).store(to + j, load<LANES>(from + j));
  }
  static MANSARD_INLINE void clear(R* to, i64 reals) {
    for (i64 j = 0; j < reals; j += LANES) store<LANES>(to + j, V{});
  }
  static MANSARD_INLINE V same(Entry e) {
    if constexpr (WORDS == 2) return alternating<R, LANES>(e.re, e.im);
    else return as_vector<R, LANES>(e.re);
  }
  static MANSARD_INLINE V turned(V v) {
    if constexpr (WORDS == 2) return times_i<R, LANES>(v);
    else return v;
  }
  static MANSARD_INLINE V minus_times(V y, Entry f, V x, V ix) {
    subtract_product(y, f.re, x);
    if constexpr (WORDS == 2) subtract_product(y, f.im, ix);
    return y;
  }

  // The vector that holds column k: lanes of column k (`here`) and of those after it (`after`).
  struct Edge {
    i64 begin;
    Lanes here, after;
    MANSARD_INLINE explicit Edge(i64 k) : begin(k * WORDS / LANES * LANES) {
      Lanes lanes{};
      MANSARD_UNROLL
      for (int lane = 0; lane < LANES; ++lane) lanes[lane] = lane;
      const Lane first = static_cast<Lane>(k * WORDS - begin);
      after = lanes >= first + WORDS;
      here = (lanes >= first) & ~after;
    }
  };

  // rows[r] -= factors[r] * x from column k + 1 to the end of its vector; inserted[r] goes to column k.
  template <int COUNT>
  static MANSARD_INLINE void subtract_edge(R* const (&rows)[COUNT], const Entry (&factors)[COUNT],
                                           const Entry (&inserted)[COUNT], const R* x, const Edge& edge) {
    const V v = load<LANES>(x + edge.begin), iv = turned(v);
    MANSARD_UNROLL
    for (int r = 0; r < COUNT; ++r) {
      const V old = load<LANES>(rows[r] + edge.begin), updated = minus_times(old, factors[r], v, iv);
      const V kept = edge.after ? updated : old;
      store<LANES>(rows[r] + edge.begin, edge.here ? same(inserted[r]) : kept);
    }
  }
  // rows[r] -= factors[r] * x in the vectors of [begin, end).
  template <int COUNT>
  static MANSARD_INLINE void subtract(R* const (&rows)[COUNT], const Entry (&factors)[COUNT], const R* x, i64 begin,
                                      i64 end) {
    for (i64 j = begin; j < end; j += LANES) {
      const V v = in_register(load<LANES>(x + j)), iv = turned(v);
      MANSARD_UNROLL
      for (int r = 0; r < COUNT; ++r)
        store<LANES>(rows[r] + j, minus_times(load<LANES>(rows[r] + j), factors[r], v, iv));
    }
  }
  // x *= factor in the vectors of [begin, end).
  static MANSARD_INLINE void scale(R* x, Entry factor, i64 begin, i64 end) {
    for (i64 j = begin; j < end; j += LANES)
      store<LANES>(x + j, scaled<WORDS, LANES>(factor.re, factor.im, load<LANES>(x + j)));
  }
  // x /= divisor in the vectors of [begin, end).
  static MANSARD_INLINE void divide(R* x, Entry divisor, i64 begin, i64 end) {
    if constexpr (WORDS == 1) {
      for (i64 j = begin; j < end; j += LANES) store<LANES>(x + j, load<LANES>(x + j) / divisor.re);
    } else {
      const R unit = unit_scale(larger(std::abs(divisor.re), std::abs(divisor.im)));
      R re = divisor.re * unit, im = divisor.im * unit;
      const bool turn = std::abs(re) < std::abs(im);
      if (turn) {
        const R part = im;
        im = -re, re = part;
      }
      const R ratio = im / re, below = plus_product(re, im, ratio);
      for (i64 j = begin; j < end; j += LANES) {
        V v = load<LANES>(x + j) * unit;
        if (turn) v = -turned(v);
        store<LANES>(x + j, minus_product(v, ratio, turned(v)) / below);
      }
    }
  }

  // w = the sum of conj(v[i]) * row i for rows [top, bottom), in VECTORS vectors from j on.
  template <int VECTORS>
  static MANSARD_INLINE void combine(R* w, const R* rows, i64 pitch, i64 top, i64 bottom, const Entry* v, i64 j) {
    V sums[VECTORS][WORDS] = {};
    for (i64 i = top; i < bottom; ++i) {
      const R* const row = rows + i * pitch + j;
      MANSARD_UNROLL
      for (int n = 0; n < VECTORS; ++n) {
        const V x = load<LANES>(row + n * LANES);
        add_product(sums[n][0], v[i].re, x);
        if constexpr (WORDS == 2) add_product(sums[n][1], v[i].im, x);
      }
    }
    MANSARD_UNROLL
    for (int n = 0; n < VECTORS; ++n) {
      V sum = sums[n][0];
      if constexpr (WORDS == 2) sum -= turned(sums[n][1]);
      store<LANES>(w + j + n * LANES, sum);
    }
  }
  static MANSARD_INLINE void combine(R* w, const R* rows, i64 pitch, i64 top, i64 bottom, const Entry* v, i64 begin,
                                     i64 end) {
    constexpr int MANY = 4 / WORDS;
    i64 j = begin;
    for (; j + MANY * LANES <= end; j += MANY * LANES) combine<MANY>(w, rows, pitch, top, bottom, v, j);
    for (; j < end; j += LANES) combine<1>(w, rows, pitch, top, bottom, v, j);
  }
};

}  // namespace mansard
