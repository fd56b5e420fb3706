// A = L L^H of one matrix by rows, sizes at run time: the factor (or U = L^H), or solutions of A X = B.
//
// Step k:  l_kk = sqrt(a_kk);  l_ik = a_ik / l_kk and a_ij -= l_ik * conj(l_jk) for k < j <= i, ROWS rows at a time.
// Right-hand sides stand beside A in the same rows, so that the steps solve L Y = B on the way; L^H X = Y follows. A
// matrix that is not positive definite ends at the step that says so, and its result is NaN.
//
// Workspace: n rows (n columns; from `first` on the right-hand sides), column k as a row, the entries of column k,
// roots and their reciprocals.
#pragma once
#include "kernels/factor/ragged_factor/rows.hpp"

namespace mansard {

enum CholeskyWant { CHOLESKY_FACTOR, CHOLESKY_SOLVE };

template <class P>
struct RaggedCholesky {
  using T = typename P::T;
  using S = RowsOf<T>;
  using R = typename S::R;
  using Entry = typename S::Entry;
  static constexpr int W = S::WORDS;

  i64 n, right, first, length, pitch;
  R *data, *column;
  Entry* entries;
  R *roots, *reciprocals;
  int info = 0;

  template <class Arguments>
  RaggedCholesky(const Arguments& a, const RaggedItem& item, R* workspace)
      : n(item.rows), right(a.want == CHOLESKY_SOLVE ? item.right : 0), first(S::padded(n * W)),
        length(first + right * W), pitch(S::pitch(length)), data(workspace), column(data + n * pitch),
        entries(reinterpret_cast<Entry*>(column + first)), roots(reinterpret_cast<R*>(entries + n)),
        reciprocals(roots + n) {
    const R* const A = reinterpret_cast<const R*>(a.A + item.a);
    for (i64 i = 0; i < n; ++i) {
      if (!a.flags) S::read(row(i), A + i * n * W, (i + 1) * W);
      else
        for (i64 j = 0; j <= i; ++j) S::put(row(i) + j * W, S::conj(S::at(A + (j * n + i) * W)));
      if (right > 0) S::read(row(i) + first, reinterpret_cast<const R*>(a.B + item.b) + i * right * W, right * W);
    }
  }

  MANSARD_INLINE R* row(i64 i) const { return data + i * pitch; }

  void factor() {
    for (i64 k = 0; k < n; ++k) {
      const R pivot = row(k)[k * W];
      if (!(pivot > 0)) {
        info = static_cast<int>(k + 1);
        return;
      }
      const R root = std::sqrt(pivot), reciprocal = 1 / root;
      roots[k] = root, reciprocals[k] = reciprocal;
      if (right > 0) S::scale(row(k), {reciprocal, 0}, first, length);
      for (i64 i = k + 1; i < n; ++i) {
        const Entry entry = S::at(row(i) + k * W);
        entries[i] = {entry.re * reciprocal, entry.im * reciprocal};
        S::put(column + i * W, S::conj(entries[i]));
      }
      const typename S::Edge edge(k);
      for_rows<P::ROWS>(k + 1, n, [&](i64 i, auto count) __attribute__((always_inline)) {
        constexpr int COUNT = decltype(count)::value;
        R* some[COUNT];
        Entry factors[COUNT];
        MANSARD_UNROLL
        for (int r = 0; r < COUNT; ++r) some[r] = row(i + r), factors[r] = entries[i + r];
        S::subtract_edge(some, factors, factors, column, edge);
        S::subtract(some, factors, column, edge.begin + S::LANES, (i + COUNT) * W);
        if (right > 0) S::subtract(some, factors, row(k), first, length);
      });
    }
  }

  // L^H X = Y, the last unknown first.
  void substitute() {
    for (i64 k = n - 1; k >= 0; --k) {
      S::scale(row(k), {reciprocals[k], 0}, first, length);
      for_rows<P::ROWS>(0, k, [&](i64 i, auto count) __attribute__((always_inline)) {
        constexpr int COUNT = decltype(count)::value;
        R* some[COUNT];
        Entry factors[COUNT];
        MANSARD_UNROLL
        for (int r = 0; r < COUNT; ++r) some[r] = row(i + r), factors[r] = S::conj(S::at(row(k) + (i + r) * W));
        S::subtract(some, factors, row(k), first, length);
      });
    }
  }

  // The factor with zeros on the other side of its diagonal; `upper`: its conjugate transpose.
  void write(R* F, bool upper) const {
    for (i64 i = 0; i < n; ++i) {
      S::put(row(i) + i * W, {roots[i], 0});
      if (!upper) {
        S::write(F + i * n * W, row(i), (i + 1) * W);
        for (i64 j = (i + 1) * W; j < n * W; ++j) F[i * n * W + j] = 0;
      } else {
        for (i64 j = 0; j < i; ++j) {
          S::put(F + (i * n + j) * W, {0, 0});
          S::put(F + (j * n + i) * W, S::conj(S::at(row(i) + j * W)));
        }
        S::put(F + (i * n + i) * W, {roots[i], 0});
      }
    }
  }
};

template <class P, class Arguments>
void ragged_cholesky(const Arguments& a, const RaggedItem& item, typename RowsOf<typename P::T>::R* workspace) {
  using M = RaggedCholesky<P>;
  using S = typename M::S;
  using R = typename S::R;
  const bool solves = a.want == CHOLESKY_SOLVE;
  R* const result = reinterpret_cast<R*>(solves ? a.X + item.x : a.F + item.f);
  M all(a, item, workspace);
  all.factor();
  a.INFO[item.index] = all.info;
  if (all.info != 0) {
    const i64 reals = all.n * (solves ? all.right : all.n) * M::W;
    for (i64 j = 0; j < reals; ++j) result[j] = std::numeric_limits<R>::quiet_NaN();
  } else if (!solves) {
    all.write(result, a.flags != 0);
  } else {
    all.substitute();
    for (i64 i = 0; i < all.n; ++i) S::write(result + i * all.right * M::W, all.row(i) + all.first, all.right * M::W);
  }
}

}  // namespace mansard
