// A tile of records, one per thread, between consecutive global memory and slots of odd length in shared memory.
//
// Slots of an odd number of reals let 32 threads read the same entry of their records without bank conflicts. All
// threads of the block copy together, 16 bytes at a time where global memory is aligned. The caller has barriers before
// and after.
//
//   RECORD  reals of a record
//   BLOCK   threads of a block: the most records of a tile
#pragma once
#include "mansard/gpu/complex.cuh"

namespace mansard {

template <class R, int RECORD, int BLOCK>
struct Tile {
  static constexpr int SLOT = RECORD | 1, REALS = SLOT * BLOCK;
  static constexpr int WIDTH = 16 / static_cast<int>(sizeof(R));                    // reals of a piece
  static constexpr int STEPS = ceil_div(RECORD, WIDTH), AHEAD = STEPS < 8 ? STEPS : 8;  // pieces; under way at once
  static constexpr u32 STRIDE = BLOCK * WIDTH;                                      // reals from step to step

  struct alignas(16) Piece {
    R reals[WIDTH];
  };

  static MANSARD_DEVICE bool is_aligned(const R* p) { return (reinterpret_cast<u64>(p) & 15) == 0; }
  // Place in the tile of real `number` of the records in a row.
  static MANSARD_DEVICE u32 place(u32 number) { return number + number / RECORD * (SLOT - RECORD); }
  // Place of a thread's real `word` in its piece number `step`; a sum of constants where steps are whole records.
  static MANSARD_DEVICE u32 place(u32 thread, u32 step, u32 word) {
    if constexpr (STRIDE % RECORD == 0 && RECORD % WIDTH == 0)
      return place(thread * WIDTH) + step * (STRIDE / RECORD * SLOT) + word;
    else if constexpr (RECORD % WIDTH == 0) return place(thread * WIDTH + step * STRIDE) + word;
    else return place(thread * WIDTH + step * STRIDE + word);
  }

  static MANSARD_DEVICE void load(R* tile, const R* from, int records) {
    const u32 thread = threadIdx.x, reals = records * RECORD, done = is_aligned(from) ? reals / WIDTH * WIDTH : 0;
    if (done > 0) {
      MANSARD_UNROLL_BY(1)
      for (u32 step = 0; step < STEPS; step += AHEAD) {
        Piece pieces[AHEAD];
        MANSARD_UNROLL
        for (u32 i = 0; i < AHEAD; ++i) {
          const u32 first = thread * WIDTH + (step + i) * STRIDE;
          if (first < done) pieces[i] = *reinterpret_cast<const Piece*>(from + first);
        }
        MANSARD_UNROLL
        for (u32 i = 0; i < AHEAD; ++i) {
          if (thread * WIDTH + (step + i) * STRIDE < done) {
            MANSARD_UNROLL
            for (u32 word = 0; word < WIDTH; ++word) tile[place(thread, step + i, word)] = pieces[i].reals[word];
          }
        }
      }
    }
    MANSARD_UNROLL_BY(1)
    for (u32 i = done + thread; i < reals; i += BLOCK) tile[place(i)] = from[i];
  }

  static MANSARD_DEVICE void store(const R* tile, R* to, int records) {
    const u32 thread = threadIdx.x, reals = records * RECORD, done = is_aligned(to) ? reals / WIDTH * WIDTH : 0;
    if (done > 0) {
      MANSARD_UNROLL_BY(1)
      for (u32 step = 0; step < STEPS; step += AHEAD) {
        MANSARD_UNROLL
        for (u32 i = 0; i < AHEAD; ++i) {
          const u32 first = thread * WIDTH + (step + i) * STRIDE;
          if (first < done) {
            Piece piece;
            MANSARD_UNROLL
            for (u32 word = 0; word < WIDTH; ++word) piece.reals[word] = tile[place(thread, step + i, word)];
            *reinterpret_cast<Piece*>(to + first) = piece;
          }
        }
      }
    }
    MANSARD_UNROLL_BY(1)
    for (u32 i = done + thread; i < reals; i += BLOCK) to[i] = tile[place(i)];
  }
};

}  // namespace mansard
