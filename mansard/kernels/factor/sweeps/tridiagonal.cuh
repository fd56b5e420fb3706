// One sweep of implicit QL on an unreduced block of a symmetric tridiagonal matrix.
//
//   T - shift I is chased from the bottom row of the block up: rotation i of rows i and i + 1 annihilates the bulge
//   that rotation i + 1 left, T <- G_i T G_i^T. With the eigenvalue next to e(low) as shift, e(low) becomes zero.
#pragma once
#include "kernels/factor/sweeps/active_block.cuh"

namespace mansard {

template <class P>
struct Sweep<P, Form::tridiagonal> {
  using R = typename P::T;
  using Block = ActiveBlock<P>;
  static constexpr bool RECORDS = P::WANT == Want::rotations;

  // Wilkinson's shift: the eigenvalue of the leading 2 x 2 block that is nearer to its first entry.
  static MANSARD_DEVICE R shift(const Block& block) {
    const R first = block.d(block.low), off = block.e(block.low);
    const R half = (block.d(block.low + 1) - first) * quick_inverse(R(2) * off), square = fma(half, half, R(1));
    const R root = square * quick_inverse_root(square);
    return first - off * quick_inverse(half >= 0 ? half + root : half - root);
  }

  // Chase, record the rotations, and shrink the block to its unreduced upper part. Returns the first rotation.
  static MANSARD_DEVICE int run(Block& block, R shift, R* left, R*) {
    const int low = block.low, high = block.high;
    R corner = block.d(high), g = corner - shift;  // g and sine * off: the bulge's column
    R sine = R(1), cosine = R(1), carried = R(0), below = R(0);
    R off = block.e(high - 1), above = block.d(high - 1);
    int i = high - 1, split = high;
    for (; i >= low; --i) {
      R next_off = R(0), next_above = R(0);
      if (i > low) {  // loads ahead of the chain of rotations
        next_off = block.e(i - 1);
        next_above = block.d(i - 1);
      }
      const R f = sine * off, b = cosine * off, square = fma(f, f, g * g);
      if (square <= Precision<R>::LEAST) break;  // an exact zero: rows above are a block of their own
      R root = quick_inverse_root(square);
      root = g < 0 ? -root : root;  // the sign makes cosine >= 0
      const R length = square * root;
      sine = f * root;
      cosine = g * root;
      if (i < high - 1) block.e(i + 1) = length;
      const R moved = corner - carried, slope = fma(above - moved, sine, R(2) * cosine * b);
      carried = sine * slope;
      const R entry = moved + carried;
      block.d(i + 1) = entry;
      if (i < high - 1 && block.negligible(length, below, entry)) split = i + 1;
      below = entry;
      g = fma(cosine, slope, -b);
      corner = above;
      off = next_off;
      above = next_above;
      if constexpr (RECORDS) store_record(left, i, cosine, sine, quick_inverse(R(1) + cosine));
    }
    block.d(i + 1) = corner - carried;
    block.e(i + 1) = i >= low ? R(0) : g;
    block.high = i >= low ? i + 1 : split;
    return i + 1;
  }
};

}  // namespace mansard
