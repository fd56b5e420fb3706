// Copies of triangles that skip 16-byte pieces outside the triangle.
#pragma once
#include "kernels/batched/gemm/image.cuh"

namespace mansard {

// Like Image::fill for a packed stack of triangles, but pieces of 16 bytes without an entry of the triangle are
// skipped. FALLING: lines are rows of a lower triangle or columns of an upper one; otherwise the other way round.
// Pieces that straddle the end of a line or of a matrix are always copied.
template <class Image, bool FALLING, int THREADS, class Pointer>
MANSARD_DEVICE void fill_triangles(typename Image::T* memory, const Place<Pointer>& place, i64 first, int count,
                                   i64 batch, int rank) {
  constexpr int VECTOR = Image::VECTOR, SIZE = Image::SIZE, LENGTH = Image::LENGTH, GROUP = Image::GROUP;
  static_assert(Image::FEED == Feed::flat, "a group is one run of bytes");
  const auto* from = place.base + first * SIZE;
  const int skip = Image::shift(from);
  const bool whole = !Image::SHIFTED || first * SIZE >= skip && (first + GROUP) * SIZE + VECTOR - 1 <= batch * SIZE;
  if (count < GROUP || !whole) return Image::template fill<THREADS>(memory, place, first, count, batch, rank);
  const auto* pieces = from - skip + rank * VECTOR;
  Image::template deal<Image::PIECES, THREADS>(rank, [&](int i, int j) {
    const int begin = Image::SHIFTED ? (i * VECTOR + SIZE - skip) % SIZE : i * VECTOR % SIZE;
    const int line = begin / LENGTH, at = begin - line * LENGTH;
    const bool inside = FALLING ? at <= line : at + VECTOR - 1 >= line;
    const bool there = !Image::SHIFTED || i + 1 < Image::PIECES || i * VECTOR < skip + GROUP * SIZE;
    if ((inside || at + VECTOR > LENGTH) && there) cp_async16(memory + Image::position(i * VECTOR), pieces + j * VECTOR);
  });
}

}  // namespace mansard
