// Jacobi's method for a group of matrices, one per SIMD lane: see kernel.hpp.
#pragma once
#include "kernels/factor/jacobi/rotations.hpp"

namespace mansard {

enum class Want { eigh, eigvalsh, svd, svdvals };
enum class Uplo { lower, upper };
enum class Method { jacobi, condensed };

// Rows of the matrices of a group: a constant, or (0) a number that is known at run time.
template <int COUNT>
struct OrderOf {
  static constexpr int N = COUNT;
};
template <>
struct OrderOf<0> {
  int N;
};

template <class P>
struct JacobiGroup : OrderOf<P::N> {
  using OrderOf<P::N>::N;
  using T = typename P::T;
  using Entry = Number<T, P::LANES>;
  using R = typename Entry::R;
  using V = typename Entry::V;
  using Lane = Mask<R, P::LANES>;
  using Turn = LaneRotation<T, P::LANES>;
  using Order = Tournament<P::N>;
  static constexpr int LANES = P::LANES, REALS = Entry::REALS;
  static constexpr bool SVD = P::WANT == Want::svd || P::WANT == Want::svdvals;
  static constexpr bool HAS_VECTORS = P::WANT == Want::svd || P::WANT == Want::eigh;
  // Reals of the workspace of matrices of n rows.
  static constexpr int reals(int n) { return 2 * n * n * REALS + n * LANES; }
  R* workspace;
  Lane finite;
  V scale;

  MANSARD_INLINE R* entry(int i, int j) const { return workspace + (j * N + i) * REALS; }
  MANSARD_INLINE R* vector_entry(int i, int j) const { return entry(i, N + j); }
  MANSARD_INLINE R* value(int j) const { return workspace + 2 * N * N * REALS + j * LANES; }
  static MANSARD_INLINE V all(R x) { return all_lanes<R, LANES>(x); }

  // ---- reading ----------------------------------------------------------------------------------------------

  // Scale the matrix; zeros in lanes that are not finite, the unit matrix in `vectors`.
  MANSARD_INLINE void begin() {
    V largest{}, probe{};
    const auto visit = [&](auto look) __attribute__((always_inline)) {
      for (int j = 0; j < N; ++j)
        for (int i = 0; i < (SVD ? N : j + 1); ++i) look(entry(i, j), i == j);
    };
    visit([&](R* at, bool diagonal) __attribute__((always_inline)) {
      Entry x = Entry::at(at);
      if (!SVD && diagonal) x = Entry::real(x.re);
      for (V part : {x.re, x.imaginary()}) {
        largest = larger_of<R, LANES>(largest, absolute<R, LANES>(part));
        probe = probe + (part - part);  // NaN for an infinity or a NaN
      }
    });
    finite = equal<R, LANES>(probe, V{});
    scale = unit_scale<R, LANES>(largest);
    visit([&](R* at, bool) __attribute__((always_inline)) {
      Entry x = Entry::at(at) * scale;
      if constexpr (SVD && sizeof(R) == 4) x = x * all(Format<R>::SINGULAR_SCALE);
      pick(finite, x, Entry::real(V{})).to(at);
    });
    for (int j = 0; j < N; ++j) {
      if constexpr (!SVD) store<LANES>(value(j), Entry::at(entry(j, j)).re);
      for (int i = 0; i < N && HAS_VECTORS; ++i) Entry::real(all(i == j)).to(vector_entry(i, j));
    }
  }

  // ---- sweeps -----------------------------------------------------------------------------------------------

  MANSARD_INLINE void turn_vectors(const Turn& rotation, int p, int q) const {
    if constexpr (HAS_VECTORS) {
      MANSARD_UNROLL
      for (int r = 0; r < N; ++r) rotation.turn_at(vector_entry(r, p), vector_entry(r, q));
    }
  }
  // Angle of a pair, whose values it updates.
  MANSARD_INLINE Turn angle(int p, int q, Entry b, V b_square, V h, Lane wanted) const {
    V shift;
    const V first = load<LANES>(value(p)), second = load<LANES>(value(q));
    const Turn rotation = annihilating<T, LANES>(second - first, b, b_square, h, wanted, shift);
    store<LANES>(value(p), first - shift);
    store<LANES>(value(q), second + shift);
    return rotation;
  }

  // Lanes with an entry that counts beside its own rows' diagonal entries, however small these are beside the others:
  // eigenvalues of definite matrices have small relative errors then (Demmel and Veselic).
  MANSARD_INLINE Lane unfinished_anywhere() const {
    constexpr R TOLERANCE = R(4) * N * Format<R>::ROUNDOFF * Format<R>::ROUNDOFF;
    Lane any = greater<R, LANES>(V{}, V{});
    for (int j = 0; j < N; ++j) {
      const V below = load<LANES>(value(j)) * TOLERANCE;
      for (int i = 0; i < j; ++i) {
        const V square = Entry::at(entry(i, j)).square(), bound = absolute<R, LANES>(load<LANES>(value(i)) * below);
        any = any | (greater<R, LANES>(square, bound) & greater<R, LANES>(square, all(Format<R>::LEAST_SQUARE)));
      }
    }
    return any;
  }
  // Lanes whose matrix is not yet diagonal, by its norm.
  MANSARD_INLINE Lane unfinished() const {
    constexpr R TOLERANCE = R(0.25) * N * N * Format<R>::ROUNDOFF * Format<R>::ROUNDOFF;
    V beside{}, along{};
    for (int j = 0; j < N; ++j) {
      const V d = load<LANES>(value(j));
      add_product(along, d, d);
      for (int i = 0; i < j; ++i) Entry::at(entry(i, j)).add_square_to(beside);
    }
    return greater<R, LANES>(beside, along * TOLERANCE);
  }
  // J^H A J for the rows and columns beside the pair.
  MANSARD_INLINE void turn_symmetric(const Turn& rotation, int p, int q) const {
    for (int r = 0; r < p; ++r) rotation.turn_at(entry(r, p), entry(r, q));
    for (int r = p + 1; r < q; ++r) {
      Entry x = Entry::at(entry(p, r)).conjugate(), y = Entry::at(entry(r, q));
      rotation.turn(x, y);
      x.conjugate().to(entry(p, r)), y.to(entry(r, q));
    }
    for (int r = q + 1; r < N; ++r) {
      Entry x = Entry::at(entry(p, r)), y = Entry::at(entry(q, r));
      rotation.turn_conjugates(x, y);
      x.to(entry(p, r)), y.to(entry(q, r));
    }
  }
  MANSARD_INLINE void symmetric_round(int round, Lane active) const {
    Turn rotations[Order::PAIRS + 1];
    for (int pair = 0; pair < Order::PAIRS; ++pair) {
      const auto [p, q] = Order::columns(round, pair);
      const Entry b = Entry::at(entry(p, q));
      const V b_square = b.square(), apart = load<LANES>(value(q)) - load<LANES>(value(p));
      const V h = spread_square<R, LANES>(apart, b_square);
      const auto wanted = active & greater<R, LANES>(h, all(Format<R>::LEAST_SQUARE));
      rotations[pair] = angle(p, q, b, b_square, h, wanted);
    }
    for (int pair = 0; pair < Order::PAIRS; ++pair) {
      const auto [p, q] = Order::columns(round, pair);
      turn_symmetric(rotations[pair], p, q);
      Entry::real(V{}).to(entry(p, q));
      turn_vectors(rotations[pair], p, q);
    }
  }

  MANSARD_INLINE void sum_squares() const {
    for (int j = 0; j < N; ++j) {
      V sum{};
      for (int i = 0; i < N; ++i) Entry::at(entry(i, j)).add_square_to(sum);
      store<LANES>(value(j), sum);
    }
  }
  // Returns the lanes that have rotated.
  MANSARD_INLINE Lane singular_round(int round) const {
    constexpr R TOLERANCE = R(4) * N * Format<R>::ROUNDOFF * Format<R>::ROUNDOFF;
    Turn rotations[Order::PAIRS + 1];
    Lane any = greater<R, LANES>(V{}, V{});
    for (int pair = 0; pair < Order::PAIRS; ++pair) {
      const auto [p, q] = Order::columns(round, pair);
      Entry b = Entry::real(V{});
      MANSARD_UNROLL
      for (int r = 0; r < N; ++r) b.add(Entry::at(entry(r, p)).conjugate(), Entry::at(entry(r, q)));
      const V first = load<LANES>(value(p)), second = load<LANES>(value(q)), least = all(Format<R>::NULL_SQUARE);
      const V b_square = b.square(), h = spread_square<R, LANES>(second - first, b_square);
      const auto wanted = greater<R, LANES>(b_square, first * TOLERANCE * second) & greater<R, LANES>(first, least) &
                          greater<R, LANES>(second, least);
      any = any | wanted;
      rotations[pair] = angle(p, q, b, b_square, h, wanted);
    }
    if (!any.any()) return any;
    for (int pair = 0; pair < Order::PAIRS; ++pair) {
      const auto [p, q] = Order::columns(round, pair);
      MANSARD_UNROLL
      for (int r = 0; r < N; ++r) rotations[pair].turn_at(entry(r, p), entry(r, q));
      turn_vectors(rotations[pair], p, q);
    }
    return any;
  }

  // Returns the lanes that have not converged.
  MANSARD_INLINE Lane iterate() const {
    Lane active = equal<R, LANES>(V{}, V{});
    for (int sweep = 0;; ++sweep) {
      if constexpr (!SVD) active = P::RELATIVE && sweep < P::SWEEPS ? unfinished_anywhere() : unfinished();
      if (sweep == P::SWEEPS || !active.any()) return active;
      if constexpr (SVD) active = greater<R, LANES>(V{}, V{}), sum_squares();
      for (int round = 0; round < Order::ROUNDS; ++round) {
        if constexpr (SVD) active = active | singular_round(round);
        else symmetric_round(round, active);
      }
    }
  }

  // ---- the end: norms, order, basis -------------------------------------------------------------------------

  // Square roots of the squares; columns divided by their norms.
  MANSARD_INLINE void divide_columns() const {
    for (int j = 0; j < N; ++j) {
      const V square = load<LANES>(value(j)), norm = square_root<R, LANES>(square);
      const V inverse = 1 / select<R, LANES>(greater<R, LANES>(norm, V{}), norm, all(1));
      store<LANES>(value(j), norm);
      for (int i = 0; i < N && HAS_VECTORS; ++i) (Entry::at(entry(i, j)) * inverse).to(entry(i, j));
    }
  }

  static MANSARD_INLINE void exchange(Lane where, R* p, R* q) {
    const Entry x = Entry::at(p), y = Entry::at(q);
    pick(where, y, x).to(p), pick(where, x, y).to(q);
  }
  // Sort values, and vectors with them, by exchanges of neighbours.
  MANSARD_INLINE void sort() const {
    for (int last = N - 1; last > 0; --last) {
      for (int j = 0; j < last; ++j) {
        const V x = load<LANES>(value(j)), y = load<LANES>(value(j + 1));
        const auto wrong = SVD ? greater<R, LANES>(y, x) : greater<R, LANES>(x, y);
        if (!wrong.any()) continue;
        store<LANES>(value(j), select<R, LANES>(wrong, y, x));
        store<LANES>(value(j + 1), select<R, LANES>(wrong, x, y));
        for (int i = 0; i < N && HAS_VECTORS; ++i) {
          exchange(wrong, vector_entry(i, j), vector_entry(i, j + 1));
          if constexpr (SVD) exchange(wrong, entry(i, j), entry(i, j + 1));
        }
      }
    }
  }

  // Complete the columns of U whose singular values are zero, in all lanes that have such: the unit vector farthest
  // from the span of the columns before, orthogonalized twice. Columns that are there stay as they are.
  __attribute__((noinline, cold)) void complete_basis() const {
    for (int j = 0; j < N; ++j) {
      const auto missing = is_null(j);
      if (!missing.any()) continue;
      V best = all(-1), chosen{};
      for (int i = 0; i < N; ++i) {
        V rest = all(1);
        for (int k = 0; k < j; ++k) rest = rest - Entry::at(entry(i, k)).square();
        const auto farther = greater<R, LANES>(rest, best);
        best = select<R, LANES>(farther, rest, best);
        chosen = select<R, LANES>(farther, all(static_cast<R>(i)), chosen);
      }
      Entry column[N];
      for (int i = 0; i < N; ++i)
        column[i] = Entry::real(select<R, LANES>(equal<R, LANES>(chosen, all(static_cast<R>(i))), all(1), V{}));
      for (int k = 0; k < 2 * j; ++k) {
        Entry along = Entry::real(V{});
        for (int i = 0; i < N; ++i) along.add(Entry::at(entry(i, k % j)).conjugate(), column[i]);
        for (int i = 0; i < N; ++i) column[i].subtract(Entry::at(entry(i, k % j)), along);
      }
      V square{};
      for (int i = 0; i < N; ++i) column[i].add_square_to(square);
      const V inverse = 1 / square_root<R, LANES>(square);
      for (int i = 0; i < N; ++i) pick(missing, column[i] * inverse, Entry::at(entry(i, j))).to(entry(i, j));
    }
  }
  // Norms of columns, and columns of norm one.
  MANSARD_INLINE void settle() const {
    if constexpr (SVD) divide_columns();
  }
  // After values and vectors were sorted.
  MANSARD_INLINE void complete() const {
    if constexpr (P::WANT == Want::svd)
      if (is_null(N - 1).any()) complete_basis();
  }
  // Entry i of vector j, one word of it: of Z, or of V (side 1).
  MANSARD_INLINE V vector_part(int side, int i, int j, int word) const {
    return load<LANES>((SVD && side == 0 ? entry(i, j) : vector_entry(i, j)) + word * LANES);
  }
  // Lanes whose column j counts as zero, by its norm.
  MANSARD_INLINE Lane is_null(int j) const {
    const V norm = load<LANES>(value(j));
    return !greater<R, LANES>(norm * norm, all(Format<R>::NULL_SQUARE));
  }
};

}  // namespace mansard
