// One step of an unblocked factorization for every matrix of a batch: what LAPACK's getf2, potf2 and geqr2 do with column
// J of a panel, as a launch of its own (Dong's "non-blocked" algorithm, and the panels of his "classic" one).
//
// Team: a block of 32 x LANES_Y threads per matrix. Columns lie along x, so that rows are read in pieces of 32 numbers.
// Memory: the panel F (M x N, rows f_row apart) stays in global memory from launch to launch. Shared memory: one number
// and one index per thread.
// Barriers (__syncthreads -> buffer -> writer): values and places -> all threads; F, exchanged or scaled -> all threads.
// Limit: the memory bandwidth, 2 (M - J)(N - J) numbers a step; reading the whole rest for every column is the point.
#pragma once
#include "mansard/gpu/platform.cuh"

namespace mansard {

template <class P, class Arguments>
struct Column {
  using T = typename P::T;
  static constexpr int THREADS = 32 * P::LANES_Y;
  const Arguments& given;
  T* F = given.F + static_cast<i64>(blockIdx.x) * given.f_stack;
  int x = threadIdx.x % 32, y = threadIdx.x / 32;
  T* values;
  int* places;

  MANSARD_DEVICE explicit Column(const Arguments& all, void* shared)
      : given(all), values(static_cast<T*>(shared)), places(reinterpret_cast<int*>(static_cast<T*>(shared) + THREADS)) {}

  MANSARD_DEVICE T& at(i64 i, i64 j) const { return F[i * given.f_row + j * given.f_col]; }

  // The row of the entry of column J with the largest magnitude, from row J on; the first one of equals.
  MANSARD_DEVICE i64 largest() const {
    T best = T(-1);
    int place = static_cast<int>(given.J);
    for (i64 i = given.J + threadIdx.x; i < given.M; i += THREADS) {
      const T value = at(i, given.J) < T(0) ? -at(i, given.J) : at(i, given.J);
      if (value > best) best = value, place = static_cast<int>(i);
    }
    values[threadIdx.x] = best, places[threadIdx.x] = place;
    for (int half = THREADS / 2; half > 0; half /= 2) {
      __syncthreads();  // values and places of the round before, written by all threads
      if (static_cast<int>(threadIdx.x) < half) {
        const int other = threadIdx.x + half;
        const bool wins = values[other] > values[threadIdx.x] ||
                          (values[other] == values[threadIdx.x] && places[other] < places[threadIdx.x]);
        if (wins) values[threadIdx.x] = values[other], places[threadIdx.x] = places[other];
      }
    }
    __syncthreads();  // places[0] is complete
    return places[0];
  }

  // The sum of a number of every thread with the same x.
  MANSARD_DEVICE T sum_over_y(T own) const {
    __syncthreads();  // values are about to be overwritten; all threads have read them
    values[threadIdx.x] = own;
    __syncthreads();  // values are complete, written by all threads
    T total = T(0);
    for (int lane = 0; lane < P::LANES_Y; ++lane) total += values[32 * lane + x];
    return total;
  }

  // The sum of a number of every thread.
  MANSARD_DEVICE T sum_of_all(T own) const {
    values[threadIdx.x] = own;
    for (int half = THREADS / 2; half > 0; half /= 2) {
      __syncthreads();  // values of the round before, written by all threads
      if (static_cast<int>(threadIdx.x) < half) values[threadIdx.x] += values[threadIdx.x + half];
    }
    __syncthreads();  // values[0] is complete
    return values[0];
  }

  // a_ij -= l_i u_j for rows below J and columns behind it (for Cholesky to the diagonal).
  template <bool LOWER, class U>
  MANSARD_DEVICE void subtract(const U& u) const {
    for (i64 j = given.J + 1 + x; j < given.N; j += 32) {
      const T right = u(j);
      for (i64 i = given.J + 1 + y; i < given.M; i += P::LANES_Y)
        if (!LOWER || i >= j) at(i, j) -= at(i, given.J) * right;
    }
  }
  MANSARD_DEVICE void report(bool bad) const {
    if (threadIdx.x == 0 && bad && given.I[blockIdx.x] == 0) given.I[blockIdx.x] = static_cast<int>(given.J) + 1;
  }
};

#define MANSARD_COLUMN(P, Arguments, given)                     \
  MANSARD_SHARED_ARENA(typename P::T, shared);                  \
  const Column<P, Arguments> step(given, shared)

template <class P, class Arguments>
MANSARD_DEVICE void lu_column(const Arguments& given) {
  MANSARD_COLUMN(P, Arguments, given);
  const i64 pivot = step.largest(), J = given.J;
  if (threadIdx.x == 0) given.V[blockIdx.x * given.v_stack + J] = static_cast<int>(pivot);
  for (i64 j = threadIdx.x; pivot != J && j < given.N; j += step.THREADS) {
    const auto own = step.at(J, j);
    step.at(J, j) = step.at(pivot, j), step.at(pivot, j) = own;
  }
  __syncthreads();  // rows J and pivot of F have changed places
  const auto diagonal = step.at(J, J);
  step.report(diagonal == 0);
  for (i64 i = J + 1 + threadIdx.x; diagonal != 0 && i < given.M; i += step.THREADS) step.at(i, J) /= diagonal;
  __syncthreads();  // column J of F is divided
  step.template subtract<false>([&](i64 j) { return step.at(J, j); });
}

template <class P, class Arguments>
MANSARD_DEVICE void cholesky_column(const Arguments& given) {
  MANSARD_COLUMN(P, Arguments, given);
  const i64 J = given.J;
  const auto square = step.at(J, J);
  const bool bad = !(square > 0);  // NaN too
  step.report(bad);
  const auto root = bad ? square : sqrt(square);
  __syncthreads();  // the diagonal of F is about to be overwritten; all threads have read it
  if (threadIdx.x == 0) step.at(J, J) = root;
  for (i64 i = J + 1 + threadIdx.x; i < given.M; i += step.THREADS) step.at(i, J) /= root;
  for (i64 j = J + 1 + threadIdx.x; j < given.N; j += step.THREADS) step.at(J, j) = 0;
  __syncthreads();  // column J of F is divided
  step.template subtract<true>([&](i64 j) { return step.at(j, J); });
}

// A reflection I - tau v v^T with v_J = 1 that clears column J below the diagonal, applied to the columns behind it.
template <class P, class Arguments>
MANSARD_DEVICE void qr_column(const Arguments& given) {
  using T = typename P::T;
  MANSARD_COLUMN(P, Arguments, given);
  const i64 J = given.J;
  T own = T(0);
  for (i64 i = J + 1 + threadIdx.x; i < given.M; i += step.THREADS) own += step.at(i, J) * step.at(i, J);
  const T below = step.sum_of_all(own);
  const T first = step.at(J, J), norm = sqrt(first * first + below), diagonal = first < 0 ? norm : -norm;
  const T tau = below == 0 ? T(0) : (diagonal - first) / diagonal;
  __syncthreads();  // column J of F is about to be overwritten; all threads have read it
  for (i64 i = J + 1 + threadIdx.x; below != 0 && i < given.M; i += step.THREADS) step.at(i, J) /= first - diagonal;
  if (threadIdx.x == 0) {
    if (below != 0) step.at(J, J) = diagonal;
    given.V[blockIdx.x * given.v_stack + J] = tau;
  }
  for (i64 begin = J + 1; begin < given.N; begin += 32) {
    const i64 j = begin + step.x;
    __syncthreads();  // column J of F is the reflection; in later rounds, values are about to be overwritten
    T product = T(0);
    for (i64 i = J + 1 + step.y; j < given.N && i < given.M; i += P::LANES_Y) product += step.at(i, J) * step.at(i, j);
    const T total = step.sum_over_y(product);
    const T share = j < given.N ? tau * (total + step.at(J, j)) : T(0);
    __syncthreads();  // row J of F is about to be overwritten; all threads have read it
    for (i64 i = J + 1 + step.y; j < given.N && i < given.M; i += P::LANES_Y) step.at(i, j) -= step.at(i, J) * share;
    if (step.y == 0 && j < given.N) step.at(J, j) -= share;
  }
}

// Exchange row i of F with row V[i], i = 0, 1, ..., one after the other: a thread per column, as LAPACK's laswp.
template <class P, class Arguments>
MANSARD_DEVICE void exchange_rows(const Arguments& given) {
  MANSARD_COLUMN(P, Arguments, given);
  for (i64 j = threadIdx.x; j < given.N; j += step.THREADS)
    for (i64 i = 0; i < given.J; ++i) {
      const i64 other = given.V[blockIdx.x * given.v_stack + i];
      const auto own = step.at(i, j);
      step.at(i, j) = step.at(other, j), step.at(other, j) = own;
    }
}

}  // namespace mansard
