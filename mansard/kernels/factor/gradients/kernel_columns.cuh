// Gradients of A with respect to which L of A = L L^H has the gradient G: TEAM lanes per tiny matrix.
//
//   P = half the lower triangle of L^H G, with half its diagonal;  W = L^-H P;  S = W L^-1;  F = S + S^H
//
// Team. Lane j has column j of P, and of W, in registers: p_i += conj(l_ki) g_kj for k = j .. N - 1, then for k = N - 1
// .. 0: w_k = p_k / l_kk, p_i -= conj(l_ki) w_k for i < k. W is transposed through shared memory. Lane i then has row i
// of W, and of S: s_k = w_k / l_kk, w_j -= s_k l_kj for j < k. All three loops read rows of L, which all lanes of a team
// want at once. A warp takes GROUP = 32 / TEAM consecutive matrices; lanes beyond the last column repeat it.
//
// Shared memory, per warp (OF_WARP bytes):
//   L       L::BYTES                        image of L
//   G       the larger of G::BYTES and W    image of G; then W, and S in its place, N x PITCH numbers per matrix
//   ratios  GROUP * N reals                 1 / l_kk
//
// Barriers, of the warp:
//   1  L and G images: the copies of all lanes have arrived
//   2  ratios are complete, written by a lane per column
//   3  G image is about to be overwritten by W; all lanes have read their columns
//   4  W is complete, written by a lane per column; each lane then overwrites the row it has read, by S
//   5  S is complete, written by a lane per row
//
// Limits: the pipe of shared memory (N^2 / 2 numbers of L in each of three loops), then memory bandwidth.
//
//   TEAM   lanes per matrix, a power of two, at least N
//   WARPS  per block
//   PAIRS  pieces of 16 bytes of a row of F begin on 16-byte boundaries
#pragma once
#include "kernels/factor/gradients/operands.cuh"
#include "mansard/gpu/factor_scalars.cuh"

namespace mansard {

template <class P>
struct GradientColumns {
  using T = typename P::T;
  using R = typename Scalar<T>::Real;
  static constexpr int N = P::N, TEAM = P::TEAM, GROUP = 32 / TEAM, PITCH = N | 1, MATRIX = N * PITCH;
  using L = ImageOf<T, P::LAYOUT_A, N, N, GROUP, P::FEED_A, P::ALIGNED, P::PITCH_A, P::MATRIX_A>;
  using G = ImageOf<T, P::LAYOUT_G, N, N, GROUP, P::FEED_G, P::ALIGNED, P::PITCH_G, P::MATRIX_G>;
  static constexpr int W_BYTES = ceil_div(GROUP * MATRIX * int(sizeof(T)), 16) * 16;
  static constexpr int PLACE_G = G::BYTES > W_BYTES ? G::BYTES : W_BYTES;
  static constexpr int RATIO_BYTES = ceil_div(GROUP * N * int(sizeof(R)), 16) * 16;
  static constexpr int OF_WARP = L::BYTES + PLACE_G + RATIO_BYTES;
  static constexpr int VECTOR = P::PAIRS && sizeof(T) < 16 ? 16 / int(sizeof(T)) : 1;
  static_assert(N <= TEAM && GROUP * TEAM == 32);
  static_assert(P::WARPS * OF_WARP <= P::SHARED_BYTES, "shared memory");

  // Calls use(i, l_ki) for the entries of row K of L up to column LAST.
  template <int K, int LAST, class Use>
  static MANSARD_DEVICE void row_of(const T* l, Use use) {
    constexpr int READ = P::LAYOUT_A == Layout::col ? 1 : L::READ;
    MANSARD_UNROLL
    for (int begin = 0; begin <= LAST; begin += READ) {
      const auto pack = *reinterpret_cast<const Pack<T, READ>*>(l + entry_at<P::LAYOUT_A, L::PITCH>(K, begin));
      MANSARD_UNROLL
      for (int i = 0; i < READ; ++i)
        if (begin + i <= LAST) use(begin + i, pack.e[i]);
    }
  }

  // p = L^H times column `own` of the lower triangle of G. Recursive templates: the compiler does not unroll so long a
  // loop, and p has to stay in registers.
  template <int K = 0>
  static MANSARD_DEVICE void multiply(const T* l, const T* g, int own, T (&p)[N]) {
    if constexpr (K < N) {
      const T read = g[entry_at<P::LAYOUT_G, G::PITCH>(K, own)], factor = K < own ? zero<T>() : read;
      row_of<K, K>(l, [&](int i, T entry) { multiply_add<true>(p[i], entry, factor); });
      multiply<K + 1>(l, g, own, p);
    }
  }

  // x becomes L^-H x, or (not ADJOINT) the row x becomes x L^-1.
  template <bool ADJOINT, int K = N - 1>
  static MANSARD_DEVICE void substitute(const T* l, const R* ratios, T (&x)[N]) {
    x[K] = by_real(x[K], ratios[K]);
    if constexpr (K > 0) {
      const T factor = negated(x[K]);
      row_of<K, K - 1>(l, [&](int i, T entry) { multiply_add<ADJOINT>(x[i], entry, factor); });
      substitute<ADJOINT, K - 1>(l, ratios, x);
    }
  }
};

template <class P, class Arguments>
MANSARD_DEVICE void gradients_columns(const Arguments& arguments) {
  using S = GradientColumns<P>;
  using T = typename P::T;
  using R = typename S::R;
  constexpr int N = S::N;
  MANSARD_SHARED_ARENA(unsigned char, arena);
  const GradientOperands<P, Arguments> operands(arguments);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, team = lane / S::TEAM, rank = lane % S::TEAM;
  const i64 batch = arguments.BATCH, first = (static_cast<i64>(blockIdx.x) * P::WARPS + warp) * S::GROUP;
  if (first >= batch) return;
  const int count = batch - first < S::GROUP ? static_cast<int>(batch - first) : S::GROUP;
  unsigned char* mine = arena + warp * S::OF_WARP;
  T* place_l = reinterpret_cast<T*>(mine);
  T* place_g = reinterpret_cast<T*>(mine + S::L::BYTES);
  R* ratios = reinterpret_cast<R*>(mine + S::L::BYTES + S::PLACE_G) + team * N;
  S::L::template fill<32>(place_l, operands.A, first, count, batch, lane);
  S::G::template fill<32>(place_g, operands.G, first, count, batch, lane);
  cp_async_commit();
  const T* l = S::L::origin(place_l, operands.A, first) + team * S::L::MATRIX;
  const T* g = S::G::origin(place_g, operands.G, first) + team * S::G::MATRIX;
  const int own = min(rank, N - 1);
  const bool has = N == S::TEAM || rank < N;
  cp_async_wait<0>();
  __syncwarp();  // L and G images: the copies of all lanes have arrived

  if (has) ratios[own] = R(1) / real_part(l[entry_at<P::LAYOUT_A, S::L::PITCH>(own, own)]);
  T x[N];
  MANSARD_UNROLL
  for (int i = 0; i < N; ++i) x[i] = zero<T>();
  S::multiply(l, g, own, x);
  MANSARD_UNROLL
  for (int i = 0; i < N; ++i) x[i] = by_real(x[i], i < own ? R(0) : i == own ? R(0.25) : R(0.5));
  __syncwarp();  // ratios are complete; G image is about to be overwritten by W, all lanes have read their columns
  S::template substitute<true>(l, ratios, x);
  T* w = place_g + team * S::MATRIX;
  MANSARD_UNROLL
  for (int i = 0; i < N; ++i)
    if (has) w[i * S::PITCH + own] = x[i];
  __syncwarp();  // W is complete, written by a lane per column
  T* row = w + own * S::PITCH;
  MANSARD_UNROLL
  for (int j = 0; j < N; ++j) x[j] = row[j];
  S::template substitute<false>(l + renewed(0), ratios, x);
  if constexpr (N < S::TEAM) __syncwarp();  // lanes that repeat the last row have read it before it is overwritten
  MANSARD_UNROLL
  for (int j = 0; j < N; ++j)
    if (has) row[j] = x[j];
  __syncwarp();  // S is complete, written by a lane per row
  store_matrices<T, N, S::GROUP, S::VECTOR>(
      arguments.F + first * (N * N), count, lane, [&](int matrix, int i, int j) {
        const T* s = place_g + matrix * S::MATRIX;
        T sum = s[i * S::PITCH + j];
        add_to(sum, conjugate(s[j * S::PITCH + i]));
        return sum;
      });
}

}  // namespace mansard
