// Fragments of tensor-core instructions, read from rows that lie one behind the other in shared memory.
//
// A slot is eight columns: lane (g, t), with g = lane / 4 and t = lane % 4, holds column g of the t-th of four rows. All
// operands consist of slots: m16n8k4 multiplies two of its left operand with one of its right one, and it does not matter
// which matrix is left. `Tiling` covers any grid of slots with such pairs, upright or lying, and wastes at most half of one.
//
// The lanes' rows are LANE words apart. Where that is a multiple of the banks (or of half of them), the four rows of a
// quad begin in the same banks and a read takes CLASH = 4 (or 2) times as long. `Slots` then reads as many slots at once,
// in an order that differs from row to row, and puts them right in registers: two selects per word, no conflict. Of
// doubles only four columns are read at a time, of complex ones two: there the columns of such slots interleave.
#pragma once
#include "mansard/gpu/platform.cuh"

namespace mansard {

MANSARD_HOST_DEVICE int clashing_rows(int lane_stride, int word_bytes) {
  const int banks = 128 / word_bytes;
  return lane_stride % banks == 0 ? 4 : lane_stride % (banks / 2) == 0 ? 2 : 1;
}

template <class Word>
MANSARD_DEVICE void swap_if(bool swap, Word& x, Word& y) {
  const Word first = swap ? y : x;
  y = swap ? x : y;
  x = first;
}

template <class Word, int COUNT_, int CLASH>
struct Slots {
  static constexpr int COUNT = COUNT_;
  static constexpr int FOURS = CLASH == 4 ? COUNT / 4 * 4 : 0;  // slots read four at once
  static constexpr int TWOS = CLASH > 1 ? COUNT / 2 * 2 : 0;    // and, behind them, two at once
  static constexpr int SIDE = 32 / int(sizeof(Word));           // columns read at a time

  // Column g of a slot, counted from the first of all.
  static MANSARD_HOST_DEVICE int column(int slot, int g) {
    const int group = slot < FOURS ? 4 : slot < TWOS ? 2 : 1, first = slot / group * group;
    return first * 8 + g / SIDE * SIDE * group + (slot - first) * SIDE + g % SIDE;
  }

  int lane, four[4], two[2], turn, one;  // offsets in words of what a lane reads, from the quad's first row

  MANSARD_DEVICE Slots(int lane_stride, int g, int t, int) : lane(t * lane_stride), turn(CLASH == 4 ? t & 1 : t >> 1) {
    MANSARD_UNROLL
    for (int n = 0; n < 4; ++n) four[n] = lane + g / SIDE * SIDE * 4 + (n ^ t) * SIDE + g % SIDE;
    MANSARD_UNROLL
    for (int n = 0; n < 2; ++n) two[n] = lane + g / SIDE * SIDE * 2 + (n ^ turn) * SIDE + g % SIDE;
    one = lane + g;
  }

  MANSARD_DEVICE void load(const Word* row, int t, Word (&slot)[COUNT]) const {
    MANSARD_UNROLL
    for (int s = 0; s < FOURS; s += 4) {
      MANSARD_UNROLL
      for (int n = 0; n < 4; ++n) slot[s + n] = row[s * 8 + four[n]];
      swap_if(t & 1, slot[s], slot[s + 1]);
      swap_if(t & 1, slot[s + 2], slot[s + 3]);
      swap_if(t & 2, slot[s], slot[s + 2]);
      swap_if(t & 2, slot[s + 1], slot[s + 3]);
    }
    MANSARD_UNROLL
    for (int s = FOURS; s < TWOS; s += 2) {
      slot[s] = row[s * 8 + two[0]];
      slot[s + 1] = row[s * 8 + two[1]];
      swap_if(turn, slot[s], slot[s + 1]);
    }
    MANSARD_UNROLL
    for (int s = TWOS; s < COUNT; ++s) slot[s] = row[s * 8 + one];
  }
  // One slot alone, conflicts or not.
  MANSARD_DEVICE Word load_one(const Word* row, int s, int g) const { return row[lane + column(s, g)]; }
};

// The tiles of 16 x 8 sums that cover SLOTS_M x SLOTS_N slots: pairs of slots of A with one of B (upright), and for the
// last of an odd number of slots of A pairs of slots of B (lying). HALF leaves out what lies below the diagonal.
template <class A, class B, bool HALF>
struct Tiling {
  static constexpr int UPRIGHT = A::COUNT / 2 * B::COUNT, LAST = A::COUNT - 1;
  static constexpr int COUNT = UPRIGHT + A::COUNT % 2 * ceil_div(B::COUNT, 2);

  static MANSARD_HOST_DEVICE bool upright(int tile) { return tile < UPRIGHT; }
  // The slots of the left operand (two) and the right one.
  static MANSARD_HOST_DEVICE int left(int tile, int half) {
    const int slot = upright(tile) ? tile / B::COUNT * 2 + half : (tile - UPRIGHT) * 2 + half;
    return upright(tile) || slot < B::COUNT ? slot : B::COUNT - 1;
  }
  static MANSARD_HOST_DEVICE int right(int tile) { return upright(tile) ? tile % B::COUNT : LAST; }
  // A lying tile may have one slot twice.
  static MANSARD_HOST_DEVICE bool doubled(int tile) { return !upright(tile) && left(tile, 0) == left(tile, 1); }
  static MANSARD_HOST_DEVICE bool needed(int tile) {
    if (!HALF) return true;
    const int a = upright(tile) ? left(tile, 0) : LAST, b = upright(tile) ? right(tile) : left(tile, 1);
    const int other = upright(tile) ? left(tile, 1) : LAST;
    const int first = A::column(a, 0) < A::column(other, 0) ? A::column(a, 0) : A::column(other, 0);
    const int last = B::column(b, 7), twin = upright(tile) ? last : B::column(left(tile, 0), 7);
    return (last > twin ? last : twin) >= first;
  }
};

// A^H A by several warps. Pairs of slots are dealt out in a circle of PAIRS: a warp reads them from its own number on, and
// forms the products of pair w (and w + WARPS, w + 2 WARPS, ...) with itself and the pairs that follow, half the way round
// the circle. So every product appears once, all warps do the same work, and none has to choose: what differs is where
// they begin to read.
template <class Word, int PAIRS>
struct TurnedSlots {
  static constexpr int COUNT = 2 * PAIRS;
  int first, pair[PAIRS];  // words from the quad's first row

  MANSARD_DEVICE TurnedSlots(int lane_stride, int g, int t, int warp) : first(warp) {
    MANSARD_UNROLL
    for (int k = 0; k < PAIRS; ++k) pair[k] = t * lane_stride + column(2 * k, g);
  }
  MANSARD_DEVICE int column(int slot, int g) const { return (first + slot / 2) % PAIRS * 16 + slot % 2 * 8 + g; }
  MANSARD_DEVICE void load(const Word* row, int, Word (&slot)[COUNT]) const {
    MANSARD_UNROLL
    for (int s = 0; s < COUNT; ++s) slot[s] = row[pair[s / 2] + s % 2 * 8];
  }
  MANSARD_DEVICE Word load_one(const Word* row, int s, int) const { return row[pair[s / 2] + s % 2 * 8]; }
};

template <int PAIRS, int WARPS>
struct Turn {
  static constexpr int TURNS = PAIRS / WARPS, AHEAD = (PAIRS + 1) / 2;  // pairs of a warp, and products of each
  // Opposite pairs of an even circle: their product is needed once.
  static constexpr int OPPOSITE = PAIRS % 2 ? 0 : TURNS % 2 ? TURNS : TURNS / 2;
  static constexpr int BLOCKS = TURNS * AHEAD + OPPOSITE, COUNT = 2 * BLOCKS;
  static_assert(PAIRS % WARPS == 0, "every warp has as many pairs");

  static MANSARD_HOST_DEVICE int from(int block) {
    return (block < TURNS * AHEAD ? block / AHEAD : block - TURNS * AHEAD) * WARPS;
  }
  static MANSARD_HOST_DEVICE int to(int block) {
    return (from(block) + (block < TURNS * AHEAD ? block % AHEAD : PAIRS / 2)) % PAIRS;
  }
  static MANSARD_HOST_DEVICE bool upright(int) { return true; }
  static MANSARD_HOST_DEVICE int left(int tile, int half) { return 2 * from(tile / 2) + half; }
  static MANSARD_HOST_DEVICE int right(int tile) { return 2 * to(tile / 2) + tile % 2; }
  static MANSARD_HOST_DEVICE bool doubled(int) { return false; }
  static MANSARD_HOST_DEVICE bool needed(int) { return true; }
  // Whether the product of pair p with pair q is formed by somebody, rather than that of q with p.
  static MANSARD_DEVICE bool computed(int p, int q) {
    const int ahead = (q - p + PAIRS) % PAIRS;
    return ahead < AHEAD || (2 * ahead == PAIRS && p < q);
  }
};

}  // namespace mansard
