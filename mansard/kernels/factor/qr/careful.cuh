// The same factorisation for the few matrices with columns whose squares overflow, underflow or vanish: in shared
// memory, column after column, as LAPACK does it.
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

  // Of column k times `scaled_by`, from its diagonal on; but beta is that of the column itself.
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

  // All threads of a unit come; teams that are not `concerned` only wait for the others.
  static MANSARD_DEVICE void run(const Place& place, int rank, bool concerned) {
MANSARD_UNROLL_BY(1)
    for (int k = 0; k < K; ++k) {
      T* const column = place.at(0, k);
      R scaled_by = 1;
      Reflection<T> h = Reflection<T>::identity(zero<T>());
      if (concerned) h = reflection(column, k, scaled_by);
      Group::meet();
      const bool turns = concerned && !is_zero(h.tau);
      if (turns) {
MANSARD_UNROLL_BY(1)
        for (int i = k + 1 + rank; i < M; i += Group::THREADS)
          column[i * Place::ROW] = product_of<false>(h.scale, by_real(column[i * Place::ROW], scaled_by));
      }
      Group::meet();
      if (turns) {
MANSARD_UNROLL_BY(1)
        for (int j = k + 1 + rank; j < N + P::NRHS; j += Group::THREADS) turn(place, column, j, k, h.tau);
      }
      if (concerned && rank == 0) {
        place.tau[k] = h.tau;
        if (turns) column[k * Place::ROW] = from_real<T>(h.beta);
      }
      Group::meet();
    }
  }
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
