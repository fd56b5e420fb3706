// Pieces of one triangle, 32 rows x BLK_K columns: how they are copied to shared memory and lie there.
//
// Rows and columns are numbered in the order in which unknowns become known: an upper triangle begins at its end, and
// its last block extends beyond the beginning of the matrix. Copies move 16 bytes from and to 16-byte boundaries. Where
// lines begin elsewhere (SHIFTED), each line has its own shift in shared memory; other elements in its first and last
// 16 bytes are not used. Entries of the other triangle are not copied.
#pragma once
#include "kernels/batched/gemm/image.cuh"
#include "mansard/gpu/async_words.cuh"

namespace mansard {

template <class P>
struct Pieces {
  using T = typename P::T;
  static constexpr bool ROW_MAJOR = P::LAYOUT_A != Layout::col;
  static constexpr bool FALLING = ROW_MAJOR != P::UPPER;  // lines extend from the matrix's edge to the diagonal
  static constexpr bool SHIFTED = P::FEED_A == Feed::linear, SINGLE = P::FEED_A == Feed::elements;
  static constexpr bool EVEN = P::N % 32 == 0;
  static constexpr int VECTOR = SINGLE ? 1 : 16 / int(sizeof(T));
  static constexpr int LINES = ROW_MAJOR ? 32 : P::BLK_K, LENGTH = ROW_MAJOR ? P::BLK_K : 32;
  static constexpr int PITCH = LENGTH + VECTOR;  // 16-byte loads of neighbouring lines hit different banks
  static constexpr int BYTES = ceil_div(LINES * PITCH * int(sizeof(T)), 16) * 16;
  static constexpr int READ = ROW_MAJOR && !SHIFTED ? VECTOR : 1;  // columns that are loaded at once
  static_assert(32 % P::BLK_K == 0 && LENGTH % VECTOR == 0, "whole pieces, of whole 16 bytes");

  // A piece's first line and the position of its first element there; negative before the beginning of the matrix.
  struct Origin {
    int line, position;
    MANSARD_DEVICE Origin(int block, int piece) {
      const int row = P::UPPER ? P::N - 32 - 32 * block : 32 * block;
      const int column = P::UPPER ? P::N - P::BLK_K - P::BLK_K * piece : P::BLK_K * piece;
      line = ROW_MAJOR ? row : column, position = ROW_MAJOR ? column : row;
    }
  };

  // Distance of each line of a piece from the 16-byte boundary before it, for a matrix whose lines are `stride` apart.
  struct Shifts {
    u32 first, stride;
    MANSARD_DEVICE Shifts(const T* matrix, i64 stride, Origin at)
        : first(static_cast<u32>(reinterpret_cast<u64>(matrix) / sizeof(T)) +
                static_cast<u32>(at.line) * static_cast<u32>(stride) + static_cast<u32>(at.position)),
          stride(static_cast<u32>(stride)) {}
    MANSARD_DEVICE int of(int line) const {
      return SHIFTED ? static_cast<int>((first + static_cast<u32>(line) * stride) % VECTOR) : 0;
    }
  };

  static MANSARD_DEVICE void copy_one(T* to, const T* from) {
    using R = typename Scalar<T>::Real;  // complex numbers may be aligned as reals only
    MANSARD_UNROLL
    for (int i = 0; i < Scalar<T>::WORDS; ++i)
      cp_async_word<int(sizeof(R))>(reinterpret_cast<R*>(to) + i, reinterpret_cast<const R*>(from) + i);
  }

  // Whether VECTOR elements of a line from `begin` on contain an entry of the triangle.
  static MANSARD_DEVICE bool wanted(Origin at, int line, int begin) {
    const int last = begin + VECTOR - 1;
    bool inside = FALLING ? begin <= line : last >= line;
    if constexpr (SHIFTED) inside = inside && begin < at.position + LENGTH;
    if constexpr (!EVEN && P::UPPER) inside = inside && line >= 0 && (!FALLING || last >= 0);
    if constexpr (!EVEN && !P::UPPER) inside = inside && line < P::N && (FALLING || begin < P::N);
    return inside;
  }

  // Start the copies of a piece; called by all lanes of a warp.
  template <class Place>
  static MANSARD_DEVICE void fill(T* memory, const T* matrix, const Place& place, Origin at, int lane) {
    const T* origin = matrix + at.line * place.line + at.position * place.step;
    if constexpr (SINGLE) {
MANSARD_UNROLL_BY(4)
      for (int i = lane; i < LINES * LENGTH; i += 32) {
        const int line = i / LENGTH, e = i % LENGTH;
        if (wanted(at, at.line + line, at.position + e))
          copy_one(memory + line * PITCH + e, origin + line * place.line + e * place.step);
      }
    } else {
      constexpr int CHUNKS = LENGTH / VECTOR, STEP = 32 / CHUNKS;  // a lane copies one chunk of every STEP-th line
      static_assert(32 % CHUNKS == 0 && STEP % VECTOR == 0, "which all have the same shift");
      const Shifts shifts(matrix, place.line, at);
      const int first = lane / CHUNKS, chunk = lane % CHUNKS * VECTOR, offset = chunk - shifts.of(first);
      const T* from = origin + first * place.line + offset;
      T* to = memory + first * PITCH + chunk;
      MANSARD_UNROLL
      for (int line = 0; line < LINES; line += STEP, from += STEP * place.line)
        if (LINES % STEP == 0 || first + line < LINES)
          copy(to + line * PITCH, from, at, at.line + first + line, at.position + offset);
      if constexpr (SHIFTED) {  // the last, partial chunk of each line
        const int rest = LENGTH - shifts.of(lane);
        if (LINES == 32 || lane < LINES)
          copy(memory + lane * PITCH + LENGTH, origin + lane * place.line + rest, at, at.line + lane,
               at.position + rest);
      }
    }
  }

 private:
  // Copy VECTOR elements of a line from `begin` on.
  static MANSARD_DEVICE void copy(T* to, const T* from, Origin at, int line, int begin) {
    if (!wanted(at, line, begin)) return;
    const bool first = line == 0 && begin < 0, last = line == P::N - 1 && begin + VECTOR > P::N;
    if (SHIFTED && (first || last)) copy_inside(to, from, begin);
    else cp_async16(to, from);
  }
  // Copy only elements inside the matrix: memory before and behind it may not be accessible. Not inlined, since rare.
  static __device__ __noinline__ void copy_inside(T* to, const T* from, int begin) {
    for (int e = 0; e < VECTOR; ++e)
      if (begin + e >= 0 && begin + e < P::N) copy_one(to + e, from + e);
  }
};

// A piece in shared memory.
template <class P>
struct Piece {
  using Of = Pieces<P>;
  using T = typename P::T;
  const T* memory;
  typename Of::Shifts shifts;

  MANSARD_DEVICE const T* at(int row, int column) const {
    const int r = P::UPPER ? 31 - row : row, c = P::UPPER ? P::BLK_K - 1 - column : column;
    const int line = Of::ROW_MAJOR ? r : c, position = Of::ROW_MAJOR ? c : r;
    return memory + line * Of::PITCH + shifts.of(line) + position;
  }
  // Load READ entries of a row from `column` on.
  MANSARD_DEVICE void load(T* entries, int row, int column) const {
    const auto pack = *reinterpret_cast<const Pack<T, Of::READ>*>(at(row, P::UPPER ? column + Of::READ - 1 : column));
    MANSARD_UNROLL
    for (int i = 0; i < Of::READ; ++i) entries[i] = pack.e[P::UPPER ? Of::READ - 1 - i : i];
  }
};

}  // namespace mansard
