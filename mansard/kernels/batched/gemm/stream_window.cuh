// Windows (window.cuh) whose copies need little address arithmetic: a thread has the same 16 bytes of every ROWS-th line,
// and lines are LINE elements apart in global memory, if that is known (not zero).
#pragma once
#include "kernels/batched/gemm/window.cuh"

namespace mansard {

// Copy lines element by element: the ends of a stack, where 16-byte pieces would reach beyond it.
template <int THREADS, int LENGTH, int PITCH, class T>
__device__ __noinline__ void copy_elements(T* to, const T* from, int lines, int length, int rank) {
MANSARD_UNROLL_BY(1)
  for (int i = rank; i < lines * length; i += THREADS) {
    const int line = i / length, e = i % length;
    to[line * PITCH + e] = from[line * LENGTH + e];
  }
}

template <class T_, int LINES, int LENGTH, int WINDOW_LINES, int WINDOW_LENGTH, Feed FEED, bool ALIGNED, int PITCH_,
          int LINE>
struct StreamWindow : Window<T_, LINES, LENGTH, WINDOW_LINES, WINDOW_LENGTH, FEED, ALIGNED, PITCH_> {
  using Base = Window<T_, LINES, LENGTH, WINDOW_LINES, WINDOW_LENGTH, FEED, ALIGNED, PITCH_>;
  using T = T_;
  using Base::PITCH, Base::VECTOR, Base::SIZE, Base::SHIFTED, Base::shift;
  // pieces of 16 bytes of a line; a line that begins anywhere has one more
  static constexpr int PIECES = ceil_div(WINDOW_LENGTH + (FEED == Feed::linear ? VECTOR - 1 : 0), VECTOR);

  // Copy the window at `line` and `position` of matrix `index`; copies may still be in flight when it returns.
  template <int THREADS, class Pointer>
  static MANSARD_DEVICE void fill(T* memory, const Place<Pointer>& place, i64 index, i64 batch, int line, int position,
                                  int rank) {
    const int lines = LINES % WINDOW_LINES == 0 ? WINDOW_LINES : min(WINDOW_LINES, LINES - line);
    const int length = LENGTH % WINDOW_LENGTH == 0 ? WINDOW_LENGTH : min(WINDOW_LENGTH, LENGTH - position);
    if constexpr (FEED == Feed::elements) {
      Base::template fill<THREADS>(memory, place, index, batch, line, position, rank);
    } else if constexpr (FEED == Feed::lines) {
      const T* from = matrix_at(place.base, place.matrix, index) + line * (LINE > 0 ? LINE : place.line) + position;
      each_piece<THREADS>(lines, rank, [&](int l, int piece) {
        copy_piece(memory + l * PITCH, LINE > 0 ? from + l * LINE : from + l * place.line, piece * VECTOR, length);
      });
    } else {
      const i64 first = index * SIZE + line * LENGTH + position;
      const T* from = place.base + first;
      T* to = memory + shift(from);
      const bool inside = !SHIFTED || first >= VECTOR && first + WINDOW_LINES * LENGTH + VECTOR <= batch * SIZE;
      if (!inside) copy_elements<THREADS, LENGTH, PITCH>(to, from, lines, length, rank);
      else if constexpr (FEED == Feed::flat) copy_run<THREADS>(to, from, lines * LENGTH, rank);
      else
        each_piece<THREADS>(lines, rank, [&](int l, int piece) {
          const T* begin = from + l * LENGTH;
          const int e = piece * VECTOR - shift(begin);
          if (e < length) cp_async16(to + l * PITCH + e, begin + e);
        });
    }
  }

 private:
  // Calls copy(line, piece) for the share of thread `rank`.
  template <int THREADS, class Copy>
  static MANSARD_DEVICE void each_piece(int lines, int rank, Copy copy) {
    if constexpr (PIECES <= THREADS) {
      constexpr int ROWS = THREADS / PIECES;
      if (THREADS % PIECES != 0 && rank >= ROWS * PIECES) return;
MANSARD_UNROLL_BY(8)
      for (int j = 0; j < WINDOW_LINES; j += ROWS)
        if (const int l = j + rank / PIECES; l < lines) copy(l, rank % PIECES);
    } else {
MANSARD_UNROLL_BY(8)
      for (int j = 0; j < WINDOW_LINES * PIECES; j += THREADS)
        if (const int l = (rank + j) / PIECES; l < lines) copy(l, (rank + j) % PIECES);
    }
  }

  // Copy 16 bytes of a line, or the elements that are left at its end.
  static MANSARD_DEVICE void copy_piece(T* to, const T* from, int e, int length) {
    if (e + VECTOR <= length) cp_async16(to + e, from + e);
    else if (LENGTH % VECTOR != 0)
      for (int i = e; i < length; ++i) to[i] = from[i];
  }

  template <int THREADS>
  static MANSARD_DEVICE void copy_run(T* to, const T* from, int elements, int rank) {
    const int skip = shift(from) - rank * VECTOR, pieces = ceil_div(elements + shift(from), VECTOR);
    constexpr int MOST = ceil_div(WINDOW_LINES * LENGTH + VECTOR - 1, VECTOR);
MANSARD_UNROLL_BY(16)
    for (int j = 0; j < MOST; j += THREADS)
      if (rank + j < pieces) cp_async16(to - skip + j * VECTOR, from - skip + j * VECTOR);
  }
};

}  // namespace mansard
