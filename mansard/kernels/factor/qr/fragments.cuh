// A matrix in the registers of WARPS warps as tensor-core fragments, and its reflections eight at a time.
//
// Rows come in BLOCKS of eight, columns in blocks of eight and strips of 16; strip s belongs to warp s % WARPS. Lane
// (g, t) = (lane / 4, lane % 4) holds rows 2 t and 2 t + 1 of a block, columns g and g + 8 of a strip. That is the
// transposed matrix both as left operand and as result of m16n8k8. If sizes are not multiples of eight, FRONT rows and
// columns of zeros come first, so that the last panel is full and the first has fewer steps. If the number of blocks of
// columns is odd, an empty one comes first (SHIFT).
//
// Vectors are stored unscaled, u = (alpha - beta, x), column after column in shared memory; those of a panel give
// Q = I - U T U^H. The warp that holds a panel's columns factors it; the four lanes of a group g share column g.
//
// Barriers of a panel (__syncwarp -> buffer -> writer), per step k: column k in `vectors` -> the four lanes that hold
// it; its entry alpha -> lane (k, 0), which overwrites it with alpha - beta. After the steps: products in `factors` ->
// lanes t = 0; products -> T, which replaces them.
#pragma once
#include "kernels/batched/gemm/image.cuh"
#include "kernels/factor/qr/reflection.cuh"
#include "mansard/gpu/mma.cuh"

namespace mansard {

template <class P>
struct TensorShape {
  static constexpr int M = P::M, N = P::N, K = M < N ? M : N, WARPS = P::WARPS;
  static constexpr int FRONT = (8 - K % 8) % 8, PANELS = ceil_div(K, 8), BLOCKS = ceil_div(FRONT + M, 8);
  static constexpr int ACROSS = ceil_div(FRONT + N, 8), SHIFT = ACROSS % 2, STRIPS = (ACROSS + SHIFT) / 2;
  static constexpr int LOCAL = ceil_div(STRIPS, WARPS);  // strips per warp
  static constexpr int PITCH = 8 * BLOCKS + (BLOCKS % 2 == 0 ? 8 : 0);  // odd blocks: no bank conflicts across vectors
  static constexpr int VECTORS = PITCH * (8 * PANELS > N ? 8 * PANELS : N), FACTORS = 64 * PANELS;  // elements
  static_assert((VECTORS + FACTORS + K) * 8 <= P::SHARED_BYTES, "shared memory");
  // panel p: the strip of its columns, which half of the strip, and the warp that holds it
  static constexpr int strip(int p) { return (p + SHIFT) / 2; }
  static constexpr int half(int p) { return (p + SHIFT) % 2; }
  static constexpr int owner(int p) { return strip(p) % WARPS; }
};

template <class P>
struct Fragments {
  using S = TensorShape<P>;
  static constexpr int M = S::M, N = S::N, WARPS = S::WARPS, FRONT = S::FRONT, BLOCKS = S::BLOCKS, PITCH = S::PITCH;
  static constexpr bool TWICE = BLOCKS >= 8;  // read long vectors again instead of keeping them in registers
  const int warp, g, t;
  double *vectors, *factors, *tau;  // in shared memory
  double *mine, *across;            // vector g from row 2 t on; row g of vector t
  bool unsafe;                      // squares of some column left the range: the result is not to be used
  double a[S::LOCAL][BLOCKS][4];    // [.][block][2 * half + row % 2]

  MANSARD_DEVICE explicit Fragments(double* memory)
      : warp(of_all(threadIdx.x / 32)), g(threadIdx.x % 32 / 4), t(threadIdx.x % 4), vectors(memory),
        factors(memory + S::VECTORS), tau(memory + S::VECTORS + S::FACTORS), mine(memory + g * PITCH + 2 * t),
        across(memory + t * PITCH + g), unsafe(false) {}

  // A warp-uniform number; the shuffle tells the compiler that branches on it do not diverge.
  static MANSARD_DEVICE int of_all(int x) { return WARPS == 1 ? 0 : __shfl_sync(0xffffffffu, x, 0); }
  MANSARD_DEVICE int strip_of(int l) const { return l * WARPS + warp; }

  // Calls visit(row, column, down, across, entry) for the lane's entries in the first HEIGHT rows and WIDTH columns.
  // They are `down` rows and `across` columns from the lane's first entry, the same numbers in all lanes.
  template <int HEIGHT, int WIDTH, class Visit>
  MANSARD_DEVICE void each(Visit visit) {
    MANSARD_UNROLL
    for (int q = 0; q < BLOCKS; ++q)
      MANSARD_UNROLL
      for (int e = 0; e < 2; ++e) {
        const int row = first_row() + 8 * q + e;
        if ((FRONT == 0 || q > 0 || row >= 0) && (8 * (q + 1) - FRONT <= HEIGHT || row < HEIGHT)) MANSARD_UNROLL
          for (int i = 0; i < 2 * S::LOCAL; ++i) {
            const int across = i / 2 * 16 * WARPS + i % 2 * 8, column = first_column() + across;
            if (column >= 0 && column < WIDTH) visit(row, column, 8 * q + e, across, a[i / 2][q][i % 2 * 2 + e]);
          }
      }
  }
  MANSARD_DEVICE int first_row() const { return 2 * t - FRONT; }
  MANSARD_DEVICE int first_column() const { return 16 * warp + g - 8 * S::SHIFT - FRONT; }
  // Set all entries, including the padding, to value(row, column), both counted with the padding in front.
  template <class Value>
  MANSARD_DEVICE void set(Value value) {
    MANSARD_UNROLL
    for (int l = 0; l < S::LOCAL; ++l)
      MANSARD_UNROLL
      for (int q = 0; q < BLOCKS; ++q)
        MANSARD_UNROLL
        for (int i = 0; i < 4; ++i)
          a[l][q][i] = value(8 * q + 2 * t + i % 2, 16 * strip_of(l) + 8 * (i / 2) + g - 8 * S::SHIFT);
  }

  // Panels from p on. The strip of panel p + 1 is updated first, and the panel is factored before the other strips of
  // its warp are updated.
  template <int p = 0>
  MANSARD_DEVICE void factor() {
    if constexpr (p == 0) {
      if (WARPS == 1 || warp == S::owner(0)) panel<0>();
    }
    meet();  // vectors and factors of panel p are complete, written by its warp
    constexpr bool MORE = p + 1 < S::PANELS;
    constexpr int FIRST = MORE ? S::strip(p + 1) / WARPS : S::LOCAL;
    if constexpr (FIRST < S::LOCAL) update<p, false>(FIRST);
    if constexpr (MORE) {
      if (WARPS == 1 || warp == S::owner(p + 1)) panel<p + 1>();
    }
    MANSARD_UNROLL
    for (int l = 0; l < S::LOCAL; ++l)
      if (l != FIRST) update<p, false>(l);
    if constexpr (MORE) factor<p + 1>();
  }
  // Form the columns of Q in the registers of those of A, from the last panel to the first.
  template <int p = S::PANELS - 1>
  MANSARD_DEVICE void form() {
    if constexpr (p == S::PANELS - 1) set([](int row, int column) { return row == column ? 1.0 : 0.0; });
    MANSARD_UNROLL
    for (int l = 0; l < S::LOCAL; ++l) update<p, true>(l);
    if constexpr (p > 0) form<p - 1>();
  }

  static MANSARD_DEVICE void meet() {
    if constexpr (WARPS > 1) __syncthreads();
    else __syncwarp();
  }

 private:
  // The eight reflections of panel p, by its warp. Column k goes to shared memory unscaled.
  template <int p>
  MANSARD_DEVICE void panel() {
    constexpr int L = S::strip(p) / WARPS, AT = 2 * S::half(p);
    double* const inner = factors + 64 * p;  // products of vectors, then T
    double my_tau = 0, my_scale = 0, my_factor = 0;
    if (p == 0 && g < FRONT) MANSARD_UNROLL
      for (int q = 0; q < BLOCKS; ++q) pair(mine + 8 * q) = {0, 0};
MANSARD_UNROLL_BY(1)
    for (int k = p == 0 ? FRONT : 0; k < 8; ++k) {
      double* const line = vectors + (8 * p + k) * PITCH;
      double* const rows = line + 2 * t;
      if (g == k) MANSARD_UNROLL
        for (int q = p; q < BLOCKS; ++q) {
          const bool gone = q == p && 2 * t < k, both = q == p && 2 * t + 1 < k;
          pair(rows + 8 * q) = {gone ? 0 : a[L][q][AT], both ? 0 : a[L][q][AT + 1]};
        }
      __syncwarp();  // line holds column k, written by the four lanes that own it
      const double alpha = line[8 * p + k];
      const double top = __shfl_sync(0xffffffffu, k % 2 == 0 ? a[L][p][AT] : a[L][p][AT + 1], 4 * g + k / 2);
      double x[BLOCKS - p][2], dot = 0, more = 0;
      MANSARD_UNROLL
      for (int q = p; q < BLOCKS; ++q) {
        const auto some = pair(rows + 8 * q);
        x[q - p][0] = q == p && 2 * t <= k ? 0 : some.e[0];
        x[q - p][1] = q == p && 2 * t + 1 <= k ? 0 : some.e[1];
        dot = fma(x[q - p][0], a[L][q][AT], dot);
        more = fma(x[q - p][1], a[L][q][AT + 1], more);
      }
      dot += more;
      dot += __shfl_xor_sync(0xffffffffu, dot, 1);
      dot += __shfl_xor_sync(0xffffffffu, dot, 2);
      const bool last = M <= N && p == S::PANELS - 1 && k == 7;
      const auto h = Reflection<double>::quick(alpha, __shfl_sync(0xffffffffu, dot, 4 * k), last);
      unsafe = unsafe || !h.safe;
      const double length = alpha - h.beta, along = fma(h.scale, dot, top);
      __syncwarp();  // alpha in line is about to be overwritten by alpha - beta; all lanes have read it
      if (t == 0 && g < k) inner[8 * g + k] = fma(length, top, dot);  // u_g^H u_k
      if (t == 0 && g == k) line[8 * p + k] = length;
      const double by = g > k ? h.by * along : 0;
      const double pivot = g > k ? fma(-h.tau, along, top) : g == k ? h.beta : top;
      MANSARD_UNROLL
      for (int q = p; q < BLOCKS; ++q)
        MANSARD_UNROLL
        for (int e = 0; e < 2; ++e) {
          double& entry = a[L][q][AT + e];
          const double factor = TWICE && q > p ? once_more(rows + 8 * q + e) : x[q - p][e];
          entry = q == p && 2 * t + e == k ? pivot : fma(-factor, by, entry);
        }
      if (g == k) my_tau = h.tau, my_scale = h.scale, my_factor = h.by * h.scale;
    }
    MANSARD_UNROLL
    for (int q = p; q < BLOCKS; ++q)
      MANSARD_UNROLL
      for (int e = 0; e < 2; ++e)
        if (q > p || 2 * t + e > g) a[L][q][AT + e] *= my_scale;
    if (t == 0 && (p > 0 || g >= FRONT)) tau[8 * p + g - FRONT] = my_tau;
    __syncwarp();  // inner holds the products of vectors, written by lanes t = 0
    compact<p == 0 ? FRONT : 0>(inner, my_factor);
  }

  // Form T from the products of vectors, row g in lanes of group g, and store it in their place. Products of vectors
  // before FIRST were never formed and may be NaNs: they are not read.
  template <int FIRST>
  MANSARD_DEVICE void compact(double* inner, double factor) {
    double row[8] = {};
    MANSARD_UNROLL
    for (int k = FIRST; k < 8; ++k) {
      const double its_factor = __shfl_sync(0xffffffffu, factor, 4 * k);
      double sum = 0;
      MANSARD_UNROLL
      for (int i = FIRST; i < k; ++i) sum = fma(row[i], inner[8 * i + k], sum);
      row[k] = k == g ? factor : -its_factor * sum;
    }
    __syncwarp();  // inner is about to be overwritten by T; all lanes have read the products
    if (t == 0) MANSARD_UNROLL
      for (int k = 0; k < 8; k += 2) pair(inner + 8 * g + k) = {row[k], row[k + 1]};
  }

  // Load an entry again; volatile, since the compiler would keep the first copy in a register.
  static MANSARD_DEVICE double once_more(const volatile double* entry) { return *entry; }
  static MANSARD_DEVICE Pack<double, 2>& pair(double* first) { return *reinterpret_cast<Pack<double, 2>*>(first); }
  // sum += c b, where the result fragment c is the left operand: its entries are permuted along k as the lane has them.
  static MANSARD_DEVICE void multiply(double (&sum)[4], const double (&c)[4], const double (&b)[2]) {
    const double left[4] = {c[0], c[2], c[1], c[3]};
    mma_m16n8k8(sum, left, b);
  }

  // A -= U T^H (U^H A) for strip l of this warp, if it is behind panel p; or (BACK) Q -= U T (U^H Q).
  template <int p, bool BACK>
  MANSARD_DEVICE void update(int l) {
    const int strip = strip_of(l);
    const bool own = !BACK && S::half(p) == 0 && strip == S::strip(p);  // its first half is the panel: not updated
    if (strip < (BACK ? S::strip(p) : S::strip(p + 1)) || strip >= S::STRIPS) return;
    double sums[2][4] = {}, turned[4] = {}, some[2];
    MANSARD_UNROLL
    for (int q = p; q < BLOCKS; ++q) {
      multiply(sums[q % 2], a[l][q], pair(mine + 8 * p * PITCH + 8 * q).e);
    }
    MANSARD_UNROLL
    for (int i = 0; i < 4; ++i) sums[0][i] += sums[1][i];
    const int column = g / 2 + 4 * (g % 2);  // permuted so that the result has columns t and t + 4 in a lane
    MANSARD_UNROLL
    for (int i = 0; i < 2; ++i) some[i] = -factors[64 * p + (BACK ? 8 * column + 2 * t + i : 8 * (2 * t + i) + column)];
    multiply(turned, sums[0], some);
    MANSARD_UNROLL
    for (int q = p; q < BLOCKS; ++q) {
      MANSARD_UNROLL
      for (int i = 0; i < 2; ++i) some[i] = across[(8 * p + 4 * i) * PITCH + 8 * q];
      double result[4] = {a[l][q][0], a[l][q][1], a[l][q][2], a[l][q][3]};
      multiply(result, turned, some);
      MANSARD_UNROLL
      for (int i = 0; i < 4; ++i)
        if (i >= 2 || !own) a[l][q][i] = result[i];
    }
  }
};

}  // namespace mansard
