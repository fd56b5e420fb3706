// A team's tile of C in single precision on the tensor cores: WARPS_M x WARPS_N warps, each with tiles of 16 x 16.
//
// A number is split into two TF32 numbers of 11 bits, x = high + low up to 6 u |x| with u = 2^-24 (mma.cuh), and
//
//   a b = high_a high_b + (high_a low_b + low_a high_b) + e,   |e| <= 28 u |a b|: 6 + 6 of the operands, 16 low_a low_b
//
// The tensor cores truncate their sums. The products in brackets have sums of their own: they are 2^-10 times smaller,
// and so is what they lose; the large sums are truncated once per eight values of k, 2 u each. The error is at most
// (28 + K / 4) u |A| |B|: within K u, the bound of a float32 sum, from K = 38 on, within twice that bound from 16 on.
//
// An infinity splits into an infinity and a NaN: entries that come out as NaN are formed again by the caller (SPLIT).
//
// Instructions take eight values of k: lane (g, t) = (lane / 4, lane % 4) supplies A[row(g)][k + t], A[row(g)][k + t + 4]
// and the same of B. Which rows (columns) of the warp's tile belong to g is free: `Spread` chooses them so that lanes
// that are served at once hit different banks for any pitch that the configuration allows.
#pragma once
#include "kernels/batched/gemm/image.cuh"
#include "mansard/gpu/mma.cuh"

namespace mansard {

// Assigns 8 SLOTS rows of A (or columns of B) to g = 0 .. 7: row of(g) + slot(s). K_ADJACENT: neighbours along k are
// adjacent in memory; otherwise neighbouring rows (columns) are. AT_ONCE: values of g whose lanes are served at once.
template <int PITCH, bool K_ADJACENT, int SLOTS, int AT_ONCE>
struct Spread {
  static constexpr int LINES = 4 / gcd(PITCH, 4) < SLOTS ? 4 / gcd(PITCH, 4) : SLOTS;  // K_ADJACENT: from g to g + 1
  static constexpr int RUN = gcd(PITCH, AT_ONCE), DEEP = SLOTS < 4 ? SLOTS : 4;        // otherwise: adjacent columns
  // columns 2 t and 2 t + 1 of an instruction are adjacent in C; otherwise those of slots s and s + 1 are
  static constexpr bool SIDES_ADJACENT = K_ADJACENT ? LINES == 1 : RUN > 1;
  static_assert(SLOTS % 2 == 0 && SLOTS % LINES == 0 && SLOTS % DEEP == 0, "whole pairs of slots");
  static MANSARD_DEVICE int of(int g) { return K_ADJACENT ? LINES * g : g % RUN + g / RUN * (DEEP * RUN); }
  static MANSARD_HOST_DEVICE int slot(int s) {
    return K_ADJACENT ? s % LINES + s / LINES * (8 * LINES) : s % DEEP * RUN + s / DEEP * (8 * DEEP);
  }
};

// The halves of COUNT numbers.
template <int COUNT>
struct Halves {
  u32 high[COUNT], low[COUNT];
  MANSARD_DEVICE void set(int i, float x) { split_tf32(x, high[i], low[i]); }
  MANSARD_DEVICE void negate() {
    MANSARD_UNROLL
    for (int i = 0; i < COUNT; ++i) high[i] ^= 0x80000000u, low[i] ^= 0x80000000u;
  }
};

// Fragments of an operand: real, or real and imaginary parts.
template <class T, int COUNT>
struct SplitFragments {
  Halves<COUNT> re;
  MANSARD_DEVICE void set(int i, T x, bool) { re.set(i, x); }
};
template <int COUNT>
struct SplitFragments<Complex<float>, COUNT> {
  Halves<COUNT> re, im;
  MANSARD_DEVICE void set(int i, Complex<float> x, bool conj) { re.set(i, x.re), im.set(i, conj ? -x.im : x.im); }
};

// Large and small products of a fragment of C.
struct SplitSums {
  float large[4], small[4];
  MANSARD_DEVICE void add(const Halves<4>& a, const Halves<2>& b) {
    mma_tf32_m16n8k8(small, a.low, b.high);
    mma_tf32_m16n8k8(small, a.high, b.low);
    mma_tf32_m16n8k8(large, a.high, b.high);
  }
};

MANSARD_DEVICE void multiply_split(SplitSums (&sums)[1], const SplitFragments<float, 4>& a,
                                   const SplitFragments<float, 2>& b, const Halves<2>&) {
  sums[0].add(a.re, b.re);
}
MANSARD_DEVICE void multiply_split(SplitSums (&sums)[2], const SplitFragments<Complex<float>, 4>& a,
                                   const SplitFragments<Complex<float>, 2>& b, const Halves<2>& negative) {
  sums[0].add(a.re, b.re);
  sums[1].add(a.re, b.im);
  sums[0].add(a.im, negative);
  sums[1].add(a.im, b.re);
}

template <class P, class S>
struct SplitTile {
  using T = typename P::T;
  using A = typename S::A;
  using B = typename S::B;
  static constexpr bool COMPLEX = Scalar<T>::COMPLEX, SPLIT = true;
  static constexpr int WORDS = Scalar<T>::WORDS;
  static constexpr int TILES_M = ceil_div(ceil_div(S::M, 16), P::WARPS_M);
  static constexpr int TILES_N = ceil_div(ceil_div(S::N, 16), P::WARPS_N);
  static constexpr int ROW_SLOTS = 2 * TILES_M, COLUMN_SLOTS = 2 * TILES_N;
  using Rows = Spread<A::PITCH, S::ROW_MAJOR_A, ROW_SLOTS, 8 / WORDS>;
  using Columns = Spread<B::PITCH, !S::ROW_MAJOR_B, COLUMN_SLOTS, 8 / WORDS>;
  // strides in a panel, along k and along rows (columns)
  static constexpr int A_K = S::ROW_MAJOR_A ? 1 : A::PITCH, A_ROW = S::ROW_MAJOR_A ? A::PITCH : 1;
  static constexpr int B_K = S::ROW_MAJOR_B ? B::PITCH : 1, B_COLUMN = S::ROW_MAJOR_B ? 1 : B::PITCH;
  static constexpr int PUT = 2;  // adjacent entries of a row that a lane has
  const int g, t, row, column;
  SplitSums sums[TILES_M][COLUMN_SLOTS][WORDS];

  MANSARD_DEVICE SplitTile(int rank)
      : g(rank % 32 / 4), t(rank % 4), row(rank / 32 / P::WARPS_N * TILES_M * 16),
        column(rank / 32 % P::WARPS_N * TILES_N * 16) {}

  MANSARD_DEVICE void clear() {
    MANSARD_UNROLL
    for (int i = 0; i < TILES_M * COLUMN_SLOTS * WORDS; ++i) (&sums[0][0][0])[i] = SplitSums{};
  }

  template <int K>
  MANSARD_DEVICE void multiply(const T* panel_a, const T* panel_b) {
    const T* a = panel_a + (row + Rows::of(g)) * A_ROW + t * A_K;
    const T* b = panel_b + (column + Columns::of(g)) * B_COLUMN + t * B_K;
    constexpr int WHOLE = K / 8 * 8;
MANSARD_UNROLL_BY(2)
    for (int k = 0; k < WHOLE; k += 8) step<8>(a + k * A_K, b + k * B_K);
    if constexpr (K > WHOLE) step<K - WHOLE>(a + WHOLE * A_K, b + WHOLE * B_K);
  }

  // One step along k; lanes beyond the DEPTH values that there are supply zeros.
  template <int DEPTH>
  MANSARD_DEVICE void step(const T* a, const T* b) {
    SplitFragments<T, 4> left[TILES_M];
    MANSARD_UNROLL
    for (int i = 0; i < TILES_M * 4; ++i) {
      const T x = at<DEPTH>(a + Rows::slot(i / 4 * 2 + i % 2) * A_ROW, i / 2 % 2, A_K);
      left[i / 4].set(i % 4, x, P::CONJ_A);
    }
    MANSARD_UNROLL
    for (int n = 0; n < COLUMN_SLOTS; ++n) {
      SplitFragments<T, 2> right;
      MANSARD_UNROLL
      for (int i = 0; i < 2; ++i) right.set(i, at<DEPTH>(b + Columns::slot(n) * B_COLUMN, i, B_K), P::CONJ_B);
      Halves<2> negative{};
      if constexpr (COMPLEX) negative = right.im, negative.negate();
      MANSARD_UNROLL
      for (int m = 0; m < TILES_M; ++m) multiply_split(sums[m][n], left[m], right, negative);
    }
  }
  // The lane's first (half 0) or second value of k.
  template <int DEPTH>
  MANSARD_DEVICE T at(const T* address, int half, int stride) const {
    return DEPTH == 8 || t + 4 * half < DEPTH ? reinterpret_cast<const Pack<T, 1>*>(address + 4 * half * stride)->e[0]
                                              : zero<T>();
  }

  // Row of the tile that belongs to g in a slot of rows.
  MANSARD_DEVICE int row_of(int slot, int g) const { return row + Rows::of(g) + Rows::slot(slot); }
  // Calls put(column of the warp's tile, two adjacent sums) for all entries of the lane in a slot of rows.
  template <class Put>
  MANSARD_DEVICE void for_each_in(int slot, Put put) const {
    MANSARD_UNROLL
    for (int i = 0; i < COLUMN_SLOTS; ++i) {
      const int n = Columns::SIDES_ADJACENT ? i : i / 2 * 2, side = Columns::SIDES_ADJACENT ? 0 : i % 2;
      const int next = Columns::SIDES_ADJACENT ? n : n + 1, next_side = Columns::SIDES_ADJACENT ? 1 : side;
      const T pair[2] = {entry(slot, n, side), entry(slot, next, next_side)};
      put(Columns::of(2 * t + side) + Columns::slot(n), &pair[0]);
    }
  }
  MANSARD_DEVICE T entry(int slot, int n, int side) const {
    const SplitSums(&s)[WORDS] = sums[slot / 2][n];
    const int i = slot % 2 * 2 + side;
    if constexpr (COMPLEX) return {s[0].large[i] + s[0].small[i], s[1].large[i] + s[1].small[i]};
    else return s[0].large[i] + s[0].small[i];
  }
};

}  // namespace mansard
