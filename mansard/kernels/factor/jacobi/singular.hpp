// Singular values and vectors, one matrix per SIMD lane, by way of a real bidiagonal matrix.
//
//   reflect:  B = U^H A V: column k below its diagonal, then row k beyond the entry beside the diagonal
//   iterate:  implicit QR steps of B^T B with Wilkinson's shift at the end of every lane's last unreduced block; without
//             a shift where an entry of the diagonal vanishes, which takes it to the end (Demmel and Kahan)
//   vectors:  U and V, then the rotations of either side; signs of values go to V
//
// Lanes take their steps together: see symmetric.hpp.
//
// Limits: without vectors the chain of a step (two reciprocal roots per row), with vectors loads and stores of U and V.
#pragma once
#include "kernels/factor/jacobi/condensed.hpp"

namespace mansard {

template <class P>
struct SingularGroup : CondensedLanes<P> {
  using Lanes = CondensedLanes<P>;
  using typename Lanes::Entry;
  using typename Lanes::Lane;
  using typename Lanes::R;
  using typename Lanes::V;
  using Lanes::all, Lanes::at, Lanes::entry, Lanes::value, Lanes::off, Lanes::tau, Lanes::second_tau, Lanes::product;
  using Lanes::cosine, Lanes::sine, Lanes::line, Lanes::row, Lanes::N, Lanes::LANES, Lanes::REALS, Lanes::WORDS, Lanes::HAS_VECTORS;
  static constexpr int COLUMNS = 4;

  // ---- reduction --------------------------------------------------------------------------------------------

  // Multiply the columns from k + 1 on by H^H, H = I - factor v v^H, with v in column k.
  MANSARD_INLINE void reflect_columns(int k, Entry factor) const {
    for_tiles<COLUMNS>(k + 1, N, [&](int begin, auto count) __attribute__((always_inline)) {
      Entry sums[count];
      MANSARD_UNROLL
      for (int c = 0; c < count; ++c) sums[c] = Entry::real(V{});
      for (int i = k; i < N; ++i) {
        const Entry v = Entry::at(entry(i, k)).conjugate();
        MANSARD_UNROLL
        for (int c = 0; c < count; ++c) sums[c].add(v, Entry::at(entry(i, begin + c)));
      }
      MANSARD_UNROLL
      for (int c = 0; c < count; ++c) sums[c] = sums[c] * factor.conjugate();
      for (int i = k; i < N; ++i) {
        const Entry v = Entry::at(entry(i, k));
        MANSARD_UNROLL
        for (int c = 0; c < count; ++c) {
          Entry a = Entry::at(entry(i, begin + c));
          a.subtract(v, sums[c]);
          a.to(entry(i, begin + c));
        }
      }
    });
  }

  // Multiply the rows from k + 1 on by G = I - factor v v^H from the right, with v in row k.
  MANSARD_INLINE void reflect_rows(int k, Entry factor) const {
    for (int i = k + 1; i < N; ++i) Entry::real(V{}).to(product(i));
    for_tiles<COLUMNS>(k + 1, N, [&](int begin, auto count) __attribute__((always_inline)) {
      Entry v[count];
      MANSARD_UNROLL
      for (int c = 0; c < count; ++c) v[c] = Entry::at(entry(k, begin + c));
      for (int i = k + 1; i < N; ++i) {
        Entry sum = Entry::at(product(i));
        MANSARD_UNROLL
        for (int c = 0; c < count; ++c) sum.add(v[c], Entry::at(entry(i, begin + c)));
        sum.to(product(i));
      }
    });
    for_tiles<COLUMNS>(k + 1, N, [&](int begin, auto count) __attribute__((always_inline)) {
      Entry v[count];
      MANSARD_UNROLL
      for (int c = 0; c < count; ++c) v[c] = Entry::at(entry(k, begin + c)).conjugate() * factor;
      for (int i = k + 1; i < N; ++i) {
        const Entry sum = Entry::at(product(i));
        MANSARD_UNROLL
        for (int c = 0; c < count; ++c) {
          Entry a = Entry::at(entry(i, begin + c));
          a.subtract(v[c], sum);
          a.to(entry(i, begin + c));
        }
      }
    });
  }

  MANSARD_INLINE void reduce() const {
    for (int k = 0; k < N; ++k) {
      const Entry left = this->reflector(entry(k, k), entry(k + 1, k), N - 1 - k, REALS, value(k));
      left.to(tau(k));
      reflect_columns(k, left);
      if (k + 1 == N) break;
      if constexpr (Entry::COMPLEX)  // the reflection is that of the row's adjoint
        for (int j = k + 1; j < N; ++j) Entry::at(entry(k, j)).conjugate().to(entry(k, j));
      const Entry right = this->reflector(entry(k, k + 1), entry(k, k + 2), N - 2 - k, N * REALS, off(k));
      right.to(second_tau(k));
      reflect_rows(k, right);
    }
    store<LANES>(off(N - 1), V{});
  }

  // U = H_0 H_1 ... and V = G_0 G_1 ...: the last reflection first, so that each meets the smallest part.
  MANSARD_INLINE void form() const {
    for (int side = 0; side < 2; ++side)
      for (int i = 0; i < N; ++i)
        for (int j = 0; j < N; ++j) Entry::real(all(i == j)).to(row(side, i) + j * REALS);
    for (int k = N - 1; k >= 0; --k)
      this->reflect(0, k, N, Entry::at(tau(k)), [&](int i) { return entry(i, k); });
    for (int k = N - 2; k >= 0; --k)
      this->reflect(1, k + 1, N, Entry::at(second_tau(k)), [&](int i) { return entry(k, i); });
  }

  // ---- iteration --------------------------------------------------------------------------------------------

  // The last unreduced block of every lane, rows low to high, and where its step begins; `high` is zero in lanes that
  // are done.
  struct Blocks {
    V low, high, shift;  // shift of B^T B
    int first, last;     // rows that the blocks of all lanes have, together
  };

  // Find the blocks from the last rows on; entries beside the diagonal that do not count become zero.
  MANSARD_INLINE Blocks blocks(V high) const {
    constexpr R UNIT = Format<R>::ROUNDOFF, LEAST = SCALE * UNIT / 8;
    V low{}, d_above{}, d_end{}, e_above{}, e_end{};
    Lane ended = greater<R, LANES>(V{}, V{}), singular = ended;
    for (int i = N - 2; i >= 0; --i) {
      const V d = absolute<R, LANES>(at(value(i))), next = absolute<R, LANES>(at(value(i + 1))), e = at(off(i));
      const Lane null = !greater<R, LANES>(absolute<R, LANES>(e), plus_product(all(LEAST), d + next, all(UNIT * 2)));
      const Lane is_end = equal<R, LANES>(high, all(R(i + 1)));
      store<LANES>(off(i), select<R, LANES>(null, V{}, e));
      high = select<R, LANES>(is_end & null, all(R(i)), high);
      const Lane shifts = is_end & !null, inside = greater<R, LANES>(high, all(R(i))) & !ended;
      const Lane begins = null & inside, is_above = inside & equal<R, LANES>(high, all(R(i + 2)));
      d_above = select<R, LANES>(shifts, d, d_above), d_end = select<R, LANES>(shifts, next, d_end);
      e_end = select<R, LANES>(shifts, e, e_end);
      e_above = select<R, LANES>(is_above & !null, e, e_above);
      singular = singular | (inside & !greater<R, LANES>(next, all(LEAST)));
      low = select<R, LANES>(begins, all(R(i + 1)), low);
      ended = ended | begins;
    }
    const Lane active = greater<R, LANES>(high, V{});
    singular = singular | (!ended & !greater<R, LANES>(absolute<R, LANES>(at(value(0))), all(LEAST)));
    low = select<R, LANES>(active, low, all(R(N)));
    const auto [first, last] = this->range(low, high);
    // the last two rows of B^T B
    const V above = plus_product(d_above * d_above, e_above, e_above), end = plus_product(d_end * d_end, e_end, e_end);
    const V beside = d_above * e_end, square = beside * beside, apart = (above - end) * R(0.5);
    const V root = square_root<R, LANES>(plus_product(square, apart, apart));
    const V divisor = apart + with_sign<R, LANES>(root, apart);
    const V shift = end - square / select<R, LANES>(equal<R, LANES>(divisor, V{}), all(1), divisor);
    return {low, high, select<R, LANES>(singular, V{}, shift), first, last};
  }

  // A step on all blocks; saves its rotations as number `saved`.
  MANSARD_INLINE void step(const Blocks& block, int saved) const {
    V x{}, z{}, d = at(value(block.first)), e = at(off(block.first));
    for (int i = block.first; i < block.last; ++i) {
      const V index = all(R(i)), next = at(value(i + 1)), following = at(off(i + 1));
      const Lane begins = equal<R, LANES>(block.low, index);
      const Lane inside = !greater<R, LANES>(block.low, index) & greater<R, LANES>(block.high, index);
      const Lane shifts = begins & !equal<R, LANES>(block.shift, V{});
      x = select<R, LANES>(begins, d, x), z = select<R, LANES>(begins, e, z);
      x = select<R, LANES>(shifts, d - block.shift / select<R, LANES>(shifts, d, all(1)), x);
      const auto right = Lanes::rotation(x, z, inside);
      if (i > block.first) store<LANES>(off(i - 1), select<R, LANES>(inside & !begins, right.r, at(off(i - 1))));
      const V own = plus_product(d * right.c, e, right.s), beyond = minus_product(e * right.c, d, right.s);
      const V below = next * right.c;
      const auto left = Lanes::rotation(own, next * right.s, inside);
      store<LANES>(value(i), left.r);
      x = plus_product(beyond * left.c, below, left.s);
      d = minus_product(below * left.c, beyond, left.s);
      store<LANES>(off(i), x);
      z = following * left.s, e = following * left.c;
      if constexpr (HAS_VECTORS) {
        store<LANES>(cosine(0, saved, i), left.c), store<LANES>(sine(0, saved, i), left.s);
        store<LANES>(cosine(1, saved, i), right.c), store<LANES>(sine(1, saved, i), right.s);
      }
    }
    store<LANES>(value(block.last), d);
    store<LANES>(off(block.last), e);
  }

  // Returns the lanes that have not converged.
  MANSARD_INLINE Lane iterate() const {
    reduce();
    if constexpr (HAS_VECTORS) form();
    return this->repeat([&](V high) { return blocks(high); }, [&](const Blocks& block, int saved) { step(block, saved); });
  }

  // Make the values positive; their signs go to the columns of V.
  MANSARD_INLINE void settle() const {
    for (int j = 0; j < N; ++j) {
      const V d = at(value(j)), sign = with_sign<R, LANES>(all(1), d);
      store<LANES>(value(j), absolute<R, LANES>(d));
      for (int i = 0; i < N * WORDS && HAS_VECTORS; ++i) {
        R* const place = line(1, i) + j * REALS;
        store<LANES>(place, at(place) * sign);
      }
    }
  }

 private:
  static constexpr R SCALE = Format<R>::SINGULAR_SCALE;  // of the largest entry
};

}  // namespace mansard
