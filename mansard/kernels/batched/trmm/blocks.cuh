// Square blocks of a triangle on their way to shared memory, and the order in which a product needs them.
#pragma once
#include "kernels/batched/gemm/window.cuh"

namespace mansard {

enum class Part { whole, falling, rising };  // of a window: all of it, or one triangle, line by line longer or shorter

// Copy a part of a window of LINES x LENGTH elements, whose lines are parts of lines of OF_MATRIX elements. `lines` and
// `length` of them exist. Pieces of 16 bytes without a wanted element are skipped, and those that would reach beyond the
// stack are copied element by element: unlike Window::fill, which does so with the whole first and last matrix.
template <class Window, Feed FEED, int LINES, int LENGTH, int OF_MATRIX, Part PART, int THREADS, class Pointer>
MANSARD_DEVICE void fill_part(typename Window::T* memory, const Place<Pointer>& place, i64 index, i64 batch, int line,
                              int position, int lines, int length, int rank) {
  using T = typename Window::T;
  constexpr bool RUN = FEED == Feed::flat, LINEAR = FEED == Feed::linear || RUN;  // RUN: all lines are one
  constexpr int VECTOR = Window::VECTOR, SIZE = Window::SIZE, PITCH = RUN ? 0 : Window::PITCH;
  constexpr int WIDTH = FEED == Feed::elements ? 1 : VECTOR;  // elements of a piece
  constexpr int PIECES = ceil_div((RUN ? LINES * LENGTH : LENGTH) + (LINEAR ? VECTOR - 1 : 0), WIDTH);
  static_assert(!RUN || PART == Part::whole && LENGTH == OF_MATRIX, "whole lines");
  static_assert(LINEAR || FEED == Feed::lines || FEED == Feed::elements, "feeds of windows");
  const T* from;
  T* to = memory;
  i64 distance = OF_MATRIX, before = 0, behind = 0;  // elements of the stack before the window, and from its begin on
  if constexpr (LINEAR) {
    before = index * SIZE + line * OF_MATRIX + position;
    behind = batch * SIZE - before;
    from = place.base + before;
    to += Window::shift(from);
  } else {
    from = matrix_at(place.base, place.matrix, index) + line * place.line + position * place.step;
    distance = place.line;
  }
  const int count = RUN ? 1 : lines, end = RUN ? lines * LENGTH : length;
MANSARD_UNROLL_BY(8)
  for (int j = 0; j < (RUN ? 1 : LINES) * PIECES; j += THREADS) {
    const int l = RUN ? 0 : (rank + j) / PIECES;
    const int low = PART == Part::rising ? l : 0, high = PART == Part::falling ? l + 1 : end;
    const T* begin = from + l * distance;
    const int e = (RUN ? rank + j : (rank + j) % PIECES) * WIDTH - (LINEAR ? Window::shift(begin) : 0);
    if (l >= count || e + WIDTH <= low || e >= high) continue;
    if constexpr (FEED == Feed::elements) {
      to[l * PITCH + e] = begin[e * place.step];
    } else {
      const i64 at = l * distance + e;
      const bool inside = LINEAR ? at >= -before && at + VECTOR <= behind : OF_MATRIX % VECTOR == 0 || e + VECTOR <= end;
      if (inside) cp_async16(to + l * PITCH + e, begin + e);
      else
        for (int i = max(e, low); i < min(e + VECTOR, high); ++i) to[l * PITCH + i] = begin[i];
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
