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
  using typename Base::Lane;
  using typename Base::R;
  using typename Base::V;
  using Base::all, Base::N, Base::LANES, Base::value, Base::workspace;
  using I = IndexOf<R>;
  static constexpr bool HAS_VECTORS = Base::HAS_VECTORS;
  static constexpr int ROWS = 4, SAVED = 4, STEPS = P::SWEEPS * N;
  static constexpr int SIDES = Base::SVD ? 2 : 1;  // whose vectors are rotated
  // Beside that of JacobiGroup: vectors of a second side, 5 N numbers, saved rotations.
  static constexpr int WORKSPACE = Base::WORKSPACE + ((SIDES - 1) * N * N + (5 + 2 * SIDES * SAVED) * N) * LANES;

  static MANSARD_INLINE V at(const R* p) { return load<LANES>(p); }
  // Entries beside the diagonal; the last one is zero.
  MANSARD_INLINE R* off(int i) const { return workspace + Base::WORKSPACE + i * LANES; }
  MANSARD_INLINE R* tau(int i) const { return off(N + i); }
  MANSARD_INLINE R* product(int i) const { return off(2 * N + i); }
  MANSARD_INLINE I* order(int i) const { return reinterpret_cast<I*>(off(3 * N + i)); }
  MANSARD_INLINE R* second_tau(int i) const { return off(4 * N + i); }
  MANSARD_INLINE R* cosine(int side, int step, int i) const {
    return off((5 + 2 * (side * SAVED + step)) * N + i);
  }
  MANSARD_INLINE R* sine(int side, int step, int i) const { return cosine(side, step, N + i); }
  // Row i of the vectors of a side; those of the second one lie behind the rotations.
  MANSARD_INLINE R* row(int side, int i) const {
    return side == 0 ? workspace + (N + i) * N * LANES : off((5 + 2 * SIDES * SAVED) * N + i * N);
  }

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

  // The reflection I - tau v v^T of `count` entries, `stride` apart, onto the one at `head`, which becomes that entry.
  // They become v, which has 1 at `head` (0 where nothing is to be reflected; tau is zero then).
  MANSARD_INLINE V reflector(R* head, R* others, int count, int stride, R* result) const {
    V square{};
    for (int i = 0; i < count; ++i) add_product(square, at(others + i * stride), at(others + i * stride));
    const V alpha = at(head);
    const Lane active = greater<R, LANES>(square, all(Format<R>::LEAST_SQUARE));
    const V total = select<R, LANES>(active, plus_product(square, alpha, alpha), all(1));
    const V beta = select<R, LANES>(active, with_sign<R, LANES>(square_root<R, LANES>(total), -alpha), alpha);
    const V reciprocal = select<R, LANES>(active, 1 / select<R, LANES>(active, alpha - beta, all(1)), V{});
    for (int i = 0; i < count; ++i) store<LANES>(others + i * stride, at(others + i * stride) * reciprocal);
    store<LANES>(head, select<R, LANES>(active, all(1), V{}));
    store<LANES>(result, beta);
    return select<R, LANES>(active, (beta - alpha) / select<R, LANES>(active, beta, all(1)), V{});
  }

  // Multiply rows and columns [first, last) of a side's vectors by I - factor v v^T from the left; v(i) is the address
  // of entry i.
  template <class Entries>
  MANSARD_INLINE void reflect(int side, int first, int last, V factor, Entries v) const {
    for (int j = first; j < last; ++j) store<LANES>(product(j), V{});
    for_tiles<ROWS>(first, last, [&](int begin, auto count) __attribute__((always_inline)) {
      V entries[count];
      MANSARD_UNROLL
      for (int i = 0; i < count; ++i) entries[i] = at(v(begin + i));
      for (int j = first; j < last; ++j) {
        V sum = at(product(j));
        MANSARD_UNROLL
        for (int i = 0; i < count; ++i) add_product(sum, entries[i], at(row(side, begin + i) + j * LANES));
        store<LANES>(product(j), sum);
      }
    });
    for_tiles<ROWS>(first, last, [&](int begin, auto count) __attribute__((always_inline)) {
      V entries[count];
      MANSARD_UNROLL
      for (int i = 0; i < count; ++i) entries[i] = at(v(begin + i)) * factor;
      for (int j = first; j < last; ++j) {
        const V sum = at(product(j));
        MANSARD_UNROLL
        for (int i = 0; i < count; ++i) {
          R* const place = row(side, begin + i) + j * LANES;
          V z = at(place);
          subtract_product(z, entries[i], sum);
          store<LANES>(place, z);
        }
      }
    });
  }

  // Rotate a side's vectors by the saved rotations of some steps, of rows `first` to `last` each.
  MANSARD_INLINE void turn(int side, int count, const int* first, const int* last) const {
    for_tiles<ROWS>(0, N, [&](int begin, auto rows) __attribute__((always_inline)) {
      for (int one = 0; one < count; ++one) {
        V carried[rows];
        MANSARD_UNROLL
        for (int i = 0; i < rows; ++i) carried[i] = at(row(side, begin + i) + first[one] * LANES);
        for (int j = first[one]; j < last[one]; ++j) {
          const V c = at(cosine(side, one, j)), s = at(sine(side, one, j));
          MANSARD_UNROLL
          for (int i = 0; i < rows; ++i) {
            R* const place = row(side, begin + i) + j * LANES;
            const V next = at(place + LANES);
            store<LANES>(place, plus_product(carried[i] * c, next, s));
            carried[i] = minus_product(next * c, carried[i], s);
          }
        }
        MANSARD_UNROLL
        for (int i = 0; i < rows; ++i) store<LANES>(row(side, begin + i) + last[one] * LANES, carried[i]);
      }
    });
  }

  // The smallest `low` and the largest `high` of all lanes.
  static MANSARD_INLINE std::pair<int, int> range(V low, V high) {
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
    for (int number = 0; number < STEPS; ++number) {
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
    for (int j = 0; j < N; ++j) *places(j) = own + I(j * LANES);
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
  // Entry i of vector j of a side.
  MANSARD_INLINE V vector_part(int side, int i, int j, int) const {
    return gathered<R, LANES>(row(side, i), *reinterpret_cast<const Vector<I, LANES>*>(order(j)));
  }
};

}  // namespace mansard
