// Eigenvalues and -vectors of Hermitian matrices, one matrix per SIMD lane, by way of a real tridiagonal matrix.
//
//   reflect:  T = Q^H A Q, column N - 1 first:  v = (x - beta e) / (x_0 - beta),  A <- H^H A H,  H = I - tau v v^H
//   iterate:  implicit QR steps with Wilkinson's shift at the end of every lane's last unreduced block
//   vectors:  Z = Q, then the rotations
//
// Lanes take their steps together, each from its own `low` to its own `high`: outside of them it is rotated by the
// identity, exactly. A lane without a block is done.
//
// Limits: without vectors the chain of a step (a reciprocal root per row), with vectors loads and stores of Z: 2 per 4
// operations.
#pragma once
#include "kernels/factor/jacobi/condensed.hpp"

namespace mansard {

template <class P>
struct SymmetricGroup : CondensedLanes<P> {
  using Lanes = CondensedLanes<P>;
  using typename Lanes::Entry;
  using typename Lanes::Lane;
  using typename Lanes::R;
  using typename Lanes::V;
  using Lanes::all, Lanes::at, Lanes::entry, Lanes::value, Lanes::off, Lanes::tau, Lanes::product, Lanes::cosine;
  using Lanes::sine, Lanes::N, Lanes::LANES, Lanes::REALS, Lanes::HAS_VECTORS;
  static constexpr int COLUMNS = 4;

  // ---- reduction --------------------------------------------------------------------------------------------

  // product = A v for the first k rows and columns, of which the upper triangle is read.
  MANSARD_INLINE void multiply(int k) const {
    const Entry none = Entry::real(V{});
    for (int i = 0; i < k; ++i) none.to(product(i));
    for_tiles<COLUMNS>(0, k, [&](int begin, auto count) __attribute__((always_inline)) {
      constexpr int COUNT = decltype(count)::value;
      Entry beside[COUNT], sums[COUNT];
      MANSARD_UNROLL
      for (int c = 0; c < COUNT; ++c) beside[c] = Entry::at(entry(begin + c, k)), sums[c] = none;
      for (int i = 0; i < begin; ++i) {
        const Entry factor = Entry::at(entry(i, k));
        Entry sum = Entry::at(product(i));
        MANSARD_UNROLL
        for (int c = 0; c < COUNT; ++c) {
          const Entry a = Entry::at(entry(i, begin + c));
          sum.add(a, beside[c]), sums[c].add(a.conjugate(), factor);
        }
        sum.to(product(i));
      }
      MANSARD_UNROLL
      for (int c = 0; c < COUNT; ++c) {
        MANSARD_UNROLL
        for (int i = 0; i < c; ++i) {
          const Entry a = Entry::at(entry(begin + i, begin + c));
          sums[i].add(a, beside[c]), sums[c].add(a.conjugate(), beside[i]);
        }
        sums[c].add(Entry::real(at(entry(begin + c, begin + c))), beside[c]);
      }
      MANSARD_UNROLL
      for (int c = 0; c < COUNT; ++c) sums[c].to(product(begin + c));
    });
  }

  // A -= v w^H + w v^H, with w = tau A v - (|tau|^2 v^H A v / 2) v.
  MANSARD_INLINE void update(int k, Entry factor) const {
    V along{};
    for (int i = 0; i < k; ++i) {
      const Entry p = Entry::at(product(i)), v = Entry::at(entry(i, k));
      add_product(along, p.re, v.re);
      if constexpr (Entry::COMPLEX) add_product(along, p.im, v.im);
    }
    along = along * factor.square() * R(-0.5);
    for (int i = 0; i < k; ++i)
      (Entry::at(product(i)) * factor + Entry::at(entry(i, k)) * along).to(product(i));
    for_tiles<COLUMNS>(0, k, [&](int begin, auto count) __attribute__((always_inline)) {
      constexpr int COUNT = decltype(count)::value;
      Entry v[COUNT], w[COUNT];  // conjugates
      MANSARD_UNROLL
      for (int c = 0; c < COUNT; ++c) {
        v[c] = Entry::at(entry(begin + c, k)).conjugate(), w[c] = Entry::at(product(begin + c)).conjugate();
      }
      const auto subtract = [&](int i, int c, Entry of_v, Entry of_w) __attribute__((always_inline)) {
        R* const place = entry(i, begin + c);
        Entry a = Entry::at(place);
        a.subtract(of_v, w[c]), a.subtract(of_w, v[c]);
        a.to(place);
      };
      for (int i = 0; i < begin; ++i) {
        const Entry of_v = Entry::at(entry(i, k)), of_w = Entry::at(product(i));
        MANSARD_UNROLL
        for (int c = 0; c < COUNT; ++c) subtract(i, c, of_v, of_w);
      }
      MANSARD_UNROLL
      for (int c = 0; c < COUNT; ++c) {
        MANSARD_UNROLL
        for (int i = 0; i <= c; ++i) subtract(begin + i, c, v[i].conjugate(), w[i].conjugate());
      }
    });
  }

  MANSARD_INLINE void reduce() const {
    for (int k = N - 1; k > 0; --k) {
      const Entry factor = this->reflector(entry(k - 1, k), entry(0, k), k - 1, REALS, off(k - 1));
      factor.to(tau(k));
      multiply(k);
      update(k, factor);
    }
    for (int i = 0; i < N; ++i) store<LANES>(value(i), at(entry(i, i)));
    store<LANES>(off(N - 1), V{});
  }

  // Z = H_{N-1} ... H_1: each reflection multiplies what the ones before it have made, its first k rows and columns.
  MANSARD_INLINE void form() const {
    for (int k = 1; k < N; ++k) this->reflect(0, 0, k, Entry::at(tau(k)), [&](int i) { return entry(i, k); });
  }

  // ---- iteration --------------------------------------------------------------------------------------------

  // The last unreduced block of every lane, rows low to high, and its shift; `high` is zero in lanes that are done.
  struct Blocks {
    V low, high, shift;
    int first, last;  // rows that the blocks of all lanes have, together
  };

  // Find the blocks from the last rows on; entries beside the diagonal that do not count become zero.
  MANSARD_INLINE Blocks blocks(V high) const {
    constexpr R UNIT = Format<R>::ROUNDOFF;
    V low{}, above{}, beside{}, below{};
    Lane ended = greater<R, LANES>(V{}, V{});
    for (int i = N - 2; i >= 0; --i) {
      const V d = at(value(i)), next = at(value(i + 1)), e = at(off(i)), size = absolute<R, LANES>(e);
      const V least = plus_product(all(UNIT / 8), absolute<R, LANES>(d) + absolute<R, LANES>(next), all(UNIT / 2));
      const Lane null = !greater<R, LANES>(size, least), is_end = equal<R, LANES>(high, all(R(i + 1)));
      store<LANES>(off(i), select<R, LANES>(null, V{}, e));
      high = select<R, LANES>(is_end & null, all(R(i)), high);
      const Lane shifts = is_end & !null, begins = null & !ended & greater<R, LANES>(high, all(R(i)));
      above = select<R, LANES>(shifts, d, above), below = select<R, LANES>(shifts, next, below);
      beside = select<R, LANES>(shifts, e, beside);
      low = select<R, LANES>(begins, all(R(i + 1)), low);
      ended = ended | begins;
    }
    const V apart = (above - below) * R(0.5), square = beside * beside;
    const V root = square_root<R, LANES>(plus_product(square, apart, apart));
    const V divisor = apart + with_sign<R, LANES>(root, apart);
    const V shift = below - square / select<R, LANES>(equal<R, LANES>(divisor, V{}), all(1), divisor);
    const Lane active = greater<R, LANES>(high, V{});
    low = select<R, LANES>(active, low, all(R(N)));
    const auto [first, last] = this->range(low, high);
    return {low, high, shift, first, last};
  }

  // A step on all blocks; saves its rotations as number `saved`.
  MANSARD_INLINE void step(const Blocks& block, int saved) const {
    V x{}, z{};
    V d = at(value(block.first)), e = at(off(block.first));
    for (int i = block.first; i < block.last; ++i) {
      const V row = all(R(i)), next = at(value(i + 1)), following = at(off(i + 1));
      const Lane begins = equal<R, LANES>(block.low, row);
      const Lane inside = !greater<R, LANES>(block.low, row) & greater<R, LANES>(block.high, row);
      x = select<R, LANES>(begins, d - block.shift, x), z = select<R, LANES>(begins, e, z);
      const auto [c, s, r] = Lanes::rotation(x, z, inside);
      if (i > block.first) store<LANES>(off(i - 1), select<R, LANES>(inside & !begins, r, at(off(i - 1))));
      const V turned = plus_product(s * (next - d), c + c, e);
      store<LANES>(value(i), plus_product(d, s, turned));
      d = minus_product(next, s, turned);
      x = minus_product(c * turned, e, all(1));
      store<LANES>(off(i), x);
      z = s * following, e = c * following;
      if constexpr (HAS_VECTORS) store<LANES>(cosine(0, saved, i), c), store<LANES>(sine(0, saved, i), s);
    }
    store<LANES>(value(block.last), d);
    store<LANES>(off(block.last), e);
  }

  MANSARD_INLINE void settle() const {}
  // Returns the lanes that have not converged.
  MANSARD_INLINE Lane iterate() const {
    reduce();
    if constexpr (HAS_VECTORS) form();
    return this->repeat([&](V high) { return blocks(high); }, [&](const Blocks& block, int saved) { step(block, saved); });
  }
};

}  // namespace mansard
