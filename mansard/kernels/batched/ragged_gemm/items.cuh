// Records of the products of a ragged batch, sorted by size class with the largest first, and their distribution.
#pragma once
#include "mansard/gpu/complex.cuh"

namespace mansard {

// One product: op(A) is m x k, op(B) k x n; a, b and c are offsets of the matrices in elements. k is -1 if the sizes of
// the operands do not fit: such a C becomes NaN.
struct Item {
  i64 a, b, c;
  int m, n, k, unused;
};

// Size classes by max(m, n, k): 0 more than 128; 1 to 8 up to 128, 64, 32, 24, 16, 12, 8, 4. Matrix times column (n =
// 1, more than 4): 9 more than 256; 10 to 13 up to 256, 32, 16, 8. Row times matrix (m = 1) of more than 32: 14.
// Products without entries: CLASSES. Class 3 takes sizes above FROM: 24, or 16 where its kernel computes only what
// exists.
constexpr int CLASSES = 15;
template <int FROM>
MANSARD_DEVICE int class_of(i64 m, i64 n, i64 k) {
  if (m <= 0 || n <= 0) return CLASSES;
  const i64 most = max(max(m, n), k);
  if (n == 1 && most > 4) return most > 256 ? 9 : most > 32 ? 10 : most > 16 ? 11 : most > 8 ? 12 : 13;
  if (m == 1 && most > 32) return 14;
  if (most > 32) return most > 128 ? 0 : most > 64 ? 1 : 2;
  return most > FROM ? 3 : most > 16 ? 4 : most > 12 ? 5 : most > 8 ? 6 : most > 4 ? 7 : 8;
}

// A block's products of a class, UNIT at a time. EACH > 0: EACH consecutive rounds, then the block ends. Blocks that
// run at the same time are then close together in memory, which is worth 5 % of the bandwidth. EACH = 0, where the
// number of blocks is not known at launch: blocks are persistent and take every gridDim-th unit.
template <class P, int UNIT>
struct Share {
  static constexpr int TIMES = P::EACH ? P::EACH : 1;
  const i64 begin, end, step;
  MANSARD_DEVICE Share(const i64* starts)
      : begin(starts[P::CLASS] + static_cast<i64>(blockIdx.x) * UNIT * TIMES),
        end(P::EACH ? min(starts[P::CLASS + 1], begin + UNIT * TIMES) : starts[P::CLASS + 1]),
        step(P::EACH ? UNIT : static_cast<i64>(gridDim.x) * UNIT) {}
};

// A hash of the product's number modulo `many`: which of the blocks (or warps) that share a product takes the first
// part. It has no pattern that a stride of the grid could repeat.
MANSARD_DEVICE int beginner(i64 product, int many) {
  return static_cast<int>((static_cast<u32>(product) * 2654435761u >> 16) % static_cast<u32>(many));
}

// Initial value of a sum: zero, or NaN where sizes do not fit.
template <class R>
struct Start {
  static MANSARD_DEVICE R of(bool misfit) {
    return misfit ? static_cast<R>(__longlong_as_double(0x7ff8000000000000ll)) : R(0);
  }
  static MANSARD_DEVICE R of(const Item& item) { return of(item.k < 0); }
};
template <class R>
struct Start<Complex<R>> {
  static MANSARD_DEVICE Complex<R> of(bool misfit) { return {Start<R>::of(misfit), Start<R>::of(misfit)}; }
  static MANSARD_DEVICE Complex<R> of(const Item& item) { return of(item.k < 0); }
};

}  // namespace mansard
