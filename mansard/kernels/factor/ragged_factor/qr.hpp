// A = Q R of one matrix by Householder's reflections, by rows, sizes at run time.
//
// Step k:  H = I - tau v v^H with H^H a_k = beta e_k, v_k = 1, as LAPACK has it;  w = conj(tau) v^H A for the columns
// after k;  a_i -= v_i w, ROWS rows at a time; v stays in column k. Q = H_0 H_1 ... is formed from its end.
//
// Workspace: m rows of A, m rows of Q, w, v, tau.
#pragma once
#include "kernels/factor/ragged_factor/rows.hpp"

namespace mansard {

enum QrWant { QR_RAW, QR_R, QR_REDUCED, QR_COMPLETE };

template <class P>
struct RaggedQr {
  using T = typename P::T;
  using S = RowsOf<T>;
  using R = typename S::R;
  using Entry = typename S::Entry;
  static constexpr int W = S::WORDS;

  i64 m, n, steps, wide, pitch, pitch_q;  // `wide`: columns of Q
  R *data, *orthogonal, *w;
  Entry *v, *tau;

  template <class Arguments>
  RaggedQr(const Arguments& a, const RaggedItem& item, R* workspace)
      : m(item.rows), n(item.columns), steps(smaller(m, n)),
        wide(a.want == QR_REDUCED ? steps : a.want == QR_COMPLETE ? m : 0), pitch(S::pitch(n * W)),
        pitch_q(S::pitch(wide * W)), data(workspace), orthogonal(data + m * pitch), w(orthogonal + m * pitch_q),
        v(reinterpret_cast<Entry*>(w + larger(pitch, pitch_q))), tau(v + m) {
    for (i64 i = 0; i < m; ++i) S::read(row(i), reinterpret_cast<const R*>(a.A + item.a) + i * n * W, n * W);
  }

  MANSARD_INLINE R* row(i64 i) const { return data + i * pitch; }
  MANSARD_INLINE R* row_of_q(i64 i) const { return orthogonal + i * pitch_q; }

  // ---- a reflection -----------------------------------------------------------------------------------------

  // Sum of squares of column k below the diagonal, times scale^2.
  MANSARD_INLINE R squares_below(i64 k, R scale) const {
    R sums[2] = {};
    for (i64 i = k + 1; i < m; ++i) {
      const Entry e = S::at(row(i) + k * W);
      const R re = e.re * scale, im = e.im * scale;
      add_product(sums[i % 2], re, re);
      if constexpr (W == 2) add_product(sums[i % 2], im, im);
    }
    return sums[0] + sums[1];
  }
  R largest_below(i64 k) const {
    R largest = 0;
    for (i64 i = k + 1; i < m; ++i)
      for (int word = 0; word < W; ++word) {
        const R part = std::abs(row(i)[k * W + word]);
        if (!(part <= largest)) largest = part;
      }
    return largest;
  }

  // Form v and tau from column k, and return beta; squares that would overflow or vanish are scaled by a power of two.
  R reflect(i64 k) {
    constexpr R EPS = std::numeric_limits<R>::epsilon(), LEAST = std::numeric_limits<R>::min() / (EPS * EPS);
    Entry alpha = S::at(row(k) + k * W);
    const R square = alpha.re * alpha.re + alpha.im * alpha.im;
    R scale = 1, below = squares_below(k, 1);
    if (!(below > LEAST && below + square < 1 / LEAST)) {
      const R largest = largest_below(k);
      if (largest == 0 && alpha.im == 0) {
        for (i64 i = k; i < m; ++i) v[i] = {0, 0};
        tau[k] = {0, 0};
        return alpha.re;
      }
      scale = S::unit_scale(larger(larger(std::abs(alpha.re), std::abs(alpha.im)), largest));
      below = squares_below(k, scale);
    }
    alpha = {alpha.re * scale, alpha.im * scale};
    const R beta = -std::copysign(std::sqrt(below + alpha.re * alpha.re + alpha.im * alpha.im), alpha.re);
    tau[k] = {(beta - alpha.re) / beta, -alpha.im / beta};
    const Entry factor = S::divide({1, 0}, {alpha.re - beta, alpha.im});
    v[k] = {1, 0};
    for (i64 i = k + 1; i < m; ++i) {
      const Entry e = S::at(row(i) + k * W);
      v[i] = S::times({e.re * scale, e.im * scale}, factor);
    }
    return beta / scale;
  }

  void factor() {
    for (i64 k = 0; k < steps; ++k) {
      const R beta = reflect(k);
      const typename S::Edge edge(k);
      if (tau[k].re == 0 && tau[k].im == 0) continue;  // there is nothing below the diagonal
      S::combine(w, data, pitch, k, m, v, edge.begin, n * W);
      S::scale(w, S::conj(tau[k]), edge.begin, n * W);
      for_rows<P::ROWS>(k, m, [&](i64 i, auto count) __attribute__((always_inline)) {
        constexpr int COUNT = decltype(count)::value;
        R* some[COUNT];
        Entry factors[COUNT], inserted[COUNT];
        MANSARD_UNROLL
        for (int r = 0; r < COUNT; ++r) {
          some[r] = row(i + r), factors[r] = v[i + r];
          inserted[r] = i + r == k ? Entry{beta, 0} : factors[r];
        }
        S::subtract_edge(some, factors, inserted, w, edge);
        S::subtract(some, factors, w, edge.begin + S::LANES, n * W);
      });
    }
  }

  // Q = H_0 H_1 ... applied to the first columns of the unit matrix, from the last reflection on.
  void form_q() {
    for (i64 i = 0; i < m; ++i) {
      S::clear(row_of_q(i), wide * W);
      if (i < wide) S::put(row_of_q(i) + i * W, {1, 0});
    }
    for (i64 k = steps - 1; k >= 0; --k) {
      if (tau[k].re == 0 && tau[k].im == 0) continue;
      v[k] = {1, 0};
      for (i64 i = k + 1; i < m; ++i) v[i] = S::at(row(i) + k * W);
      const i64 begin = k * W / S::LANES * S::LANES;
      S::combine(w, orthogonal, pitch_q, k, m, v, begin, wide * W);
      S::scale(w, tau[k], begin, wide * W);
      for_rows<P::ROWS>(k, m, [&](i64 i, auto count) __attribute__((always_inline)) {
        constexpr int COUNT = decltype(count)::value;
        R* some[COUNT];
        Entry factors[COUNT];
        MANSARD_UNROLL
        for (int r = 0; r < COUNT; ++r) some[r] = row_of_q(i + r), factors[r] = v[i + r];
        S::subtract(some, factors, w, begin, wide * W);
      });
    }
  }

  // R in `rows` rows, with zeros below the diagonal.
  void write_r(R* F, i64 rows) const {
    for (i64 i = 0; i < rows; ++i) {
      for (i64 j = 0; j < smaller(i, n) * W; ++j) F[i * n * W + j] = 0;
      for (i64 j = smaller(i, n); j < n; ++j) S::put(F + (i * n + j) * W, S::at(row(i) + j * W));
    }
  }
};

template <class P, class Arguments>
void ragged_qr(const Arguments& a, const RaggedItem& item, typename RowsOf<typename P::T>::R* workspace) {
  using M = RaggedQr<P>;
  using S = typename M::S;
  using R = typename S::R;
  R* const F = reinterpret_cast<R*>(a.F + item.f);
  M all(a, item, workspace);
  all.factor();
  if (a.want == QR_RAW) {  // transposed, as NumPy has it
    for (i64 i = 0; i < all.m; ++i)
      for (i64 j = 0; j < all.n; ++j) S::put(F + (j * all.m + i) * M::W, S::at(all.row(i) + j * M::W));
    R* const tau = static_cast<R*>(a.NUMBERS) + item.numbers * M::W;
    for (i64 k = 0; k < all.steps; ++k) S::put(tau + k * M::W, all.tau[k]);
    return;
  }
  all.write_r(F, a.want == QR_COMPLETE ? all.m : all.steps);
  if (all.wide > 0) {
    all.form_q();
    R* const Q = reinterpret_cast<R*>(a.X + item.x);
    for (i64 i = 0; i < all.m; ++i) S::write(Q + i * all.wide * M::W, all.row_of_q(i), all.wide * M::W);
  }
}

}  // namespace mansard
