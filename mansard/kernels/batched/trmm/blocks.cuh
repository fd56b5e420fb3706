// Square blocks of a triangle on their way to shared memory, and the order in which a product needs them.
#pragma once
#include "kernels/batched/gemm/window.cuh"

namespace mansard {

// Copy the referenced half of a square block on the diagonal, which begins at line and position `first` and has `count`
// lines; 16-byte pieces without a referenced entry are skipped. FALLING: lines are rows of a lower triangle or columns
// of an upper one. `Window` has equal extents and another feed than flat.
template <class Window, Feed FEED, int ORDER, int LENGTH, bool FALLING, int THREADS, class Pointer>
MANSARD_DEVICE void fill_half(typename Window::T* memory, const Place<Pointer>& place, i64 index, i64 batch, int first,
                              int count, int rank) {
  using T = typename Window::T;
  constexpr int VECTOR = Window::VECTOR, SIZE = Window::SIZE, PITCH = Window::PITCH;
  static_assert(FEED == Feed::linear || FEED == Feed::lines || FEED == Feed::elements, "line by line");
  const T* from;
  T* to = memory;
  bool inside = true;  // 16-byte pieces stay within the stack
  i64 distance = LENGTH;
  if constexpr (FEED == Feed::linear) {
    const i64 begin = index * SIZE + first * (LENGTH + 1);
    from = place.base + begin;
    to += Window::shift(from);
    inside = begin >= VECTOR && begin + ORDER * LENGTH + VECTOR <= batch * SIZE;
  } else {
    from = matrix_at(place.base, place.matrix, index) + first * (place.line + place.step);
    distance = place.line;
  }
  constexpr int WIDTH = FEED == Feed::elements ? 1 : VECTOR;  // elements of a piece
  constexpr int PIECES = ceil_div(ORDER + (FEED == Feed::linear ? VECTOR - 1 : 0), WIDTH);
MANSARD_UNROLL_BY(8)
  for (int j = 0; j < ORDER * PIECES; j += THREADS) {
    const int line = (rank + j) / PIECES, low = FALLING ? 0 : line, high = FALLING ? line + 1 : count;
    const T* begin = from + line * distance;
    const int e = (rank + j) % PIECES * WIDTH - (FEED == Feed::linear ? Window::shift(begin) : 0);
    if (line >= count || e + WIDTH <= low || e >= high) continue;
    if constexpr (FEED == Feed::elements) {
      to[line * PITCH + e] = begin[e * place.step];
    } else if (inside && (FEED == Feed::linear || LENGTH % VECTOR == 0 || e + VECTOR <= count)) {
      cp_async16(to + line * PITCH + e, begin + e);
    } else {
      for (int i = max(e, low); i < min(e + VECTOR, high); ++i) to[line * PITCH + i] = begin[i];
    }
  }
}

// Iterates over the blocks of one triangle, block row by block row: up to the diagonal, or (UPPER) from it.
// ALONE: over one block row only.
template <int BLOCKS, bool UPPER, bool ALONE>
struct TriangleWalk {
  int row, column;
  MANSARD_DEVICE explicit TriangleWalk(int row) : row(row), column(UPPER ? row : 0) {}
  MANSARD_DEVICE bool is_last() const { return column == (UPPER ? BLOCKS - 1 : row); }
  MANSARD_DEVICE bool done() const { return row == BLOCKS; }
  MANSARD_DEVICE void advance() {
    if (!is_last()) {
      ++column;
      return;
    }
    row = ALONE ? BLOCKS : row + 1;
    column = UPPER ? row : 0;
  }
};

}  // namespace mansard
