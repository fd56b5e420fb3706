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
  static constexpr int WIDTH = 16 / static_cast<int>(sizeof(R));                // reals of a piece
  static constexpr int STEPS = ceil_div(RECORD, WIDTH), AHEAD = STEPS < 8 ? STEPS : 8;  // pieces; under way at once

  struct alignas(16) Piece {
    R reals[WIDTH];
  };

  static MANSARD_DEVICE bool is_aligned(const R* p) { return (reinterpret_cast<u64>(p) & 15) == 0; }
  // Place in the tile of real `number` of the records in a row.
  static MANSARD_DEVICE int place(int number) { return number + number / RECORD * (SLOT - RECORD); }

  static MANSARD_DEVICE void load(R* tile, const R* from, int records) {
    const int thread = static_cast<int>(threadIdx.x), reals = records * RECORD;
    int done = 0;
    if (is_aligned(from)) {
      done = reals / WIDTH * WIDTH;
      MANSARD_UNROLL_BY(1)
      for (int step = 0; step < STEPS; step += AHEAD) {
        Piece pieces[AHEAD];
        MANSARD_UNROLL
        for (int i = 0; i < AHEAD; ++i) {
          const int first = ((step + i) * BLOCK + thread) * WIDTH;
          if (first < done) pieces[i] = *reinterpret_cast<const Piece*>(from + first);
        }
        MANSARD_UNROLL
        for (int i = 0; i < AHEAD; ++i) {
          const int first = ((step + i) * BLOCK + thread) * WIDTH;
          MANSARD_UNROLL
          for (int word = 0; word < WIDTH; ++word)
            if (first < done) tile[place(first + word)] = pieces[i].reals[word];
        }
      }
    }
    for (int i = done + thread; i < reals; i += BLOCK) tile[place(i)] = from[i];
  }

  static MANSARD_DEVICE void store(const R* tile, R* to, int records) {
    const int thread = static_cast<int>(threadIdx.x), reals = records * RECORD;
    int done = 0;
    if (is_aligned(to)) {
      done = reals / WIDTH * WIDTH;
      MANSARD_UNROLL_BY(4)
      for (int first = thread * WIDTH; first < done; first += BLOCK * WIDTH) {
        Piece piece;
        MANSARD_UNROLL
        for (int word = 0; word < WIDTH; ++word) piece.reals[word] = tile[place(first + word)];
        *reinterpret_cast<Piece*>(to + first) = piece;
      }
    }
    for (int i = done + thread; i < reals; i += BLOCK) to[i] = tile[place(i)];
  }
};

}  // namespace mansard
