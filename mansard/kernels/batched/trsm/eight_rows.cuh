// Substitution for eight rows of a triangle by a quad of lanes: lane t has rows 2 t and 2 t + 1 of two columns of X.
//
// A quotient is x times a reciprocal of two numbers: x * inverse + x * tail, rounded once, is as accurate as a division,
// and the rows, which wait for each other, wait for two operations instead of three.
//
// Whether a quotient was extreme is checked once for all rows, since a branch per row would delay the shuffles. If one
// was, the rows are solved again with exact divisions.
#pragma once
#include "kernels/batched/trsm/diagonal.cuh"

namespace mansard {

template <class P>
struct EightRows {
  using Number = Divisor<double, P::INVERT>;
  int turn;  // rank of the lane in its quad: it has rows 2 turn and 2 turn + 1

  // Solve. x[2 c + s] is row 2 turn + s of column c: a right-hand side before, a solution afterwards. `block` is the
  // 8 x 8 triangle in row-major order; what the inverses of its diagonal lack to be exact is `tails` further on.
  MANSARD_DEVICE void solve(double (&x)[4], const double* block, const double* inverses, int tails) const {
    double entries[2][8];
    MANSARD_UNROLL
    for (int e = 0; e < 16; e += 2) {
      const auto pair = *reinterpret_cast<const Pack<double, 2>*>(block + 16 * turn + e);
      entries[e / 8][e % 8] = pair.e[0], entries[e / 8][e % 8 + 1] = pair.e[1];
    }
    Number by[2];
    double tail[2];
    if constexpr (!P::UNIT) {
      prepare(by, block, inverses);
      MANSARD_UNROLL
      for (int s = 0; s < 2; ++s) tail[s] = P::INVERT ? 0.0 : inverses[tails + 2 * turn + s];
    }
    const double before[4] = {x[0], x[1], x[2], x[3]};
    double numerators[4];
    MANSARD_UNROLL
    for (int k = 0; k < 8; ++k)
      MANSARD_UNROLL
      for (int c = 0; c < 4; c += 2) {
        const bool own = turn == k / 2;
        double &mine = x[c + k % 2], quotient = mine;
        if constexpr (!P::UNIT) {
          quotient = P::INVERT ? mine * by[k % 2].inverse : fma(mine, by[k % 2].inverse, mine * tail[k % 2]);
          numerators[c + k % 2] = own || k < 2 ? mine : numerators[c + k % 2];
        }
        const double known = from_lane<4>(quotient, k / 2);
        mine = own ? known : mine;
        MANSARD_UNROLL
        for (int s = 0; s < 2; ++s)
          if (2 * turn + s > k) x[c + s] = fma(-entries[s][k], known, x[c + s]);
      }
    if constexpr (!P::UNIT) {
      bool usual = true;
      MANSARD_UNROLL
      for (int i = 0; i < 4; ++i) usual = usual & holds(by[i % 2], numerators[i]);
      if (!__all_sync(~0u, usual)) {
        MANSARD_UNROLL
        for (int i = 0; i < 4; ++i) x[i] = before[i];
        solve_carefully(x, block, by);
      }
    }
  }

 private:
  MANSARD_DEVICE void prepare(Number (&by)[2], const double* block, const double* inverses) const {
    MANSARD_UNROLL
    for (int s = 0; s < 2; ++s) {
      by[s].number = block[9 * (2 * turn + s)];
      by[s].inverse = inverses[2 * turn + s];
      by[s].usual = harmless(by[s].number);
    }
  }
  // Solve with exact divisions where needed; rare, so its loops are not unrolled.
  MANSARD_DEVICE void solve_carefully(double (&x)[4], const double* block, const Number (&by)[2]) const {
MANSARD_UNROLL_BY(1)
    for (int k = 0; k < 8; ++k)
MANSARD_UNROLL_BY(1)
      for (int c = 0; c < 2; ++c) {
        const bool second = k % 2 == 1, own = turn == k / 2;
        const double mine = c == 0 ? (second ? x[1] : x[0]) : (second ? x[3] : x[2]);
        const double quotient = second ? by[1].divide(mine, own) : by[0].divide(mine, own);
        const double known = from_lane<4>(quotient, k / 2);
        MANSARD_UNROLL
        for (int i = 0; i < 4; ++i) {
          const int row = 2 * turn + i % 2;
          if (i / 2 != c) continue;
          if (row == k) x[i] = known;
          else if (row > k) x[i] = fma(-block[8 * row + k], known, x[i]);
        }
      }
  }
};

}  // namespace mansard
