// What the condensed methods share (symmetric.hpp, singular.hpp): rotations of lanes that take their steps together,
// their application to vectors, the order of values.
//
// Vectors are stored by rows, and rotated a few rows at a time by the rotations of SAVED steps: a row stays in the first
// cache. They are read in the order of the values when they are written.
#pragma once
#include "kernels/factor/jacobi/group.hpp"

namespace mansard {

template <class P>
struct CondensedLanes : JacobiGroup<P> {
  using Base = JacobiGroup<P>;
  using typename Base::Entry;
  using typename Base::Lane;
  using typename Base::R;
  using typename Base::V;
  using Base::all, Base::N, Base::LANES, Base::REALS, Base::value, Base::workspace;
  using I = IndexOf<R>;
  static constexpr bool HAS_VECTORS = Base::HAS_VECTORS;
  static constexpr int ROWS = 4, SAVED = 4;
  static constexpr int SIDES = Base::SVD ? 2 : 1;  // whose vectors are rotated
  static constexpr int WORDS = Entry::WORDS;
  // Beside that of JacobiGroup: 2 N numbers, 3 N entries, saved rotations, vectors of a second side.
  static constexpr int reals(int n) {
    return Base::reals(n) + ((SIDES - 1) * n + 3) * n * REALS + (2 + 2 * SIDES * SAVED) * n * LANES;
  }

  static MANSARD_INLINE V at(const R* p) { return load<LANES>(p); }
  // Entries beside the diagonal; the last one is zero.
  MANSARD_INLINE R* off(int i) const { return workspace + Base::reals(N) + i * LANES; }
  MANSARD_INLINE I* order(int i) const { return reinterpret_cast<I*>(off(N + i)); }
  MANSARD_INLINE R* cosine(int side, int step, int i) const {
    return off((2 + 2 * (side * SAVED + step)) * N + i);
  }
  MANSARD_INLINE R* sine(int side, int step, int i) const { return cosine(side, step, N + i); }
  MANSARD_INLINE R* tau(int i) const { return off((2 + 2 * SIDES * SAVED) * N) + i * REALS; }
  MANSARD_INLINE R* product(int i) const { return tau(N + i); }
  MANSARD_INLINE R* second_tau(int i) const { return tau(2 * N + i); }
  // Row i of the vectors of a side.
  MANSARD_INLINE R* row(int side, int i) const {
    return side == 0 ? workspace + (N + i) * N * REALS : tau((3 + i) * N);
  }
  // Real or imaginary parts of a row: a line of numbers that are REALS apart.
  MANSARD_INLINE R* line(int side, int number) const { return row(side, number / WORDS) + number % WORDS * LANES; }

  struct Rotation {
    V c, s, r;
  };
  // The rotation of (x, z) onto (r, 0) in lanes that are `inside`; the identity, and x, elsewhere or where both vanish.
  // Length and entries are rounded once: products with a rounded 1 / length are below the exact ones more often than
  // above, by which values drift that take many steps.
  static MANSARD_INLINE Rotation rotation(V x, V z, Lane inside) {
    const V square = plus_product(x * x, z, z);
    const Lane turns = inside & greater<R, LANES>(square, all(Format<R>::LEAST_SQUARE));
    const V root = inverse_root<R, LANES>(select<R, LANES>(turns, square, all(1)));
    const V near = square * root, length = plus_product(near, minus_product(square, near, near), root * R(0.5));
    const auto over_length = [&](V entry) __attribute__((always_inline)) {
      const V quotient = entry * root;
      return plus_product(quotient, minus_product(entry, quotient, length), root);
    };
    return {select<R, LANES>(turns, over_length(x), all(1)), select<R, LANES>(turns, over_length(z), V{}),
            select<R, LANES>(turns, length, x)};
  }

  // The reflection H = I - tau v v^H of `count` entries, `stride` apart, and the one at `head`: H^H takes them to a real
  // number at `head`, which goes to `result`. They become v, which has 1 at `head` (0 where nothing is to be reflected;
  // tau is zero then).
  MANSARD_INLINE Entry reflector(R* head, R* others, int count, int stride, R* result) const {
    V square{};
    for (int i = 0; i < count; ++i) Entry::at(others + i * stride).add_square_to(square);
    const Entry alpha = Entry::at(head), one = Entry::real(all(1)), none = Entry::real(V{});
    if constexpr (Entry::COMPLEX) add_product(square, alpha.im, alpha.im);
    const Lane active = greater<R, LANES>(square, all(Format<R>::LEAST_SQUARE));
    const V total = select<R, LANES>(active, plus_product(square, alpha.re, alpha.re), all(1));
    const V beta = select<R, LANES>(active, with_sign<R, LANES>(square_root<R, LANES>(total), -alpha.re), alpha.re);
    const Entry apart = alpha - Entry::real(beta);
    const Entry reciprocal = pick(active, one / pick(active, apart, one), none);
    for (int i = 0; i < count; ++i) (Entry::at(others + i * stride) * reciprocal).to(others + i * stride);
    pick(active, one, none).to(head);
    store<LANES>(result, beta);
    const V divisor = select<R, LANES>(active, beta, all(1));
    Entry found = Entry::real(-apart.re / divisor);
    if constexpr (Entry::COMPLEX) found.im = -apart.im / divisor;
    return pick(active, found, none);
  }

  // Multiply rows and columns [first, last) of a side's vectors by I - factor v v^H from the left; v(i) is the address
  // of entry i.
  template <class Entries>
  MANSARD_INLINE void reflect(int side, int first, int last, Entry factor, Entries v) const {
    for (int j = first; j < last; ++j) Entry::real(V{}).to(product(j));
    for_tiles<ROWS>(first, last, [&](int begin, auto count) __attribute__((always_inline)) {
      Entry entries[count];
      MANSARD_UNROLL
      for (int i = 0; i < count; ++i) entries[i] = Entry::at(v(begin + i)).conjugate();
      for (int j = first; j < last; ++j) {
        Entry sum = Entry::at(product(j));
        MANSARD_UNROLL
        for (int i = 0; i < count; ++i) sum.add(entries[i], Entry::at(row(side, begin + i) + j * REALS));
        sum.to(product(j));
      }
    });
    for_tiles<ROWS>(first, last, [&](int begin, auto count) __attribute__((always_inline)) {
      Entry entries[count];
      MANSARD_UNROLL
      for (int i = 0; i < count; ++i) entries[i] = Entry::at(v(begin + i)) * factor;
      for (int j = first; j < last; ++j) {
        const Entry sum = Entry::at(product(j));
        MANSARD_UNROLL
        for (int i = 0; i < count; ++i) {
          R* const place = row(side, begin + i) + j * REALS;
          Entry z = Entry::at(place);
          z.subtract(entries[i], sum);
          z.to(place);
        }
      }
    });
  }

  // Rotate a side's vectors by the saved rotations of some steps, of rows `first` to `last` each.
  MANSARD_INLINE void turn(int side, int count, const int* first, const int* last) const {
    for_tiles<ROWS>(0, N * WORDS, [&](int begin, auto rows) __attribute__((always_inline)) {
      for (int one = 0; one < count; ++one) {
        V carried[rows];
        MANSARD_UNROLL
        for (int i = 0; i < rows; ++i) carried[i] = at(line(side, begin + i) + first[one] * REALS);
        for (int j = first[one]; j < last[one]; ++j) {
          const V c = at(cosine(side, one, j)), s = at(sine(side, one, j));
          MANSARD_UNROLL
          for (int i = 0; i < rows; ++i) {
            R* const place = line(side, begin + i) + j * REALS;
            const V next = at(place + REALS);
            store<LANES>(place, plus_product(carried[i] * c, next, s));
            carried[i] = minus_product(next * c, carried[i], s);
          }
        }
        MANSARD_UNROLL
        for (int i = 0; i < rows; ++i) store<LANES>(line(side, begin + i) + last[one] * REALS, carried[i]);
      }
    });
  }

  // The smallest `low` and the largest `high` of all lanes.
  MANSARD_INLINE std::pair<int, int> range(V low, V high) const {
    int first = N, last = 0;
    for (int lane = 0; lane < LANES; ++lane) {
      first = smaller(first, static_cast<int>(low[lane]));
      last = larger(last, static_cast<int>(high[lane]));
    }
    return {first, last};
  }

  // Take steps until no lane has a block; `blocks` finds them, `step` takes one and saves its rotations. Returns the
  // lanes that have not converged.
  template <class Blocks, class Step>
  MANSARD_INLINE Lane repeat(Blocks blocks, Step step) const {
    V high = all(R(N - 1));
    int first[SAVED], last[SAVED], saved = 0;
    Lane active = equal<R, LANES>(V{}, V{});
    const auto turn_all = [&]() __attribute__((always_inline)) {
      for (int side = 0; HAS_VECTORS && side < SIDES; ++side) turn(side, saved, first, last);
      saved = 0;
    };
    for (int number = 0; number < P::SWEEPS * N; ++number) {
      const auto block = blocks(high);
      high = block.high;
      active = greater<R, LANES>(high, V{});
      if (!active.any()) break;
      step(block, saved);
      first[saved] = block.first, last[saved] = block.last;
      if (HAS_VECTORS && ++saved == SAVED) turn_all();
    }
    turn_all();
    return active;
  }

  // Sort values by exchanges of neighbours, descending for singular values.
  MANSARD_INLINE void sort() const {
    using Places = Vector<I, LANES>;
    Places own;
    for (int lane = 0; lane < LANES; ++lane) own[lane] = lane;
    const auto places = [&](int j) __attribute__((always_inline)) { return reinterpret_cast<Places*>(order(j)); };
    for (int j = 0; j < N; ++j) *places(j) = own + I(j * REALS);
    for (int end = N - 1; end > 0; --end) {
      V x = at(value(0));
      Places place = *places(0);
      for (int j = 0; j < end; ++j) {
        const V y = at(value(j + 1));
        const Places other = *places(j + 1);
        const auto wrong = Base::SVD ? y > x : x > y;
        store<LANES>(value(j), wrong ? y : x);
        *places(j) = wrong ? other : place;
        x = wrong ? x : y, place = wrong ? place : other;
      }
      store<LANES>(value(end), x);
      *places(end) = place;
    }
  }
  MANSARD_INLINE void complete() const {}
  // Entry i of vector j of a side, one word of it.
  MANSARD_INLINE V vector_part(int side, int i, int j, int word) const {
    return gathered<R, LANES>(row(side, i) + word * LANES, *reinterpret_cast<const Vector<I, LANES>*>(order(j)));
  }
};

}  // namespace mansard
