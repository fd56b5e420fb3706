// A matrix of run-time size, copied between global memory, where its rows have no gaps, and shared memory.
//
// In shared memory rows have no gaps either, and the matrix begins at the same distance from a 16-byte boundary as in
// global memory, so that 16-byte pieces can be moved wherever it begins. Rows of a multiple of eight elements, however,
// are padded by PAD elements, so that reads down a column do not collide in the banks.
#pragma once
#include "kernels/batched/gemm/image.cuh"
#include "mansard/gpu/async_words.cuh"

namespace mansard {

// A matrix of at most WIDTH rows and columns.
template <class T, int WIDTH, int PAD = 16 / int(sizeof(T))>
struct Laid {
  static constexpr int VECTOR = 16 / int(sizeof(T));
  static_assert(WIDTH <= 64, "32 bits for `position`");
  static_assert(PAD % VECTOR == 0, "rows of whole pieces stay on their boundaries");
  int count, pitch, pad;
  u32 inverse = 0;  // with padding and WIDTH >= 16: 2^19 / columns, rounded up, to divide by the number of columns

  MANSARD_DEVICE Laid(int rows, int columns) : count(rows * columns), pitch(columns), pad(0) {
    if (WIDTH >= 8 && columns > 0 && columns % 8 == 0) {
      pad = PAD, pitch += PAD;
      if (WIDTH >= 16) inverse = 0xffffu / (static_cast<u32>(columns) / 8) + 1;
    }
  }

  // Elements that `rows` rows need in shared memory, whatever their distance from a 16-byte boundary.
  static MANSARD_HOST_DEVICE int room(int rows, int pitch) {
    return ceil_div(rows * pitch + VECTOR - 1, VECTOR) * VECTOR;
  }
  static constexpr int PADDED = WIDTH < 8 ? 0 : WIDTH / 8 * 8 + PAD;
  static constexpr int MOST = room(WIDTH, PADDED > WIDTH ? PADDED : WIDTH);

  // Offset in shared memory of element e, in the order of global memory.
  MANSARD_DEVICE int position(int e) const {
    if constexpr (WIDTH < 8) return e;
    else if constexpr (WIDTH < 16) return e + static_cast<int>(static_cast<u32>(e) / 8) * pad;  // 8 columns
    else return e + static_cast<int>(static_cast<u32>(e) / 8 * inverse >> 16) * pad;
  }
  // Distance from the beginning of a place to the matrix that comes from, or goes to, this address.
  MANSARD_DEVICE int shift(const T* at) const { return pad == 0 ? beyond(at) : 0; }

  // Start the copies to shared memory.
  template <int THREADS>
  MANSARD_DEVICE void fill(T* place, const T* from, int rank) const {
    for_all<THREADS>(
        place + shift(from), from, rank, [](T* to, const T* one) { cp_async_word<16>(to, one); },
        [](T* to, const T* one) { cp_async_word<int(sizeof(T))>(to, one); });
  }

  // Store from shared to global memory: `place` holds products; with ACCUMULATE, beta times the old entries are added.
  template <int THREADS, bool ACCUMULATE>
  MANSARD_DEVICE void store(T* to, const T* place, const Scales& scales, int rank) const {
    for_all<THREADS>(
        place + shift(to), to, rank,
        [&](const T* from, T* one) {
          auto pack = *reinterpret_cast<const Pack<T, VECTOR>*>(from);
          if constexpr (ACCUMULATE) {
            const auto old = *reinterpret_cast<const Pack<T, VECTOR>*>(one);
            MANSARD_UNROLL
            for (int j = 0; j < VECTOR; ++j) pack.e[j] = scales.with_old(pack.e[j], old.e[j]);
          }
          store_pack(one, pack);
        },
        [&](const T* from, T* one) { *one = ACCUMULATE ? scales.with_old(*from, *one) : *from; });
  }

 private:
  // Calls piece(in shared memory, in global memory) for every aligned 16 bytes of the matrix, and loose(...) for the
  // other elements. Without padding both addresses advance in the same steps.
  template <int THREADS, class In, class Out, class Piece, class Loose>
  MANSARD_DEVICE void for_all(In* inside, Out* outside, int rank, Piece piece, Loose loose) const {
    const Pieces pieces(*this, outside);
    const int count = (pieces.end - pieces.begin) / VECTOR;
    if (pad == 0) {
      run<THREADS>(inside + pieces.begin, outside + pieces.begin, rank, count, piece);
      if constexpr (VECTOR > 1)
        deal<THREADS, 2 * (VECTOR - 1), 1>(rank, pieces.loose, [&](int i) {
          loose(inside + pieces.loose_one(i), outside + pieces.loose_one(i));
        });
    } else if constexpr (WIDTH >= 8) {
      deal<THREADS, WIDTH * WIDTH / VECTOR, 4>(rank, count, [&](int i) {
        const int e = pieces.begin + i * VECTOR;
        piece(inside + position(e), outside + e);
      });
      if constexpr (VECTOR > 1)
        deal<THREADS, WIDTH * WIDTH, 1>(rank, pieces.loose, [&](int i) {
          const int e = pieces.loose_one(i);
          loose(inside + position(e), outside + e);
        });
    }
  }

  // Move `count` consecutive pieces, distributed over the threads, four per iteration.
  template <int THREADS, class In, class Out, class Piece>
  static MANSARD_DEVICE void run(In* inside, Out* outside, int rank, int count, Piece piece) {
    constexpr int TURNS = ceil_div(WIDTH * WIDTH / VECTOR, THREADS), STEP = THREADS * VECTOR;
    inside += rank * VECTOR, outside += rank * VECTOR;
    int left = count - rank;
    if constexpr (TURNS > 4)
MANSARD_UNROLL_BY(1)
      for (; left > 3 * THREADS; left -= 4 * THREADS, inside += 4 * STEP, outside += 4 * STEP)
        MANSARD_UNROLL
        for (int j = 0; j < 4; ++j) piece(inside + j * STEP, outside + j * STEP);
    MANSARD_UNROLL
    for (int j = 0; j < (TURNS > 4 ? 3 : TURNS); ++j)
      if (left > j * THREADS) piece(inside + j * STEP, outside + j * STEP);
  }

  // Calls move(i) for the share of thread `rank` of THREADS in i < count, with count <= MOST. Up to four rounds are
  // unrolled without a loop: threads of a warp have matrices of different sizes.
  template <int THREADS, int MOST, int UNROLL, class Move>
  static MANSARD_DEVICE void deal(int rank, int count, Move move) {
    constexpr int TURNS = ceil_div(MOST, THREADS);
    if constexpr (TURNS <= 4) {
      MANSARD_UNROLL
      for (int j = 0; j < TURNS; ++j)
        if (rank + j * THREADS < count) move(rank + j * THREADS);
    } else {
MANSARD_UNROLL_BY(UNROLL)
      for (int i = rank; i < count; i += THREADS) move(i);
    }
  }
  // Elements from the 16-byte boundary before `at` to `at`.
  static MANSARD_DEVICE int beyond(const T* at) {
    return static_cast<int>(reinterpret_cast<u64>(at) % 16 / sizeof(T));
  }
  // Range [begin, end) of elements that are moved 16 bytes at a time, and the number of loose elements around it.
  // Padded rows that do not begin on 16-byte boundaries have no pieces.
  struct Pieces {
    int begin, end, loose;
    MANSARD_DEVICE Pieces(const Laid& laid, const T* at) {
      const int ahead = (VECTOR - beyond(at)) % VECTOR, after = laid.count - ahead;
      const bool none = after < VECTOR || ahead != 0 && laid.pad != 0;
      begin = none ? 0 : ahead, end = none ? 0 : ahead + after / VECTOR * VECTOR;
      loose = laid.count - (end - begin);
    }
    MANSARD_DEVICE int loose_one(int i) const { return i < begin ? i : end - begin + i; }
  };
};

}  // namespace mansard
