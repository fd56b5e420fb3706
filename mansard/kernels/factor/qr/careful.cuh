// Householder QR for matrices with columns whose squares overflow, underflow or vanish: unblocked, in shared memory,
// with scaled norms as in LAPACK. Rare, and slower than factor.cuh.
//
// Step k: all threads form the reflection of column k; the team scales column k to v; each thread updates columns of
// its own, a_j -= v conj(tau) (v^H a_j). Barriers (meet -> buffer -> writer): column k -> the team, which scales it
// next; column k, now v -> the team; columns j > k and the diagonal -> other threads.
#pragma once
#include "kernels/factor/qr/factor.cuh"

namespace mansard {

template <class P>
struct Careful {
  using T = typename P::T;
  using R = typename Scalar<T>::Real;
  using Group = Team<P>;
  using Place = Workplace<P>;
  static constexpr int M = P::M, N = P::N, K = M < N ? M : N;

  // Reflection of column k from the diagonal on, scaled by `scaled_by`; beta is that of the unscaled column.
  static MANSARD_DEVICE Reflection<T> reflection(const T* column, int k, R& scaled_by) {
    using Safe = SafeSquares<R>;
    R below = 0, sum = 0;
MANSARD_UNROLL_BY(1)
    for (int i = k + 1; i < M; ++i) below = fmax(below, largest_part(column[i * Place::ROW]));
    T alpha = column[k * Place::ROW];
    const R largest = fmax(below, largest_part(alpha));
    scaled_by = largest > Safe::LARGE ? Safe::DOWN : largest < Safe::SMALL ? Safe::UP : R(1);
MANSARD_UNROLL_BY(1)
    for (int i = k; i < M; ++i) sum += modulus_square(by_real(column[i * Place::ROW], scaled_by));
    if (below == 0 && is_zero(imaginary_part(alpha)) && !is_nan(sum)) return Reflection<T>::identity(alpha);
    const R length = sqrt(sum);
    Reflection<T> h;
    alpha = by_real(alpha, scaled_by);
    h.set(alpha, length, R(1) / length, fabs(real_part(alpha)) + length);
    h.beta = h.beta * (R(1) / scaled_by);
    return h;
  }

  // Called by all threads of a unit; teams that are not `concerned` only take part in the barriers.
  static MANSARD_DEVICE void run(const Place& place, int rank, bool concerned) {
MANSARD_UNROLL_BY(1)
    for (int k = 0; k < K; ++k) {
      T* const column = place.at(0, k);
      R scaled_by = 1;
      Reflection<T> h = Reflection<T>::identity(zero<T>());
      if (concerned) h = reflection(column, k, scaled_by);
      Group::meet();  // column k is about to be overwritten by v; all threads have read it
      const bool turns = concerned && !is_zero(h.tau);
      if (turns) {
MANSARD_UNROLL_BY(1)
        for (int i = k + 1 + rank; i < M; i += Group::THREADS)
          column[i * Place::ROW] = product_of<false>(h.scale, by_real(column[i * Place::ROW], scaled_by));
      }
      Group::meet();  // column k holds v, written by all threads of the team
      if (turns) {
MANSARD_UNROLL_BY(1)
        for (int j = k + 1 + rank; j < N + P::NRHS; j += Group::THREADS) turn(place, column, j, k, h.tau);
      }
      if (concerned && rank == 0) {
        place.tau[k] = h.tau;
        if (turns) column[k * Place::ROW] = from_real<T>(h.beta);
      }
      Group::meet();  // columns behind k are complete, each updated by its thread
    }
  }
  // Apply the reflection to column j: y -= v conj(tau) (v^H y).
  static MANSARD_DEVICE void turn(const Place& place, const T* vector, int j, int k, T tau) {
    const bool beyond = P::NRHS > 0 && j >= N;
    T* const y = beyond ? place.b + (j - N) * Place::BEYOND : place.at(0, j);
    const int step = beyond ? 1 : Place::ROW;
    T along = y[k * step];
MANSARD_UNROLL_BY(1)
    for (int i = k + 1; i < M; ++i) multiply_add<true>(along, vector[i * Place::ROW], y[i * step]);
    const T by = negated(product_of<true>(tau, along));
    add_to(y[k * step], by);
MANSARD_UNROLL_BY(1)
    for (int i = k + 1; i < M; ++i) multiply_add<false>(y[i * step], vector[i * Place::ROW], by);
  }
};

}  // namespace mansard
