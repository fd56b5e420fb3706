// Panels of a blocked bidiagonalization (LAPACK's labrd) for every matrix of a batch, as Dong's versions 2 to 4 divide
// them into launches.
//
//   the rest of a panel that begins at row and column K:  A - L^T R,  L and R with two rows per column of the panel
//   step s = 2 i:      line = column k = K + i of the rest -> reflector v, row s of L;  row s of R = tau (rest^T v)
//   step s = 2 i + 1:  line = row k of the rest            -> reflector u, row s of R;  row s of L = tau (rest u)
//
// so that both steps are one, with L and R in turn as `own` (of the line) and `cross`. The rest is never formed:
// rest v = A v - cross^T (own v), of which A v, the product with a square matrix, reads most of the memory.
//
// Team: 32 x LANES_Y threads. Version 2 ("big tile"): a block per matrix does all steps of a panel in one launch.
// Versions 3, 4 ("classic"): a block per matrix does what is tall and wide, in a launch of its own several blocks do the
// square product. Version 4 begins its rows at a whole line of memory (LINE = 16 numbers, otherwise 1; it divides K):
// what is too much is multiplied by zeros, or is not written.
// Memory: F (N x N), L, R (2 NB x N), D, E, TAU, W (product) in global memory. Shared memory: a number per thread, a
// vector of MOST numbers, 2 NB products.
// Barriers (__syncthreads -> buffer -> writer): own, W, cross (global, one block) -> all threads; values, vector, along.
// Limit: two reads of the rest of A per column.
#pragma once
#include "mansard/gpu/platform.cuh"

namespace mansard {

template <class P, class Arguments>
struct Bidiagonal {
  using T = typename P::T;
  static constexpr int THREADS = 32 * P::LANES_Y;
  const Arguments& given;
  const int N, K, x = threadIdx.x % 32, y = threadIdx.x / 32;
  T *F, *L, *R, *D, *E, *TAU, *W, *values, *vector, *along;

  MANSARD_DEVICE Bidiagonal(const Arguments& all, T* shared)
      : given(all), N(static_cast<int>(all.N)), K(static_cast<int>(all.K)), values(shared), vector(shared + THREADS) {
    const i64 matrix = blockIdx.x;
    along = vector + P::MOST;
    F = all.F + matrix * N * N;
    L = all.L + matrix * (2 * P::NB) * N, R = all.R + matrix * (2 * P::NB) * N;
    D = all.D + matrix * N, E = all.E + matrix * N, W = all.W + matrix * N, TAU = all.TAU + matrix * (2 * P::NB);
  }

  MANSARD_DEVICE T* own(int s) const { return s % 2 ? R : L; }
  MANSARD_DEVICE T* cross(int s) const { return s % 2 ? L : R; }

  MANSARD_DEVICE T sum_of_all(T mine) const {
    __syncthreads();  // values are about to be overwritten; all threads have read them
    values[threadIdx.x] = mine;
    for (int half = THREADS / 2; half > 0; half /= 2) {
      __syncthreads();  // values of the round before, written by all threads
      if (static_cast<int>(threadIdx.x) < half) values[threadIdx.x] += values[threadIdx.x + half];
    }
    __syncthreads();  // values[0] is complete
    return values[0];
  }

  // Form the line of step s and its reflector, whose first entry is 1.
  MANSARD_DEVICE void reflect(int s) const {
    const int k = K + s / 2, first = k + s % 2;
    T *const mine = own(s) + s * N, tail = T(0);
    const T* const other = cross(s);
    for (int t = K + threadIdx.x; t < N; t += THREADS) {
      T value = T(0);
      if (t >= first) {
        value = s % 2 ? F[k * N + t] : F[t * N + k];
        for (int c = 0; c < s; ++c) value -= own(s)[c * N + t] * other[c * N + k];
        if (t > first) tail += value * value;
      }
      mine[t] = value;
    }
    tail = sum_of_all(tail);
    if (first >= N) {
      if (threadIdx.x == 0) TAU[s] = T(0);
      return;
    }
    const T alpha = mine[first], length = sqrt(alpha * alpha + tail), beta = alpha < T(0) ? length : -length;
    const bool reflects = tail > T(0);
    __syncthreads();  // mine[first] is about to be overwritten; all threads have read it
    for (int t = first + threadIdx.x; t < N; t += THREADS)
      mine[t] = t == first ? T(1) : reflects ? mine[t] / (alpha - beta) : T(0);
    if (threadIdx.x == 0) {
      TAU[s] = reflects ? (beta - alpha) / beta : T(0);
      (s % 2 ? E : D)[k] = reflects ? beta : alpha;
    }
  }

  // W = A^T v or A u, rows and columns behind k: pieces `begin`, `begin + step`, ... of 32 of them.
  MANSARD_DEVICE void square(int s, int begin, int step) const {
    const int k = K + s / 2, first = k + s % 2, line = static_cast<int>(given.LINE), from = (k + 1) / line * line;
    const T* const mine = own(s) + s * N;
    for (int t = K + threadIdx.x; t < N; t += THREADS) vector[t - K] = mine[t];
    __syncthreads();  // vector is complete, written by all threads
    for (int piece = from + 32 * begin; piece < N; piece += 32 * step) {
      if (s % 2) {  // rows: a warp each, lanes along it
        for (int r = piece + y; r < N && r < piece + 32; r += P::LANES_Y) {
          T sum = T(0);
          MANSARD_UNROLL_BY(4)
          for (int t = from + x; t < N; t += 32) sum += F[r * N + t] * vector[t - K];
          MANSARD_UNROLL
          for (int half = 16; half > 0; half /= 2) sum += __shfl_xor_sync(~0u, sum, half);
          if (x == 0 && r > k) W[r] = sum;
        }
      } else {  // columns: a lane each, warps share the rows
        T sum = T(0);
        const int t = piece + x;
        if (t < N) {
          MANSARD_UNROLL_BY(8)
          for (int r = first + y; r < N; r += P::LANES_Y) sum += F[r * N + t] * vector[r - K];
        }
        __syncthreads();  // values are about to be overwritten; all threads have read them
        values[threadIdx.x] = sum;
        __syncthreads();  // values are complete, written by all threads
        if (y == 0 && t < N && t > k) {
          for (int lane = 1; lane < P::LANES_Y; ++lane) sum += values[32 * lane + x];
          W[t] = sum;
        }
      }
    }
  }

  // Row s of `cross`: tau (W - cross^T (own v)), of the rows of both before s.
  MANSARD_DEVICE void finish(int s) const {
    const int k = K + s / 2;
    const T *const mine = own(s) + s * N, tau = TAU[s];
    for (int c = y; c < s; c += P::LANES_Y) {
      T sum = T(0);
      for (int t = k + x; t < N; t += 32) sum += own(s)[c * N + t] * mine[t];
      MANSARD_UNROLL
      for (int half = 16; half > 0; half /= 2) sum += __shfl_xor_sync(~0u, sum, half);
      if (x == 0) along[c] = sum;
    }
    __syncthreads();  // along, and W if it is this launch's, are complete, written by first lanes and the first warp
    for (int t = K + threadIdx.x; t < N; t += THREADS) {
      T value = T(0);
      if (t > k) {
        value = W[t];
        for (int c = 0; c < s; ++c) value -= cross(s)[c * N + t] * along[c];
      }
      cross(s)[s * N + t] = tau * value;
    }
    __syncthreads();  // cross is complete; along has been read by all threads
  }
};

// Version 2: steps BEGIN to END of a panel, a block per matrix.
template <class P, class Arguments>
MANSARD_DEVICE void bidiagonal_panel(const Arguments& given) {
  MANSARD_SHARED_ARENA(typename P::T, shared);
  const Bidiagonal<P, Arguments> matrix(given, shared);
  for (int s = static_cast<int>(given.BEGIN); s < given.END; ++s) {
    matrix.reflect(s);
    __syncthreads();  // own and TAU are complete, written by all threads
    matrix.square(s, 0, 1);
    matrix.finish(s);
  }
}

// Versions 3 and 4: what is tall and wide between two square products; the end of step BEGIN - 1, the line of BEGIN.
template <class P, class Arguments>
MANSARD_DEVICE void bidiagonal_step(const Arguments& given) {
  MANSARD_SHARED_ARENA(typename P::T, shared);
  const Bidiagonal<P, Arguments> matrix(given, shared);
  const int s = static_cast<int>(given.BEGIN);
  if (s > 0) matrix.finish(s - 1);
  if (s < given.END) matrix.reflect(s);
}

// Versions 3 and 4: the square product of step BEGIN by blocks along y.
template <class P, class Arguments>
MANSARD_DEVICE void bidiagonal_square(const Arguments& given) {
  MANSARD_SHARED_ARENA(typename P::T, shared);
  const Bidiagonal<P, Arguments> matrix(given, shared);
  matrix.square(static_cast<int>(given.BEGIN), static_cast<int>(blockIdx.y), static_cast<int>(gridDim.y));
}

}  // namespace mansard
