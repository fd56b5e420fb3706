// One sweep of implicit QR on an unreduced block of an upper bidiagonal matrix, from the bottom up.
//
//   B <- L B R^T. Left rotations act on rows, right rotations on columns; each annihilates the bulge that the other
//   left. The shift is zero (Demmel and Kahan) where the square of another one would vanish beside the last entry:
//   then every entry is a product of rotations, without a subtraction.
#pragma once
#include "kernels/factor/sweeps/active_block.cuh"

namespace mansard {

// Rotation with (c f + s g, c g - s f) = (length, 0), c >= 0. Length and cosine are rounded once: f times a rounded
// 1 / length is below one more often than above, by which the values of clustered matrices would drift.
template <class R>
struct Givens {
  R cosine, sine, length;

  MANSARD_DEVICE Givens(R f, R g) : cosine(R(1)), sine(R(0)), length(f) {
    const R square = fma(f, f, g * g);
    if (square <= Precision<R>::LEAST) return;
    R root = quick_inverse_root(square);
    length = quick_root(square, root);
    if (f < 0) {
      root = -root;
      length = -length;
    }
    const R near = f * root;
    cosine = fma(fma(-near, length, f), root, near);
    sine = g * root;
  }
  MANSARD_DEVICE void store(R* sweep, int i) const {
    store_record(sweep, i, cosine, sine, quick_inverse(R(1) + cosine));
  }
};

template <class P>
struct Sweep<P, Form::bidiagonal> {
  using R = typename P::T;
  using Block = ActiveBlock<P>;
  static constexpr bool RECORDS = P::WANT == Want::rotations;

  // The smaller singular value of the leading 2 x 2 block.
  static MANSARD_DEVICE R shift(const Block& block) {
    const R x = fabs(block.d(block.low)), y = fabs(block.d(block.low + 1)), off = fabs(block.e(block.low));
    const R small = fmin(x, y), large = fmax(x, y);
    if (small <= R(0)) return R(0);
    const R scale = quick_inverse(fmax(large, off)), s = small * scale, l = large * scale, o = off * scale;
    const R sum = sqrt(fma(l + s, l + s, o * o)), gap = sqrt(fma(l - s, l - s, o * o));
    return R(2) * small * l * quick_inverse(sum + gap);
  }

  // Chase, record the rotations, and shrink the block to its unreduced upper part. Returns the first rotation.
  static MANSARD_DEVICE int run(Block& block, R shift, R* left, R* right) {
    const R last = fabs(block.d(block.high)), sigma = fabs(shift);
    const int low = block.low;
    const bool vanishes = last <= block.floor || sigma * sigma <= Precision<R>::UNIT * last * last;
    block.stalls = false;
    block.high = vanishes ? without_shift(block, left, right) : with_shift(block, sigma, left, right);
    return low;
  }

 private:
  static MANSARD_DEVICE int without_shift(const Block& block, R* left, R* right) {
    const int low = block.low, high = block.high;
    int split = high;
    R cosine = R(1), other_cosine = R(1), other_sine = R(0), entry = block.d(high);
    for (int i = high; i > low; --i) {
      const R above = block.d(i - 1);
      const Givens<R> one(entry * cosine, block.e(i - 1));
      if (i < high) {
        const R off = other_sine * one.length;
        block.e(i) = off;
        if (fabs(off) <= block.floor) split = i;
      }
      const Givens<R> other(other_cosine * one.length, above * one.sine);
      block.d(i) = other.length;
      entry = above;
      cosine = one.cosine;
      other_cosine = other.cosine;
      other_sine = other.sine;
      if constexpr (RECORDS) {
        one.store(left, i - 1);
        other.store(right, i - 1);
      }
    }
    const R length = entry * cosine;
    block.d(low) = length * other_cosine;
    block.e(low) = length * other_sine;
    return split;
  }

  static MANSARD_DEVICE int with_shift(Block& block, R sigma, R* left, R* right) {
    const int low = block.low, high = block.high;
    int split = high;
    R entry = block.d(high), off = block.e(high - 1), below = R(0);
    R f = (fabs(entry) - sigma) * ((entry >= 0 ? R(1) : R(-1)) + sigma * quick_inverse(entry)), g = off;
    for (int i = high; i > low; --i) {
      const R next_off = i > low + 1 ? block.e(i - 2) : R(0);
      R above = block.d(i - 1);
      if (block.negligible(above, entry, off)) block.stalls = true;  // a sweep with a zero shift splits the block here
      const Givens<R> one(f, g);
      if (i < high) block.e(i) = one.length;
      f = fma(one.cosine, entry, one.sine * off);
      off = fma(one.cosine, off, -one.sine * entry);
      g = one.sine * above;
      above *= one.cosine;
      const Givens<R> other(f, g);
      block.d(i) = other.length;
      if (i < high && block.negligible(one.length, other.length, below)) split = i;
      below = other.length;
      f = fma(other.cosine, off, other.sine * above);
      entry = fma(other.cosine, above, -other.sine * off);
      g = other.sine * next_off;
      off = other.cosine * next_off;
      if constexpr (RECORDS) {
        one.store(left, i - 1);
        other.store(right, i - 1);
      }
    }
    block.d(low) = entry;
    block.e(low) = f;
    return split;
  }
};

}  // namespace mansard
