// Eigenvalues of symmetric tridiagonal, or singular values of upper bidiagonal, matrices: one matrix per thread.
//
//   tridiagonal  implicit QL with Wilkinson's shift (tridiagonal.cuh)
//   bidiagonal   implicit QR from the bottom up, with a zero shift where another would spoil small values
//                (bidiagonal.cuh)
//
// The iteration is one chain of dependent scalars; lanes of a team could only repeat it. A thread per matrix keeps all
// lanes busy as long as their sweeps are of similar length. Lanes meet once per sweep, so that they write their records
// to the same lines (two_sided/rotations.cuh).
//
// WANT rotations: the second pass. SHIFTS are the values of the first one, unsorted: with them most values take one
// sweep, 1.4 to 1.6 N of them instead of 2.3 N, and fewer rotations are recorded and applied. A value that its shift
// does not finish gets the usual shifts. A matrix with more than CAPACITY sweeps (5 N are ample) stops with INFO > 0.
//
// Entries: those of a matrix scaled to about one. Squares of its rounding errors must not underflow.
// INFO: 0, the number of off-diagonal entries that did not become negligible, or N + 1 if an entry is not finite.
//
// Shared memory, pitch MATRICES + 1 (staging by rows, iteration by columns, neither with bank conflicts):
//   d   N * PITCH   diagonal, then the values
//   e   N * PITCH   off-diagonal, entry N - 1 is scratch; then entry 0 is the inverse of SCALE
//
// Phases, with barriers as barrier -> buffer -> writer:
//   1  load D and E           __syncthreads -> d, e -> other threads
//   2  iterate, sort          each thread its own column
//   3  store W, COUNT, INFO   __syncthreads -> d, e -> the threads of the matrices
//
// Limits: latency of the chain. 12 warps per multiprocessor at N = 32 of float64, 3 from N = 128 on (shared memory);
// beyond, only the first MATRICES lanes of a warp have a matrix.
//
//   THREADS  per block; MATRICES  per block
#pragma once
#include "kernels/factor/sweeps/bidiagonal.cuh"
#include "kernels/factor/sweeps/tridiagonal.cuh"

namespace mansard {

template <class P, class Arguments>
struct Sweeps {
  using R = typename P::T;
  using Block = ActiveBlock<P>;
  static constexpr bool TRIDIAGONAL = P::FORM == Form::tridiagonal, RECORDS = P::WANT == Want::rotations;
  static constexpr int N = P::N, MOST = 30 * P::N;  // sweeps, as in LAPACK

  using Method = Sweep<P, P::FORM>;

  const Arguments& a;
  const i64 matrix;
  Block block;
  int sweeps = 0;
  bool converged = false;

  // Sweep until every off-diagonal entry is negligible. All lanes of a warp take part; one without a matrix is `idle`.
  MANSARD_DEVICE void iterate(bool idle) {
    PerfectShifts<R> shifts{RECORDS && !idle && a.SHIFTS != nullptr ? a.SHIFTS + matrix * N : nullptr};
    for (int steps = 0;; ++steps) {
      if (!idle) {
        converged = !block.find();
        idle = converged || steps >= (RECORDS ? P::CAPACITY : MOST);
      }
      if (!__any_sync(0xffffffffu, !idle)) return;  // lanes that are done wait here
      if (!idle) sweep(shifts);
    }
  }
  MANSARD_DEVICE void sweep(PerfectShifts<R>& shifts) {
    const int low = block.low, high = block.high;
    const R shift = block.stalls ? R(0) : shifts.has(low) ? shifts.take(low) : Method::shift(block);
    shifts.prefetch(low + 1);
    R *left = nullptr, *right = nullptr;
    if constexpr (RECORDS) {
      left = sweep_records<N, P::CAPACITY>(a.LEFT, matrix, sweeps);
      if constexpr (!TRIDIAGONAL) right = sweep_records<N, P::CAPACITY>(a.RIGHT, matrix, sweeps);
    }
    const int first = Method::run(block, shift, left, right);
    if constexpr (RECORDS) {
      if (first < high) a.RANGES[matrix * P::CAPACITY + sweeps++] = packed_range(first, high);
    }
  }
  // Ascending, or descending moduli: insertion, as values come nearly in order.
  MANSARD_DEVICE void sort() const {
    MANSARD_UNROLL_BY(1)
    for (int i = 1; i < N; ++i) {
      const R value = block.d(i);
      int k = i - 1;
      for (; k >= 0; --k) {
        const R other = block.d(k);
        if (TRIDIAGONAL ? other <= value : other >= value) break;
        block.d(k + 1) = other;
      }
      block.d(k + 1) = value;
    }
  }
  MANSARD_DEVICE void finish(bool finite) {
    if (RECORDS) a.COUNT[matrix] = sweeps;
    a.INFO[matrix] = !finite ? N + 1 : converged ? 0 : block.unfinished();
    if (!finite) {
      for (int i = 0; i < N; ++i) block.d(i) = not_a_number<R>();
    } else if (!RECORDS) {
      if (!TRIDIAGONAL)
        for (int i = 0; i < N; ++i) block.d(i) = fabs(block.d(i));
      if (P::SORTED) sort();
    }
    if (P::SORTED) block.e(0) = a.SCALE != nullptr ? R(1) / a.SCALE[matrix] : R(1);  // exact: a power of two
  }
};

template <class P, class Arguments>
MANSARD_DEVICE void sweeps_thread(const Arguments& a) {
  using R = typename P::T;
  constexpr int N = P::N, PITCH = ActiveBlock<P>::PITCH;
  static_assert(P::SHARED_BYTES >= 2 * N * PITCH * sizeof(R));
  MANSARD_SHARED_ARENA(R, d);
  R* const e = d + N * PITCH;
  const int thread = threadIdx.x;
  const i64 first = static_cast<i64>(blockIdx.x) * P::MATRICES;
  const int count = static_cast<int>(min(a.BATCH - first, static_cast<i64>(P::MATRICES)));
  for (int k = thread; k < count * N; k += P::THREADS) {
    const int matrix = k / N, i = k % N;
    d[i * PITCH + matrix] = a.D[first * N + k];
    e[i * PITCH + matrix] = i < N - 1 ? a.E[first * N + k] : R(0);
  }
  __syncthreads();  // d and e are complete, written by all threads

  Sweeps<P, Arguments> own{a, first + thread, {d + thread, e + thread}};
  const bool present = thread < count, finite = present && own.block.measure();
  own.iterate(!finite);
  if (present) own.finish(finite);
  __syncthreads();  // d has the values and e the inverse scale, written by the threads of the matrices

  for (int k = thread; k < count * N; k += P::THREADS) {
    const int matrix = k / N, i = k % N;
    const R value = d[i * PITCH + matrix];
    a.W[first * N + k] = P::SORTED ? value * e[matrix] : value;
  }
}

}  // namespace mansard
