// A window of one matrix: a range of its lines, and a range of elements of these lines, copied to shared memory.
//
//   flat      full lines of a packed stack: one run of bytes, moved 16 at a time wherever it begins
//   linear    parts of lines of a packed stack, whose lines begin anywhere. PITCH equals the distance of lines in
//             global memory modulo 16 bytes, so that a 16-byte piece is one on both sides; elements outside the
//             window land between the lines
//   lines     lines begin on 16-byte boundaries
//   elements  anything else, one element at a time
//
// Elements beyond the end of the matrix are not read; their places keep their old content.
#pragma once
#include "kernels/batched/gemm/image.cuh"

namespace mansard {

template <class T_, int LINES, int LENGTH, int WINDOW_LINES, int WINDOW_LENGTH, Feed FEED, bool ALIGNED, int PITCH_>
struct Window {
  using T = T_;
  static constexpr int PITCH = PITCH_, VECTOR = 16 / int(sizeof(T)), SIZE = LINES * LENGTH;
  // the window need not begin on a 16-byte boundary
  static constexpr bool SHIFTED = FEED == Feed::linear || FEED == Feed::flat && (!ALIGNED || LENGTH % VECTOR != 0);
  static constexpr int BYTES = ceil_div(WINDOW_LINES * PITCH + (SHIFTED ? 2 * VECTOR : 0), VECTOR) * 16;
  static constexpr int READ = gcd(gcd(LENGTH, WINDOW_LENGTH), gcd(PITCH, SHIFTED ? 1 : VECTOR));
  static_assert(FEED != Feed::flat || PITCH == LENGTH && WINDOW_LENGTH == LENGTH, "whole lines");
  static constexpr bool CONGRUENT = (PITCH - LENGTH) % VECTOR == 0 && PITCH >= WINDOW_LENGTH + VECTOR - 1;
  static constexpr bool BOUNDED = PITCH % VECTOR == 0 && (WINDOW_LENGTH % VECTOR == 0 || WINDOW_LENGTH == LENGTH);
  static_assert((FEED != Feed::linear || CONGRUENT) && (FEED != Feed::lines || BOUNDED), "pieces of 16 bytes");
  static_assert(PITCH >= WINDOW_LENGTH, "lines overlap");

  // Elements from the 16-byte boundary before `at` to `at`, the window's first element.
  static MANSARD_DEVICE int shift(const T* at) {
    return SHIFTED ? static_cast<int>(reinterpret_cast<u64>(at) % 16 / sizeof(T)) : 0;
  }
  template <class Pointer>
  static MANSARD_DEVICE const T* origin(const T* memory, const Place<Pointer>& place, i64 index, int line,
                                        int position) {
    if constexpr (SHIFTED) return memory + shift(place.base + index * SIZE + line * LENGTH + position);
    else return memory;
  }

  // Copy the window at `line` and `position` of matrix `index`; copies may still be in flight when it returns.
  template <int THREADS, class Pointer>
  static MANSARD_DEVICE void fill(T* memory, const Place<Pointer>& place, i64 index, i64 batch, int line, int position,
                                  int rank) {
    const int lines = min(WINDOW_LINES, LINES - line), length = min(WINDOW_LENGTH, LENGTH - position);
    if constexpr (FEED == Feed::flat || FEED == Feed::linear) {
      const i64 first = index * SIZE + line * LENGTH + position;
      T* to = memory + shift(place.base + first);
      const bool inside = !SHIFTED || first >= VECTOR && first + WINDOW_LINES * LENGTH + VECTOR <= batch * SIZE;
      if constexpr (FEED == Feed::flat) fill_run<THREADS>(to, place.base + first, lines * LENGTH, inside, rank);
      else fill_linear<THREADS>(to, place.base + first, lines, length, inside, rank);
    } else {
      const T* from = matrix_at(place.base, place.matrix, index) + line * place.line + position * place.step;
      if constexpr (FEED == Feed::lines) fill_lines<THREADS>(memory, from, place.line, lines, length, rank);
      else fill_elements<THREADS>(memory, from, place.line, place.step, lines, length, rank);
    }
  }

 private:
  // Copy one run of elements. `inside`: the 16-byte pieces at its ends stay within the stack.
  template <int THREADS>
  static MANSARD_DEVICE void fill_run(T* to, const T* from, int elements, bool inside, int rank) {
    if (!inside) {
MANSARD_UNROLL_BY(1)
      for (int e = rank; e < elements; e += THREADS) to[e] = from[e];
      return;
    }
    const int skip = shift(from) - rank * VECTOR, pieces = ceil_div(elements + shift(from), VECTOR);
    constexpr int MOST = ceil_div(WINDOW_LINES * LENGTH + VECTOR - 1, VECTOR);
MANSARD_UNROLL_BY(8)
    for (int j = 0; j < MOST; j += THREADS)
      if (rank + j < pieces) cp_async16(to - skip + j * VECTOR, from - skip + j * VECTOR);
  }

  template <int THREADS>
  static MANSARD_DEVICE void fill_linear(T* to, const T* from, int lines, int length, bool inside, int rank) {
    constexpr int PIECES = ceil_div(WINDOW_LENGTH + VECTOR - 1, VECTOR);
MANSARD_UNROLL_BY(4)
    for (int j = 0; j < WINDOW_LINES * PIECES; j += THREADS) {
      const int line = (rank + j) / PIECES;
      const T* begin = from + line * LENGTH;
      const int e = (rank + j) % PIECES * VECTOR - shift(begin);
      if (line >= lines || e >= length) continue;
      if (inside) cp_async16(to + line * PITCH + e, begin + e);
      else
        for (int i = max(e, 0); i < min(e + VECTOR, length); ++i) to[line * PITCH + i] = begin[i];
    }
  }

  template <int THREADS>
  static MANSARD_DEVICE void fill_lines(T* to, const T* from, i64 stride, int lines, int length, int rank) {
    constexpr int PIECES = ceil_div(WINDOW_LENGTH, VECTOR);
MANSARD_UNROLL_BY(8)
    for (int j = 0; j < WINDOW_LINES * PIECES; j += THREADS) {
      const int line = (rank + j) / PIECES, e = (rank + j) % PIECES * VECTOR;
      if (line >= lines || e >= length) continue;
      if (LENGTH % VECTOR == 0 || e + VECTOR <= length) cp_async16(to + line * PITCH + e, from + line * stride + e);
      else
        for (int i = e; i < length; ++i) to[line * PITCH + i] = from[line * stride + i];
    }
  }

  template <int THREADS>
  static MANSARD_DEVICE void fill_elements(T* to, const T* from, i64 line, i64 step, int lines, int length, int rank) {
    constexpr int AT_ONCE = sizeof(T) == 16 ? 2 : 4, ALL = WINDOW_LINES * WINDOW_LENGTH;
MANSARD_UNROLL_BY(1)
    for (int begin = rank; begin < ALL; begin += AT_ONCE * THREADS) {
      const auto each = [&](auto use) {
        MANSARD_UNROLL
        for (int j = 0; j < AT_ONCE; ++j) {
          const int l = (begin + j * THREADS) / WINDOW_LENGTH, e = (begin + j * THREADS) % WINDOW_LENGTH;
          if (l < lines && e < length) use(j, l, e);
        }
      };
      T some[AT_ONCE];
      each([&](int j, int l, int e) { some[j] = from[l * line + e * step]; });
      each([&](int j, int l, int e) { to[l * PITCH + e] = some[j]; });
    }
  }
};

}  // namespace mansard
