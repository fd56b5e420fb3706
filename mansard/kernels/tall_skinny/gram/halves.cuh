// Products of floats on TF32 units: x y = high high + high low + low high, smallest first. The units truncate, so that chains
// of sums must be short; and splitting does not survive infinities and NaNs (`watched` tells).
#pragma once
#include "kernels/tall_skinny/gram/slots.cuh"
#include "mansard/gpu/mma.cuh"

namespace mansard {

template <class Tiles, int SLOTS_M, int SLOTS_N>
MANSARD_DEVICE void multiply_halves(float (&sums)[Tiles::COUNT][4], const u32 (&a)[2][SLOTS_M], const u32 (&b)[2][SLOTS_N]) {
  MANSARD_UNROLL
  for (int tile = 0; tile < Tiles::COUNT; ++tile) {
    if (!Tiles::needed(tile)) continue;
    u32 left[4], right[2];
    MANSARD_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int slot = Tiles::left(tile, i % 2);
      left[i] = Tiles::upright(tile) ? a[i / 2][slot] : b[i / 2][slot];
    }
    MANSARD_UNROLL
    for (int z = 0; z < 2; ++z) right[z] = Tiles::upright(tile) ? b[z][Tiles::right(tile)] : a[z][Tiles::right(tile)];
    mma_tf32_m16n8k8(sums[tile], left, right);
  }
}

// Adds the products of two steps of slots, from step `first` on.
template <class Tiles, int STEPS, int SLOTS_M, int SLOTS_N>
MANSARD_DEVICE void multiply_thrice(float (&sums)[Tiles::COUNT][4], const float (&slots_a)[STEPS][SLOTS_M],
                                    const float (&slots_b)[STEPS][SLOTS_N], int first) {
  u32 high_a[2][SLOTS_M], low_a[2][SLOTS_M], high_b[2][SLOTS_N], low_b[2][SLOTS_N];
  MANSARD_UNROLL
  for (int z = 0; z < 2; ++z) {
    MANSARD_UNROLL
    for (int s = 0; s < SLOTS_M; ++s) split_tf32(slots_a[first + z][s], high_a[z][s], low_a[z][s]);
    MANSARD_UNROLL
    for (int s = 0; s < SLOTS_N; ++s) split_tf32(slots_b[first + z][s], high_b[z][s], low_b[z][s]);
  }
  multiply_halves<Tiles>(sums, low_a, high_b);  // tile by tile inside, so that no instruction waits for the one before it
  multiply_halves<Tiles>(sums, high_a, low_b);
  multiply_halves<Tiles>(sums, high_a, high_b);
}

// A chain of sums that the units add to. It ends after so many rows that truncation does not count.
template <int TILES, int ROWS>
struct Chain {
  static constexpr int CHUNKS = ROWS < 128 ? 128 / ROWS : 1;  // of ROWS rows, to a chain
  int left = CHUNKS;
  float sums[TILES][4] = {};

  // Called once per chunk: whether it was the chain's last.
  MANSARD_DEVICE bool is_long() { return CHUNKS == 1 || --left == 0; }
  MANSARD_DEVICE void end(float (&to)[TILES][4]) {
    MANSARD_UNROLL
    for (int i = 0; i < 4 * TILES; ++i) to[i / 4][i % 4] += sums[i / 4][i % 4];
    restart();
  }
  MANSARD_DEVICE void restart() {
    left = CHUNKS;
    MANSARD_UNROLL
    for (int i = 0; i < 4 * TILES; ++i) sums[i / 4][i % 4] = 0;
  }
};
template <int TILES>
struct Chain<TILES, 0> {};  // nobody needs one

// Whether no tile before this one has the same slots on the left, or the same one on the right.
template <class Tiles>
MANSARD_HOST_DEVICE bool first_of_left(int tile) {
  for (int i = 0; i < tile; ++i)
    if (Tiles::needed(i) && Tiles::upright(i) == Tiles::upright(tile) && Tiles::left(i, 0) == Tiles::left(tile, 0)) return false;
  return Tiles::needed(tile);
}
template <class Tiles>
MANSARD_HOST_DEVICE bool first_of_right(int tile) {
  for (int i = 0; i < tile; ++i)
    if (Tiles::needed(i) && Tiles::upright(i) == Tiles::upright(tile) && Tiles::right(i) == Tiles::right(tile)) return false;
  return Tiles::needed(tile);
}

// Finite if no infinity or NaN went into sums of TF32 products: the low half of one is a NaN, which spreads over a whole row
// or column, so that one entry of each is enough to see it.
template <class Tiles>
MANSARD_DEVICE float watched(const float (&sums)[Tiles::COUNT][4]) {
  float seen[2] = {};
  MANSARD_UNROLL
  for (int tile = 0; tile < Tiles::COUNT; ++tile) {
    const bool rows = first_of_left<Tiles>(tile), columns = first_of_right<Tiles>(tile);
    if (rows || columns) seen[tile % 2] += sums[tile][0];
    if (rows) seen[tile % 2] += sums[tile][2];
    if (columns) seen[tile % 2] += sums[tile][1];
  }
  return fabsf(seen[0]) + fabsf(seen[1]);
}

}  // namespace mansard
