// A matrix on its way between global and shared memory, sizes known at run time: rows follow each other without gaps in
// memory, and `pad` elements apart in shared memory, so that reads down a column do not collide in the banks. Pieces of
// 16 bytes are moved where the matrix begins on a 16-byte boundary, elements elsewhere.
#pragma once
#include "families/gemm/image.cuh"
#include "mansard/async_words.cuh"

namespace mansard {

template <class T>
struct Laid {
  static constexpr int VECTOR = 16 / int(sizeof(T));
  int count, pitch, pad;
  u32 inverse;  // of the number of columns, times 2^32

  MANSARD_DEVICE Laid(int rows, int columns)
      : count(rows * columns), pitch(columns + (columns % 8 == 0 ? VECTOR : 0)), pad(pitch - columns),
        inverse(columns > 1 ? 0xffffffffu / static_cast<u32>(columns) + 1 : 0) {}

  // Elements that a matrix of at most so many rows and columns may take.
  static MANSARD_HOST_DEVICE int most(int width) { return width * (width + VECTOR); }

  // Of element e, in the order of memory.
  MANSARD_DEVICE int position(int e) const {
    return e + static_cast<int>(static_cast<u64>(static_cast<u32>(e)) * inverse >> 32) * pad;
  }
  static MANSARD_DEVICE bool in_pieces(const T* at) { return reinterpret_cast<u64>(at) % 16 == 0; }

  // Copies are under way when it returns.
  template <int THREADS>
  MANSARD_DEVICE void fill(T* to, const T* from, int rank) const {
    int done = 0;
    if (in_pieces(from)) {
      done = count / VECTOR * VECTOR;
MANSARD_UNROLL_BY(4)
      for (int e = rank * VECTOR; e < done; e += THREADS * VECTOR) cp_async_word<16>(to + position(e), from + e);
    }
MANSARD_UNROLL_BY(2)
    for (int e = done + rank; e < count; e += THREADS) cp_async_word<int(sizeof(T))>(to + position(e), from + e);
  }

  // The way back: `from` holds products; old entries are added where ACCUMULATE says so.
  template <int THREADS, bool ACCUMULATE>
  MANSARD_DEVICE void store(T* to, const T* from, const Scales& scales, int rank) const {
    int done = 0;
    if (in_pieces(to)) {
      done = count / VECTOR * VECTOR;
MANSARD_UNROLL_BY(2)
      for (int e = rank * VECTOR; e < done; e += THREADS * VECTOR) {
        auto pack = *reinterpret_cast<const Pack<T, VECTOR>*>(from + position(e));
        if constexpr (ACCUMULATE) {
          const auto old = *reinterpret_cast<const Pack<T, VECTOR>*>(to + e);
          MANSARD_UNROLL
          for (int i = 0; i < VECTOR; ++i) pack.e[i] = scales.with_old(pack.e[i], old.e[i]);
        }
        store_pack(to + e, pack);
      }
    }
MANSARD_UNROLL_BY(1)
    for (int e = done + rank; e < count; e += THREADS) {
      T value = from[position(e)];
      if constexpr (ACCUMULATE) value = scales.with_old(value, to[e]);
      to[e] = value;
    }
  }
};

}  // namespace mansard
