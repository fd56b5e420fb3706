// A team's tile of C on the tensor cores: WARPS_M x WARPS_N warps, each with tiles of 16 rows x 16 columns.
//
// Instructions take four values of k at a time: lane (g, t) = (lane / 4, lane % 4) supplies A[row(g)][k + t] and
// B[k + t][column(g)]. Which of 16 rows (columns) belong to g is free. Shared memory serves 128 bytes at once: 16 real
// or 8 complex lanes. `Outer` chooses the rows so that these lanes hit different banks for any pitch that the
// configuration allows: an odd multiple of four elements needs no choice; multiples of eight (of four, where complex
// numbers are adjacent along the rows) are padded when the pitch is chosen.
#pragma once
#include "kernels/batched/gemm/panels.cuh"
#include "mansard/gpu/mma.cuh"

namespace mansard {

// Assigns 16 rows of A (or columns of B) to g = 0 .. 7, two each. K_ADJACENT: neighbours along k are adjacent in
// memory; otherwise neighbouring rows (columns) are.
template <int PITCH, bool K_ADJACENT, bool COMPLEX>
struct Outer {
  static constexpr int STEP = 4 / gcd(PITCH, 4);
  static constexpr bool NATURAL = STEP == 1 || COMPLEX && !K_ADJACENT && STEP == 2;
  // distance from the first to the second of a lane's two rows
  static constexpr int SECOND = COMPLEX || NATURAL ? 8 : STEP == 2 && !K_ADJACENT ? 4 : 1;
  static MANSARD_DEVICE int of(int g) {
    if constexpr (NATURAL) return g;
    else if constexpr (COMPLEX) return STEP == 4 ? 4 * (g % 2) + g / 2 : 2 * (g % 2) + g / 2 % 2 + 4 * (g / 4);
    else if constexpr (STEP == 4) return 4 * (g % 4) + 2 * (g / 4);
    else return K_ADJACENT ? 2 * g : g % 2 + 8 * (g / 2 % 2) + 2 * (g / 4);
  }
};

template <int KSTEP>
MANSARD_DEVICE void mma(double (&sum)[4], const double (&a)[KSTEP / 2], const double (&b)[KSTEP / 4]) {
  if constexpr (KSTEP == 4) mma_m16n8k4(sum, a[0], a[1], b[0]);
  else if constexpr (KSTEP == 8) mma_m16n8k8(sum, a, b);
  else mma_m16n8k16(sum, a, b);
}

// Fragments of an operand for KSTEP values of k: real, or real and imaginary parts.
template <class T, int COUNT>
struct Fragments {
  double re[COUNT];
  MANSARD_DEVICE void set(int i, T x, bool) { re[i] = x; }
};
template <int COUNT>
struct Fragments<Complex<double>, COUNT> {
  double re[COUNT], im[COUNT];
  MANSARD_DEVICE void set(int i, Complex<double> x, bool conj) { re[i] = x.re, im[i] = conj ? -x.im : x.im; }
};

template <int KSTEP>
MANSARD_DEVICE void multiply_fragments(double (&sum)[1][4], const Fragments<double, KSTEP / 2>& a,
                                       const Fragments<double, KSTEP / 4>& b) {
  mma<KSTEP>(sum[0], a.re, b.re);
}
template <int KSTEP>
MANSARD_DEVICE void multiply_fragments(double (&sum)[2][4], const Fragments<Complex<double>, KSTEP / 2>& a,
                                       const Fragments<Complex<double>, KSTEP / 4>& b) {
  double negative[KSTEP / 4];
  MANSARD_UNROLL
  for (int i = 0; i < KSTEP / 4; ++i) negative[i] = -b.im[i];
  mma<KSTEP>(sum[0], a.re, b.re);
  mma<KSTEP>(sum[1], a.re, b.im);
  mma<KSTEP>(sum[0], a.im, negative);
  mma<KSTEP>(sum[1], a.im, b.re);
}

template <class P, class S>
struct TensorTile {
  using T = typename P::T;
  using A = typename S::A;
  using B = typename S::B;
  static constexpr bool COMPLEX = Scalar<T>::COMPLEX;
  static constexpr int WORDS = Scalar<T>::WORDS;
  using Rows = Outer<A::PITCH, S::ROW_MAJOR_A, COMPLEX>;
  using Columns = Outer<B::PITCH, !S::ROW_MAJOR_B, COMPLEX>;
  static constexpr int TILES_M = ceil_div(ceil_div(S::M, 16), P::WARPS_M);
  static constexpr int TILES_N = ceil_div(ceil_div(S::N, 16), P::WARPS_N);
  // strides in a panel, along k and along rows (columns)
  static constexpr int A_K = S::ROW_MAJOR_A ? 1 : A::PITCH, A_ROW = S::ROW_MAJOR_A ? A::PITCH : 1;
  static constexpr int B_K = S::ROW_MAJOR_B ? B::PITCH : 1, B_COLUMN = S::ROW_MAJOR_B ? 1 : B::PITCH;
  static constexpr int PUT = COMPLEX ? 1 : 2;
  static constexpr bool SECOND_IS_NEXT = Columns::SECOND == 1;  // adjacent columns are in the two 8-column fragments
  const int g, t, row, column;
  double sums[TILES_M][TILES_N][2][WORDS][4];

  MANSARD_DEVICE TensorTile(int rank)
      : g(rank % 32 / 4), t(rank % 4), row(rank / 32 / P::WARPS_N * TILES_M * 16),
        column(rank / 32 % P::WARPS_N * TILES_N * 16) {}

  MANSARD_DEVICE void clear() {
    MANSARD_UNROLL
    for (int i = 0; i < TILES_M * TILES_N * 2 * WORDS * 4; ++i) (&sums[0][0][0][0][0])[i] = 0;
  }

  template <int K>
  MANSARD_DEVICE void multiply(const T* panel_a, const T* panel_b) {
    const T* a = panel_a + (row + Rows::of(g)) * A_ROW + t * A_K;
    const T* b = panel_b + (column + Columns::of(g)) * B_COLUMN + t * B_K;
    constexpr int UNROLL = 16 / P::KSTEP, WHOLE = K / P::KSTEP * P::KSTEP;
MANSARD_UNROLL_BY(UNROLL)
    for (int k = 0; k < WHOLE; k += P::KSTEP) step<P::KSTEP>(a + k * A_K, b + k * B_K, true);
    MANSARD_UNROLL
    for (int k = WHOLE; k < K; k += 4) step<4>(a + k * A_K, b + k * B_K, k + 4 <= K || t < K - k);
  }

  // One step along k; lanes beyond the end of k (not `inside`) supply zeros.
  template <int KSTEP>
  MANSARD_DEVICE void step(const T* a, const T* b, bool inside) {
    Fragments<T, KSTEP / 2> left[TILES_M];
    Fragments<T, KSTEP / 4> right[TILES_N][2];
    MANSARD_UNROLL
    for (int i = 0; i < TILES_M * KSTEP / 2; ++i) {
      const int m = i / (KSTEP / 2), f = i % (KSTEP / 2);
      left[m].set(f, at(a + (m * 16 + f % 2 * Rows::SECOND) * A_ROW + f / 2 * 4 * A_K, inside), P::CONJ_A);
    }
    MANSARD_UNROLL
    for (int i = 0; i < TILES_N * KSTEP / 2; ++i) {
      const int n = i / (KSTEP / 2), f = i % (KSTEP / 2);
      const T* from = b + (n * 16 + f % 2 * Columns::SECOND) * B_COLUMN + f / 2 * 4 * B_K;
      right[n][f % 2].set(f / 2, at(from, inside), P::CONJ_B);
    }
    MANSARD_UNROLL
    for (int n = 0; n < TILES_N * 2; ++n)
      MANSARD_UNROLL
      for (int m = 0; m < TILES_M; ++m) multiply_fragments<KSTEP>(sums[m][n / 2][n % 2], left[m], right[n / 2][n % 2]);
  }
  static MANSARD_DEVICE T at(const T* address, bool inside) {
    return inside ? reinterpret_cast<const Pack<T, 1>*>(address)->e[0] : zero<T>();
  }

  // Calls put(row, column, PUT adjacent sums) for all entries of the lane that lie in the tile. Neighbours in memory
  // are in the two fragments of a 16-column tile, or adjacent in one of them.
  template <int PUT, class Put>
  MANSARD_DEVICE void for_each(Put put) const {
    const auto column_of = [&](int n, int side, int tile) {
      return column + n * 16 + Columns::of(2 * t + side) + tile * Columns::SECOND;
    };
    MANSARD_UNROLL
    for (int i = 0; i < TILES_M * TILES_N * 4; ++i) {
      const int m = i / (TILES_N * 4), n = i / 4 % TILES_N, lower = i / 2 % 2, other = i % 2;
      const int r = row + m * 16 + Rows::of(g) + lower * Rows::SECOND;
      const int side = SECOND_IS_NEXT ? other : 0, tile = SECOND_IS_NEXT ? 0 : other;
      const int next_side = SECOND_IS_NEXT ? other : 1, next_tile = SECOND_IS_NEXT ? 1 : other;
      const int c = column_of(n, side, tile), next = column_of(n, next_side, next_tile);
      const T pair[2] = {entry(m, n, tile, 2 * lower + side), entry(m, n, next_tile, 2 * lower + next_side)};
      const auto inside = [&](int at) {
        return (P::WARPS_M * TILES_M * 16 == S::M || r < S::M) && (P::WARPS_N * TILES_N * 16 == S::N || at < S::N);
      };
      if (inside(c)) put(r, c, &pair[0]);
      if (PUT == 1 && inside(next)) put(r, next, &pair[1]);
    }
  }
  MANSARD_DEVICE T entry(int m, int n, int which, int i) const {
    if constexpr (COMPLEX) return {sums[m][n][which][0][i], sums[m][n][which][1][i]};
    else return sums[m][n][which][0][i];
  }

  template <class ImageC>
  MANSARD_DEVICE void lay_down(T* C, const Scales& scales) const {
    constexpr int TOGETHER = gcd(PUT, ImageC::READ);
    for_each<TOGETHER>([&](int r, int c, const T* sum) {
      Pack<T, TOGETHER> pack;
      MANSARD_UNROLL
      for (int i = 0; i < TOGETHER; ++i) pack.e[i] = scales.product(sum[i]);
      *reinterpret_cast<Pack<T, TOGETHER>*>(C + r * ImageC::PITCH + c) = pack;
    });
  }
};

}  // namespace mansard
