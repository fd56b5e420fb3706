// op(A) X = alpha B of one triangular matrix by rows, sizes at run time; one such solve or two in turn (L, then L^H or
// U), with exchanges of rows before or after them: `trsm`, and solves with factors that are there already.
//
// Step k, in the order in which unknowns become known:  x_k /= a_kk;  x_i -= a_ik x_k for the others, ROWS rows at a
// time. X op(A) = alpha B is solved as its transpose. A is read where it is, and only the triangle that is named.
//
// Workspace: n rows of X (right-hand sides), row pointers.
#pragma once
#include "kernels/factor/ragged_factor/rows.hpp"

namespace mansard {

// Bits of `flags`: of a pass, the second one's eight bits higher; and of both.
enum TriangleFlag {
  UPPER = 1, TRANSPOSED = 2, CONJUGATED = 4, UNIT = 8, PRESENT = 16,
  FROM_RIGHT = 1 << 16, EXCHANGED_FIRST = 1 << 17, EXCHANGED_LAST = 1 << 18
};

template <class P>
struct RaggedTriangle {
  using T = typename P::T;
  using S = RowsOf<T>;
  using R = typename S::R;
  using Entry = typename S::Entry;
  static constexpr int W = S::WORDS;

  i64 n, right;
  R** rows;
  const R* A;

  template <class Arguments>
  RaggedTriangle(const Arguments& a, const RaggedItem& item, R* workspace)
      : n(item.rows), right(item.right), A(reinterpret_cast<const R*>(a.A + item.a)) {
    const i64 pitch = S::pitch(right * W);
    rows = reinterpret_cast<R**>(workspace + n * pitch);
    const R* const B = reinterpret_cast<const R*>(a.B + item.b);
    const Entry alpha{static_cast<R>(a.alpha_re), static_cast<R>(a.alpha_im)};
    for (i64 i = 0; i < n; ++i) {
      R* const row = rows[i] = workspace + i * pitch;
      if (!(a.flags & FROM_RIGHT)) S::read(row, B + i * right * W, right * W);
      else {
        store<S::LANES>(row + (right * W - 1) / S::LANES * S::LANES, typename S::V{});
        for (i64 c = 0; c < right; ++c) S::put(row + c * W, S::at(B + (c * n + i) * W));
      }
      if (alpha.re == 0 && alpha.im == 0) S::clear(row, right * W);
      else if (alpha.re != 1 || alpha.im != 0) S::scale(row, alpha, 0, right * W);
    }
  }

  void solve(i64 flags) {
    const bool transposed = flags & TRANSPOSED, forward = bool(flags & UPPER) == transposed;
    const i64 row_step = (transposed ? 1 : n) * W, column_step = (transposed ? n : 1) * W;
    const auto entry = [&](i64 i, i64 k) __attribute__((always_inline)) {
      Entry e = S::at(A + i * row_step + k * column_step);
      if (flags & CONJUGATED) e = S::conj(e);
      return e;
    };
    for (i64 step = 0; step < n; ++step) {
      const i64 k = forward ? step : n - 1 - step;
      if (!(flags & UNIT)) S::divide(rows[k], entry(k, k), 0, right * W);
      for_rows<P::ROWS>(forward ? k + 1 : 0, forward ? n : k, [&](i64 i, auto count) __attribute__((always_inline)) {
        constexpr int COUNT = decltype(count)::value;
        R* some[COUNT];
        Entry factors[COUNT];
        MANSARD_UNROLL
        for (int r = 0; r < COUNT; ++r) some[r] = rows[i + r], factors[r] = entry(i + r, k);
        S::subtract(some, factors, rows[k], 0, right * W);
      });
    }
  }

  MANSARD_INLINE void exchange(i64 i, i64 other) {
    R* const held = rows[i];
    rows[i] = rows[other], rows[other] = held;
  }
};

template <class P, class Arguments>
void ragged_triangle(const Arguments& a, const RaggedItem& item, typename RowsOf<typename P::T>::R* workspace) {
  using M = RaggedTriangle<P>;
  using S = typename M::S;
  using R = typename S::R;
  M all(a, item, workspace);
  const int* const pivots = static_cast<const int*>(a.NUMBERS) + item.numbers;
  if (a.alpha_re != 0 || a.alpha_im != 0) {
    if (a.flags & EXCHANGED_FIRST)
      for (i64 i = 0; i < all.n; ++i) all.exchange(i, pivots[i]);
    all.solve(a.flags & 255);
    if (a.flags >> 8 & PRESENT) all.solve(a.flags >> 8 & 255);
    if (a.flags & EXCHANGED_LAST)
      for (i64 i = all.n - 1; i >= 0; --i) all.exchange(i, pivots[i]);
  }
  R* const X = reinterpret_cast<R*>(a.X + item.x);
  for (i64 i = 0; i < all.n; ++i) {
    if (!(a.flags & FROM_RIGHT)) S::write(X + i * all.right * M::W, all.rows[i], all.right * M::W);
    else
      for (i64 c = 0; c < all.right; ++c) S::put(X + (c * all.n + i) * M::W, S::at(all.rows[i] + c * M::W));
  }
}

}  // namespace mansard
