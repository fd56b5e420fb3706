// Results from R and the vectors in shared memory: least-squares solutions, and T of the compact form of Q.
#pragma once
#include "kernels/factor/qr/factor.cuh"

namespace mansard {

// Backward substitution R X = Y in the first N rows of the right-hand sides; X replaces Y. Unknown i is in slot i /
// LANES of lane i % LANES and reaches the others by a shuffle. A team within a warp takes one right-hand side after the
// other; in a wide team every warp has its own.
template <class P>
struct Substituted {
  using T = typename P::T;
  using Group = Team<P>;
  using Place = Workplace<P>;
  static constexpr int N = P::N, LANES = Group::WIDE ? 32 : Group::THREADS, SLOTS = ceil_div(N, LANES);

  static MANSARD_DEVICE void run(const Group& team, const Place& place) {
    const int lane = Group::WIDE ? team.lane : team.rank;
    const int first = Group::WIDE ? threadIdx.x / 32 : 0, warps = Group::WIDE ? Group::UNIT / 32 : 1;
MANSARD_UNROLL_BY(1)
    for (int c = first; c < P::NRHS; c += warps) column(place, place.b + c * Place::BEYOND, lane);
  }

  static MANSARD_DEVICE void column(const Place& place, T* y, int lane) {
    T x[SLOTS];
    MANSARD_UNROLL
    for (int s = 0; s < SLOTS; ++s) x[s] = lane + s * LANES < N ? y[lane + s * LANES] : zero<T>();
MANSARD_UNROLL_BY(1)
    for (int k = N - 1; k >= 0; --k) {
      T known = zero<T>();
      MANSARD_UNROLL
      for (int s = 0; s < SLOTS; ++s)
        if (k / LANES == s) known = x[s];
      // the diagonal of R is real
      known = divided(LANES == 1 ? known : lane_value<LANES>(known, k % LANES), real_part(*place.at(k, k)));
      MANSARD_UNROLL
      for (int s = 0; s < SLOTS; ++s) {
        const int i = lane + s * LANES;
        if (i == k) x[s] = known;
        else if (i < k) multiply_subtract<false>(x[s], *place.at(i, k), known);
      }
    }
    MANSARD_UNROLL
    for (int s = 0; s < SLOTS; ++s)
      if (lane + s * LANES < N) y[lane + s * LANES] = x[s];
  }
};

// T of Q = I - V T V^H, upper triangular, as K rows of K entries in `t`:
//   t_kk = tau_k;  t_ik = -tau_k * sum over i <= l < k of t_il * (v_l^H v_k).
// The products of vectors are formed first; then every thread forms rows of T, which do not depend on each other.
// Barriers (meet -> buffer -> writer): products -> all threads;  t -> all threads.
template <class P>
struct Compact {
  using T = typename P::T;
  using Group = Team<P>;
  using Place = Workplace<P>;
  using Columns = Factor<P>;
  static constexpr int M = P::M, N = P::N, K = Columns::K, LM = Group::ROWS, LN = Group::COLUMNS;

  static MANSARD_DEVICE void run(const Group& team, const Place& place, T* t, T* products) {
    multiply(team, place, products);
    Group::meet();  // products are complete, written by all threads
MANSARD_UNROLL_BY(1)
    for (int i = team.rank; i < K; i += Group::THREADS) row(place, i, t + i * K, products);
    Group::meet();  // t is complete, its rows written by all threads
  }

  // Entry i of v_k.
  static MANSARD_DEVICE T vector(const Place& place, int i, int k) {
    return i > k ? *place.at(i, k) : from_real<T>(i == k ? 1 : 0);
  }
  // products[j][k] = v_j^H v_k for k > j; a thread holds its columns j in registers.
  static MANSARD_DEVICE void multiply(const Group& team, const Place& place, T* products) {
    constexpr int COLUMNS = ceil_div(K, LN), SLOTS = Columns::SLOTS;
    T mine[COLUMNS][SLOTS];
    MANSARD_UNROLL
    for (int q = 0; q < COLUMNS; ++q)
      MANSARD_UNROLL
      for (int r = 0; r < SLOTS; ++r) {
        const int i = team.row + r * LM, j = team.column + q * LN;
        mine[q][r] = j < K && i < M ? vector(place, i, j) : zero<T>();
      }
MANSARD_UNROLL_BY(1)
    for (int k = 1; k < K; ++k) {
      T sums[COLUMNS] = {};
      MANSARD_UNROLL
      for (int r = 0; r < SLOTS; ++r) {
        const int i = team.row + r * LM;
        const T entry = M % LM == 0 || i < M ? vector(place, i, k) : zero<T>();
        MANSARD_UNROLL
        for (int q = 0; q < COLUMNS; ++q) multiply_add<true>(sums[q], mine[q][r], entry);
      }
      MANSARD_UNROLL
      for (int q = 0; q < COLUMNS; ++q) {
        const T sum = Group::sum(sums[q]);
        if (team.row == 0 && team.column + q * LN < k) products[(team.column + q * LN) * K + k] = sum;
      }
    }
  }
  // Row i of T.
  static MANSARD_DEVICE void row(const Place& place, int i, T* t, const T* products) {
MANSARD_UNROLL_BY(1)
    for (int k = 0; k < K; ++k) {
      T sum = zero<T>();
MANSARD_UNROLL_BY(4)
      for (int l = i; l < k; ++l) multiply_add<false>(sum, t[l], products[l * K + k]);
      t[k] = k < i ? zero<T>() : k == i ? place.tau[k] : negated(product_of<false>(place.tau[k], sum));
    }
  }
};

}  // namespace mansard
