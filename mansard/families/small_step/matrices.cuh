// Small matrices in shared memory, worked on by one block: elimination with or without pivots, reflections.
//
// Both work on two matrices side by side, M and E: what is done to the rows of M is done to those of E.
#pragma once
#include "mansard/complex.cuh"

namespace mansard {

MANSARD_DEVICE double real_part(double x) { return x; }
MANSARD_DEVICE double real_part(Complex<double> x) { return x.re; }
MANSARD_DEVICE double square(double x) { return x * x; }
MANSARD_DEVICE double square(Complex<double> x) { return x.re * x.re + x.im * x.im; }
MANSARD_DEVICE double size(double x) { return fabs(x); }
MANSARD_DEVICE double size(Complex<double> x) { return sqrt(square(x)); }
MANSARD_DEVICE bool is_finite(double x) { return x - x == 0.0; }
MANSARD_DEVICE bool is_finite(Complex<double> x) { return is_finite(x.re) && is_finite(x.im); }
MANSARD_DEVICE double times_real(double x, double by) { return x * by; }
MANSARD_DEVICE Complex<double> times_real(Complex<double> x, double by) { return {x.re * by, x.im * by}; }
MANSARD_DEVICE void set_real(double& x, double value) { x = value; }
MANSARD_DEVICE void set_real(Complex<double>& x, double value) { x = {value, 0.0}; }

template <class R>
MANSARD_DEVICE double widened(R x) {
  return static_cast<double>(x);
}
template <class R>
MANSARD_DEVICE Complex<double> widened(Complex<R> x) {
  return {static_cast<double>(x.re), static_cast<double>(x.im)};
}
MANSARD_DEVICE void narrow(float& to, double x) { to = static_cast<float>(x); }
MANSARD_DEVICE void narrow(double& to, double x) { to = x; }
template <class R>
MANSARD_DEVICE void narrow(Complex<R>& to, Complex<double> x) {
  to = {static_cast<R>(x.re), static_cast<R>(x.im)};
}

// Sums over a warp, or over LANES of them; every lane has the result.
template <int LANES>
MANSARD_DEVICE double lane_sum(double x) {
  MANSARD_UNROLL
  for (int step = LANES / 2; step > 0; step /= 2) x += __shfl_xor_sync(~0u, x, step);
  return x;
}
template <int LANES>
MANSARD_DEVICE Complex<double> lane_sum(Complex<double> x) {
  return {lane_sum<LANES>(x.re), lane_sum<LANES>(x.im)};
}

template <class P>
struct Matrices {
  using T = typename P::T;
  using Wide = typename Scalar<T>::template With<double>;
  static constexpr int N = P::N, PITCH = N | 1, WARPS = P::BLOCK / 32, TEAM = 8;
  static_assert((2 * N * PITCH + N) * int(sizeof(Wide)) + 3 * N * 8 + 256 <= P::SHARED_BYTES && P::BLOCK >= N, "room");
  Wide *M, *E, *phases;
  double *pivots, *scale, *weights, *sums;

  MANSARD_DEVICE explicit Matrices(unsigned char* arena)
      : M(reinterpret_cast<Wide*>(arena)), E(M + N * PITCH), phases(E + N * PITCH),
        pivots(reinterpret_cast<double*>(phases + N)), scale(pivots + N), weights(scale + N), sums(weights + N) {}

  // Calls use(i, j) for this thread's share of the entries.
  template <class Use>
  static MANSARD_DEVICE void for_each_entry(Use use) {
    for (int entry = threadIdx.x; entry < N * N; entry += P::BLOCK) use(entry / N, entry % N);
  }

  // The sum over all threads; every one has it.
  MANSARD_DEVICE double block_sum(double x) const {
    x = lane_sum<32>(x);
    __syncthreads();  // earlier sums have been read
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = x;
    __syncthreads();
    x = 0.0;
    for (int warp = 0; warp < WARPS; ++warp) x += sums[warp];
    return x;
  }

  // H = M becomes F and E, the identity, S^H, with F = S^-1 and S^H H S = I: rows are eliminated one by one, in their order
  // (F is upper triangular then) or always that with the largest pivot. False where a pivot is not positive. Pivots are zero
  // at the beginning, and until their rows have had their turn.
  MANSARD_DEVICE bool eliminate(bool turned) {
MANSARD_UNROLL_BY(1)
    for (int k = 0; k < N; ++k) {
      int row = k;
      if (turned) {
        row = largest();
        __syncthreads();  // all warps have looked
      }
      const Wide* from = M + row * PITCH;
      const double pivot = real_part(from[row]);
      if (!(pivot > 0.0)) return false;
      const double inverse = 1.0 / pivot;
      for_each_entry([&](int i, int j) {
        if (i == row || pivots[i] > 0.0) return;
        const Wide factor = times_real(conjugate(from[i]), -inverse);
        if (j == row) M[i * PITCH + j] = zero<Wide>();
        else if (pivots[j] == 0.0) multiply_add<false>(M[i * PITCH + j], factor, from[j]);
        multiply_add<false>(E[i * PITCH + j], factor, E[row * PITCH + j]);
      });
      if (threadIdx.x == 0) pivots[row] = pivot;  // which nobody looks at before the barrier
      __syncthreads();
    }
    for_each_entry([&](int i, int j) {
      const double by = 1.0 / sqrt(pivots[i]);
      if (i == j) set_real(M[i * PITCH + j], sqrt(pivots[i]));
      else M[i * PITCH + j] = times_real(M[i * PITCH + j], by);
      E[i * PITCH + j] = times_real(E[i * PITCH + j], by);
    });
    __syncthreads();
    return true;
  }
  // The row with the largest diagonal entry among those still to come; the same in all warps.
  MANSARD_DEVICE int largest() const {
    double most = -1.0;
    int row = N;
    for (int i = threadIdx.x % 32; i < N; i += 32) {
      const double entry = real_part(M[i * PITCH + i]);
      if (pivots[i] == 0.0 && (row == N || entry > most)) most = entry, row = i;
    }
    MANSARD_UNROLL
    for (int step = 16; step > 0; step /= 2) {
      const double other = __shfl_xor_sync(~0u, most, step);
      const int its = __shfl_xor_sync(~0u, row, step);
      if (its < N && (row == N || other > most || (other == most && its < row))) most = other, row = its;
    }
    return row;
  }

  // M = Z R becomes R, upper triangular with a diagonal that is not negative, and E becomes Z^H E: Householder's
  // reflections, a column of both matrices per team of lanes. Column k of M holds the vector of reflection k, but for its
  // head, and is not written to before the end.
  MANSARD_DEVICE void triangularise() {
    const int lane = threadIdx.x % TEAM;
MANSARD_UNROLL_BY(1)
    for (int k = 0; k < N; ++k) {
      double sum = 0.0;
      for (int i = k + lane; i < N; i += TEAM) sum += square(M[i * PITCH + k]);
      Wide head = M[k * PITCH + k], phase;
      const double norm = sqrt(lane_sum<TEAM>(sum)), length = size(head);
      set_real(phase, 1.0);
      if (length > 0.0) phase = times_real(head, 1.0 / length);
      add_to(head, times_real(phase, norm));
      const double twice = norm > 0.0 ? -1.0 / (norm * (norm + length)) : 0.0;  // 2 / |v|^2
MANSARD_UNROLL_BY(1)
      for (int first = k + 1; first < 2 * N; first += P::BLOCK / TEAM) {
        const int c = first + threadIdx.x / TEAM;
        reflect(c < N ? M + c : E + (c - N), c < 2 * N, k, head, twice);
      }
      if (threadIdx.x == 0) pivots[k] = norm, phases[k] = times_real(conjugate(phase), -1.0);
      __syncthreads();
    }
    for_each_entry([&](int i, int j) {
      Wide &m = M[i * PITCH + j], &e = E[i * PITCH + j];
      if (i == j) set_real(m, pivots[i]);
      else m = i < j ? product(phases[i], m) : zero<Wide>();
      e = product(phases[i], e);
    });
    __syncthreads();
  }
  static MANSARD_DEVICE Wide product(Wide a, Wide b) {
    Wide result = zero<Wide>();
    multiply_add<false>(result, a, b);
    return result;
  }
  // All lanes come here, those without a column too.
  MANSARD_DEVICE void reflect(Wide* column, bool inside, int k, Wide head, double twice) const {
    const int begin = k + threadIdx.x % TEAM, end = inside ? N : 0;
    const auto vector = [&](int i) { return i == k ? head : M[i * PITCH + k]; };
    Wide dot = zero<Wide>();
    for (int i = begin; i < end; i += TEAM) multiply_add<true>(dot, vector(i), column[i * PITCH]);
    dot = times_real(lane_sum<TEAM>(dot), twice);
    for (int i = begin; i < end; i += TEAM) multiply_add<false>(column[i * PITCH], vector(i), dot);
  }
};

}  // namespace mansard
