// The products of a ragged batch as its kernels take them: one record each, sorted by size, the largest first.
#pragma once
#include "mansard/gpu/complex.cuh"

namespace mansard {

// op(A) is m x k, op(B) k x n; a, b and c say where the matrices begin, in elements. k is -1 where the sizes of the
// operands do not fit: such a C becomes NaN.
struct Item {
  i64 a, b, c;
  int m, n, k, unused;
};

// Sizes, by the largest of m, n and k: more than 128, up to 128, 64, 32, 24, 16, 12, 8, 4. Matrices times a column
// (n = 1): more than 256, up to 256, 32, 16, 8, where it is more than four. Then rows (m = 1) of more than 32; then
// what has no entries. FROM: what is larger goes with what has up to 32, where a kernel computes what exists.
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

// What a block has of a class, UNIT products at a time. EACH: so many times, one after the other, then the next block
// takes its place, so that all that are at work are close together in memory, which is worth 5 % of its bandwidth. Where
// nobody knows how many blocks that makes (EACH = 0), blocks stay, and take every gridDim-th.
template <class P, int UNIT>
struct Share {
  static constexpr int TIMES = P::EACH ? P::EACH : 1;
  const i64 begin, end, step;
  MANSARD_DEVICE Share(const i64* starts)
      : begin(starts[P::CLASS] + static_cast<i64>(blockIdx.x) * UNIT * TIMES),
        end(P::EACH ? min(starts[P::CLASS + 1], begin + UNIT * TIMES) : starts[P::CLASS + 1]),
        step(P::EACH ? UNIT : static_cast<i64>(gridDim.x) * UNIT) {}
};

// Which of `many` that share a product begins: others for other products, in no order that a stride could meet.
MANSARD_DEVICE int beginner(i64 product, int many) {
  return static_cast<int>((static_cast<u32>(product) * 2654435761u >> 16) % static_cast<u32>(many));
}

// What a sum begins with: NaN, where sizes do not fit.
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
