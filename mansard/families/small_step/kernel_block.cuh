// One step of an orthogonalisation: from the Gram matrix G of a block to the matrix S that the block is multiplied with.
//
// The rules are those of api/small_factors.py, with one difference. Steps are turned there, by singular vectors, where an
// explicit inverse of the Cholesky factor would cancel. Here all steps but the last eliminate rows in the order of their
// pivots: that takes a tenth of the time, and |S| |S^-1| is as small. The last step undoes these turns, so that the product of
// all factors is upper triangular.
//
// What these rules do not cover (columns that may be dependent, entries that are not finite) is declined: S is the identity,
// nothing changes, and the host may go on from the block as it is.
//
//   BLOCK  threads; one block does it all, in double precision
#pragma once
#include "families/small_step/matrices.cuh"

namespace mansard {

template <class P, class Arguments>
struct Step : Matrices<P> {
  using typename Matrices<P>::T;
  using typename Matrices<P>::Wide;
  using Matrices<P>::N, Matrices<P>::PITCH, Matrices<P>::M, Matrices<P>::E, Matrices<P>::scale, Matrices<P>::weights;
  using Matrices<P>::for_each_entry;
  const Arguments& arguments;
  const int count;
  u32* gate;      // whether the pass may go on
  double* norms;  // of the columns of the first block
  Wide *before, *after;  // the factor

  MANSARD_DEVICE Step(const Arguments& given, unsigned char* arena)
      : Matrices<P>(arena), arguments(given), count(static_cast<int>(given.number)),
        gate(reinterpret_cast<u32*>(given.state)), norms(given.state + 1),
        before(reinterpret_cast<Wide*>(norms + N) + (count + 1) % 2 * N * N),
        after(reinterpret_cast<Wide*>(norms + N) + count % 2 * N * N) {}

  MANSARD_DEVICE Wide gram(int i, int j) const {
    return i <= j ? widened(arguments.G[i * N + j]) : conjugate(widened(arguments.G[j * N + i]));
  }
  // Norms of the columns. False: some are zero, too small for their squares, or not finite, or G is not.
  MANSARD_DEVICE bool measure() const {
    bool good = true;
    for_each_entry([&](int i, int j) {
      good = good && is_finite(gram(i, j));
    });
    if (threadIdx.x < N) {
      const int i = threadIdx.x;
      scale[i] = sqrt(real_part(gram(i, i)));
      if (!(scale[i] > 0.0) || (count == 0 && scale[i] < arguments.least)) good = false;
    }
    return __syncthreads_and(good);
  }
  // M = G scaled to a diagonal of ones, plus the shift; E = I. Returns this thread's part of |M - I|^2.
  MANSARD_DEVICE double load(double shift) {
    double away = 0.0;
    for_each_entry([&](int i, int j) {
      Wide &m = M[i * PITCH + j], &e = E[i * PITCH + j];
      m = times_real(gram(i, j), 1.0 / (scale[i] * scale[j]));
      if (i == j) set_real(m, 1.0 + shift);
      else away += square(m);
      set_real(e, i == j ? 1.0 : 0.0);
    });
    if (threadIdx.x < N) this->pivots[threadIdx.x] = 0.0;
    __syncthreads();
    return away;
  }
  // Whether the error of G leaves its smallest eigenvalue trustworthy. The sum of the squares of S is too cautious where many
  // are small; that of the entries of S^H S is so no more.
  MANSARD_DEVICE bool trusted() const {
    double sum = 0.0;
    for_each_entry([&](int i, int j) { sum += square(E[i * PITCH + j]); });
    if (arguments.safe * arguments.roundoff * this->block_sum(sum) <= 1.0) return true;
    sum = 0.0;
    for_each_entry([&](int i, int j) {
      Wide dot = zero<Wide>();
      for (int k = 0; k < N; ++k) multiply_add<true>(dot, E[j * PITCH + k], E[i * PITCH + k]);
      sum += square(dot);
    });
    return arguments.safe * arguments.roundoff * sqrt(this->block_sum(sum)) <= 1.0;
  }
  // Whether |S| |S^-1| is so large that a product with S loses what the next step cannot restore.
  MANSARD_DEVICE bool cancels() const {
    const int i = threadIdx.x;
    double sum = 0.0;
    if (i < N)
      for (int k = 0; k < N; ++k) sum += size(E[i * PITCH + k]);
    if (i < N) weights[i] = sum;
    __syncthreads();
    sum = 0.0;
    if (i < N)
      for (int k = 0; k < N; ++k) sum += weights[k] * size(M[k * PITCH + i]);
    return __syncthreads_or(!(sum <= arguments.cancellation));
  }
  // after = M before, for columns as long as they were.
  MANSARD_DEVICE void accumulate() {
    for_each_entry([&](int i, int j) {
      M[i * PITCH + j] = times_real(M[i * PITCH + j], scale[j]);
      E[i * PITCH + j] = times_real(E[i * PITCH + j], 1.0 / scale[j]);
    });
    __syncthreads();
    for_each_entry([&](int i, int j) {
      Wide sum = zero<Wide>();
      if (count == 0) sum = M[i * PITCH + j];
      else
        for (int k = 0; k < N; ++k) multiply_add<false>(sum, M[i * PITCH + k], before[k * N + j]);
      after[i * N + j] = sum;
    });
    __syncthreads();
  }
  // R from the product of all factors. False: a column may depend on those before it.
  MANSARD_DEVICE bool finish() {
    for_each_entry([&](int i, int j) { M[i * PITCH + j] = after[i * N + j]; });
    __syncthreads();
    if (count > 0) this->triangularise();
    const int i = threadIdx.x;
    const double norm = i >= N ? 0.0 : count == 0 ? scale[i] : norms[i];
    if (__syncthreads_or(i < N && !(real_part(M[i * PITCH + i]) > arguments.weak * arguments.roundoff * norm))) return false;
    for_each_entry([&](int i, int j) { narrow(arguments.R[i * N + j], M[i * PITCH + j]); });
    return true;
  }

  MANSARD_DEVICE u32 plan() {
    if (!measure()) return P::DECLINED;
    double shift = 0.0;
    const bool last = sqrt(this->block_sum(load(shift))) <= arguments.near;
    while (!this->eliminate(!last) || (shift == 0.0 && !trusted())) {
      shift = shift > 0.0 ? 4.0 * shift : arguments.shift * N * arguments.roundoff;
      if (shift > N) return P::DECLINED;
      __syncthreads();
      load(shift);
    }
    if (cancels()) return P::DECLINED;
    accumulate();
    if (last && !finish()) return P::DECLINED;
    if (threadIdx.x < N && count == 0) norms[threadIdx.x] = scale[threadIdx.x];
    return last ? P::LAST : shift > 0.0 ? P::SHIFTED : P::TRUSTED;
  }

  MANSARD_DEVICE void run() {
    const u32 status = plan();
    for_each_entry([&](int i, int j) {
      Wide entry;
      set_real(entry, i == j ? 1.0 : 0.0);
      narrow(arguments.S[i * N + j], status == P::DECLINED ? entry : conjugate(E[j * PITCH + i]));
    });
    if (threadIdx.x == 0) {
      *gate = status != P::DECLINED;
      *arguments.status = status;
    }
  }
};

template <class P, class Arguments>
MANSARD_DEVICE void small_step(const Arguments& arguments) {
  MANSARD_SHARED_ARENA(unsigned char, arena);
  Step<P, Arguments>(arguments, arena).run();
}

}  // namespace mansard
