// Substitution for eight rows of a triangle by a quad of lanes: lane t has rows 2 t and 2 t + 1 of COLUMNS columns of X.
//
// Two rows at a time: lane t finds x_2t, subtracts its product from row 2 t + 1, and finds x_2t+1. A shuffle brings both
// to the lanes after it, which subtract products with both: a chain of four shuffles instead of eight.
//
// A quotient is x times a reciprocal of two numbers: x * inverse + x * tail, rounded once, is as accurate as a division,
// and the rows, which wait for each other, wait for two operations instead of three.
//
// Whether a quotient was extreme is checked once for all rows, since a branch per row would delay the shuffles. If one
// was, the rows are solved again with exact divisions.
//
// Shared memory: an 8 x 8 block has rows of four pieces of 16 bytes, and piece e of row r lies at e ^ spread(r / 2).
// Quads read their own rows of one block, 128 bytes apart; in row-major order that would be the same four banks for all.
#pragma once
#include "kernels/batched/trsm/diagonal.cuh"

namespace mansard {

// 0, 2, 3, 1: pieces e ^ spread(t) of four lanes t are different ones, and so are pieces t ^ spread(t).
MANSARD_DEVICE int spread(int t) { return 0x78 >> 2 * t & 3; }

// Offset of an entry in a block of 8 x 8; entries of even and of the next column are adjacent.
MANSARD_DEVICE int in_block(int row, int column) {
  return row * 8 + (column / 2 ^ spread(row / 2)) * 2 + column % 2;
}

template <class P, int COLUMNS>
struct EightRows {
  static constexpr int ENTRIES = 2 * COLUMNS;
  using Number = Divisor<double, P::INVERT>;
  int turn;  // rank of the lane in its quad: it has rows 2 turn and 2 turn + 1

  // Solve. x[2 c + s] is row 2 turn + s of column c: a right-hand side before, a solution afterwards. `block` is the
  // 8 x 8 triangle (in_block).
  MANSARD_DEVICE void solve(double (&x)[ENTRIES], const double* block) const {
    double entries[2][8];
    MANSARD_UNROLL
    for (int e = 0; e < 16; e += 2) {
      const Pack<double, 2> pair = piece(block, e / 8, e % 8 / 2);
      entries[e / 8][e % 8] = pair.e[0], entries[e / 8][e % 8 + 1] = pair.e[1];
    }
    const Pack<double, 2> upper = piece(block, 0, turn), lower = piece(block, 1, turn);  // on the diagonal
    Number by[2];
    double tail[2];  // what the inverses lack to be exact
    if constexpr (!P::UNIT) {
      const double numbers[2] = {upper.e[0], lower.e[1]};
      MANSARD_UNROLL
      for (int s = 0; s < 2; ++s) {
        by[s].prepare(numbers[s]);
        tail[s] = fma(-by[s].inverse, numbers[s], 1.0) * by[s].inverse;
      }
    }
    double before[ENTRIES], numerators[ENTRIES];
    MANSARD_UNROLL
    for (int i = 0; i < ENTRIES; ++i) before[i] = x[i];
    const auto quotient = [&](double number, int s) {
      if constexpr (P::UNIT) return number;
      else return P::INVERT ? number * by[s].inverse : fma(number, by[s].inverse, number * tail[s]);
    };
    MANSARD_UNROLL
    for (int pair = 0; pair < 4; ++pair)
      MANSARD_UNROLL
      for (int i = 0; i < ENTRIES; i += 2) {
        const double first = quotient(x[i], 0), rest = fma(-lower.e[0], first, x[i + 1]);
        const double known[2] = {from_lane<4>(first, pair), from_lane<4>(quotient(rest, 1), pair)};
        if (turn == pair || pair == 0) numerators[i] = x[i], numerators[i + 1] = rest;
        MANSARD_UNROLL
        for (int s = 0; s < 2; ++s)  // x of solved lanes is not used any more
          MANSARD_UNROLL
          for (int k = 0; k < 2; ++k) x[i + s] = fma(-entries[s][2 * pair + k], known[k], x[i + s]);
      }
    bool usual = true;
    MANSARD_UNROLL
    for (int i = 0; i < ENTRIES; ++i) {
      x[i] = quotient(numerators[i], i % 2);
      if constexpr (!P::UNIT) usual = usual & holds(by[i % 2], numerators[i]);
    }
    if constexpr (!P::UNIT) {
      if (!__all_sync(~0u, usual)) {
        MANSARD_UNROLL
        for (int i = 0; i < ENTRIES; ++i) x[i] = before[i];
        solve_carefully(x, block, by);
      }
    }
  }

 private:
  // Columns 2 e and 2 e + 1 of row 2 turn + s.
  MANSARD_DEVICE Pack<double, 2> piece(const double* block, int s, int e) const {
    return *reinterpret_cast<const Pack<double, 2>*>(block + in_block(2 * turn + s, 2 * e));
  }
  // Solve with exact divisions where needed; rare, so its loops are not unrolled.
  MANSARD_DEVICE void solve_carefully(double (&x)[ENTRIES], const double* block, const Number (&by)[2]) const {
MANSARD_UNROLL_BY(1)
    for (int k = 0; k < 8; ++k)
      MANSARD_UNROLL
      for (int i = 0; i < ENTRIES; i += 2) {
        const bool second = k % 2 == 1, own = turn == k / 2;
        const double mine = second ? x[i + 1] : x[i];
        const double quotient = second ? by[1].divide(mine, own) : by[0].divide(mine, own);
        const double known = from_lane<4>(quotient, k / 2);
        MANSARD_UNROLL
        for (int s = 0; s < 2; ++s) {
          const int row = 2 * turn + s;
          if (row == k) x[i + s] = known;
          else if (row > k) x[i + s] = fma(-block[in_block(row, k)], known, x[i + s]);
        }
      }
  }
};

}  // namespace mansard
