// P A = L U of one matrix by rows, sizes at run time: factors, solutions, the inverse, or the determinant.
//
// Step k:  p = argmax |a_ik| for i >= k;  exchange the pointers of rows k and p;  l_ik = a_ik / a_kk for i > k;
// a_ij -= l_ik * a_kj for i, j > k, ROWS rows at a time. Right-hand sides (the unit matrix for inverses) stand beside A
// in the same rows, so that the steps solve L Y = P B on the way; U X = Y follows.
//
// Workspace: m rows (n columns; from `first` on the right-hand sides), reciprocals of pivots, row pointers, pivots.
#pragma once
#include "kernels/factor/ragged_factor/rows.hpp"

namespace mansard {

enum LuWant { LU_FACTOR, LU_SOLVE, LU_INVERSE, LU_DETERMINANT, LU_LOGDET };

template <class P>
struct RaggedLu {
  using T = typename P::T;
  using S = RowsOf<T>;
  using R = typename S::R;
  using Entry = typename S::Entry;
  static constexpr int W = S::WORDS;

  i64 m, n, steps, right, first, length;
  Entry* reciprocals;
  R** rows;
  int* pivots;
  int info = 0;
  bool extreme = false;  // the reciprocal of a pivot was not an ordinary number

  template <class Arguments>
  RaggedLu(const Arguments& a, const RaggedItem& item, R* workspace)
      : m(item.rows), n(item.columns), steps(smaller(m, n)),
        right(a.want == LU_SOLVE ? item.right : a.want == LU_INVERSE ? n : 0) {
    first = right == 1 ? n * W : S::padded(n * W);  // a single column fills the last vector
    length = first + right * W;
    const i64 pitch = S::pitch(length);
    reciprocals = reinterpret_cast<Entry*>(workspace + m * pitch);
    rows = reinterpret_cast<R**>(reciprocals + steps);
    pivots = reinterpret_cast<int*>(rows + m);
    const R* const A = reinterpret_cast<const R*>(a.A + item.a);
    const R* const B = a.want == LU_SOLVE ? reinterpret_cast<const R*>(a.B + item.b) : nullptr;
    for (i64 i = 0; i < m; ++i) {
      R* const row = rows[i] = workspace + i * pitch;
      S::read(row, A + i * n * W, n * W);
      if (a.want == LU_INVERSE) {
        if (right > 1) S::clear(row + first, S::padded(right * W));
        S::put(row + first + i * W, {1, 0});
      } else if (right == 1) {
        S::put(row + first, S::at(B + i * W));
      } else if (right > 1) {
        S::read(row + first, B + i * right * W, right * W);
      }
    }
  }

  // ---- elimination ------------------------------------------------------------------------------------------

  // The first row from k on with the largest entry in column k; a NaN counts only if it comes first.
  MANSARD_INLINE i64 largest(i64 k) const {
    R best = S::size(S::at(rows[k] + k * W));
    i64 place = k;
    for (i64 i = k + 1; i < m; ++i) {
      const R size = S::size(S::at(rows[i] + k * W));
      const bool better = size > best;
      best = better ? size : best, place = better ? i : place;
    }
    return place;
  }

  void eliminate(bool exchanges) {
    for (i64 k = 0; k < steps; ++k) {
      const i64 place = exchanges ? largest(k) : k;
      R* const top = rows[place];
      rows[place] = rows[k], rows[k] = top, pivots[k] = static_cast<int>(place);
      const Entry pivot = S::at(top + k * W);
      const R size = S::size(pivot);
      const bool ordinary = size >= S::LEAST && size <= 1 / S::LEAST;
      Entry reciprocal{1, 0};
      if (ordinary) reciprocal = S::divide({1, 0}, pivot);
      else {
        extreme = true;
        if (size == 0 && info == 0) info = static_cast<int>(k + 1);
      }
      reciprocals[k] = reciprocal;
      const typename S::Edge edge(k);
      for_rows<P::ROWS>(k + 1, m, [&](i64 i, auto count) __attribute__((always_inline)) {
        constexpr int COUNT = decltype(count)::value;
        R* some[COUNT];
        Entry factors[COUNT];
        MANSARD_UNROLL
        for (int r = 0; r < COUNT; ++r) {
          some[r] = rows[i + r];
          const Entry entry = S::at(some[r] + k * W);
          if (__builtin_expect(ordinary, true)) factors[r] = S::times(entry, reciprocal);
          else factors[r] = size == 0 ? entry : S::divide(entry, pivot);
        }
        S::subtract_edge(some, factors, factors, top, edge);
        S::subtract(some, factors, top, edge.begin + S::LANES, length);
      });
    }
  }

  // ---- right-hand sides -------------------------------------------------------------------------------------

  // U X = Y, the last unknown first; X replaces Y from `first` on.
  void substitute() {
    for (i64 k = n - 1; k >= 0; --k) {
      const Entry pivot = S::at(rows[k] + k * W);
      if (right == 1) {
        const Entry y = S::at(rows[k] + first);
        const Entry x = extreme ? S::divide(y, pivot) : S::times(y, reciprocals[k]);
        S::put(rows[k] + first, x);
        for (i64 i = 0; i < k; ++i)
          S::put(rows[i] + first, S::minus_times(S::at(rows[i] + first), S::at(rows[i] + k * W), x));
        continue;
      }
      if (extreme) S::divide(rows[k], pivot, first, length);
      else S::scale(rows[k], reciprocals[k], first, length);
      for_rows<P::ROWS>(0, k, [&](i64 i, auto count) __attribute__((always_inline)) {
        constexpr int COUNT = decltype(count)::value;
        R* some[COUNT];
        Entry factors[COUNT];
        MANSARD_UNROLL
        for (int r = 0; r < COUNT; ++r) some[r] = rows[i + r], factors[r] = S::at(some[r] + k * W);
        S::subtract(some, factors, rows[k], first, length);
      });
    }
  }

  // ---- results ----------------------------------------------------------------------------------------------

  void write(R* to, i64 from, i64 columns) const {
    for (i64 i = 0; i < m; ++i)
      if (columns == 1) S::put(to + i * W, S::at(rows[i] + from));
      else S::write(to + i * columns * W, rows[i] + from, columns * W);
  }

  // The product of the pivots.
  Entry determinant() const {
    Entry product{1, 0};
    for (i64 k = 0; k < n; ++k) {
      product = S::times(product, S::at(rows[k] + k * W));
      if (pivots[k] != k) product = {-product.re, -product.im};
    }
    return product;
  }
  // The phase of the product of the pivots, and (`logarithm`) that of its size, from mantissas and exponents.
  Entry phase(R& logarithm) const {
    constexpr double LOG_2 = 0.693147180559945309417232121458;
    if (info != 0) {
      logarithm = -std::numeric_limits<R>::infinity();
      return {0, 0};
    }
    double re = 1, im = 0, size = 1, exponents = 0;
    for (i64 k = 0; k < n; ++k) {
      const Entry pivot = S::at(rows[k] + k * W);
      const double unit = S::unit_scale(larger(std::abs(pivot.re), std::abs(pivot.im)));
      double a = pivot.re * unit, b = pivot.im * unit;
      const double magnitude = W == 2 ? std::sqrt(a * a + b * b) : std::abs(a);
      a /= magnitude, b /= magnitude;
      if (pivots[k] != k) a = -a, b = -b;
      const double real = re * a - im * b;
      im = re * b + im * a, re = real;
      int exponent = 0, scale = 0;
      std::frexp(unit, &scale);
      size = std::frexp(size * magnitude, &exponent);
      exponents += exponent - (scale - 1);
    }
    if (size < 0.75) size *= 2, --exponents;  // close to 1, where the logarithm keeps all its digits
    logarithm = static_cast<R>(std::log(size) + exponents * LOG_2);
    return {static_cast<R>(re), static_cast<R>(im)};
  }
};

template <class P, class Arguments>
void ragged_lu(const Arguments& a, const RaggedItem& item, typename RowsOf<typename P::T>::R* workspace) {
  using M = RaggedLu<P>;
  using S = typename M::S;
  using R = typename S::R;
  M all(a, item, workspace);
  all.eliminate(a.flags != 0);
  a.INFO[item.index] = all.info;
  R* const F = reinterpret_cast<R*>(a.F + item.f);
  if (a.want == LU_DETERMINANT) S::put(F, all.determinant());
  else if (a.want == LU_LOGDET) S::put(F, all.phase(reinterpret_cast<R*>(a.X)[item.x]));
  else if (a.want == LU_FACTOR) {
    all.write(F, 0, all.n);
    int* const pivots = static_cast<int*>(a.NUMBERS) + item.numbers;
    for (i64 k = 0; k < all.steps; ++k) pivots[k] = all.pivots[k];
  } else {
    all.substitute();
    all.write(a.want == LU_SOLVE ? reinterpret_cast<R*>(a.X + item.x) : F, all.first, all.right);
  }
}

}  // namespace mansard
