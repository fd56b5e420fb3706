// Order of the values, and where columns of Q go: ascending eigenvalues, descending singular values.
#pragma once
#include "kernels/factor/back_transform/reflect.cuh"

namespace mansard {

// Place of a column, and whether it changes its sign: a negative value makes a right vector negative.
constexpr int NEGATED = 1 << 16;

template <class P, class R>
struct Order {
  static constexpr int N = P::N;
  const R* values;  // in shared memory, complete
  int* places;

  static MANSARD_DEVICE R key(R value) { return P::SIDE == Side::eigenvectors ? value : -fabs(value); }

  // Rank value j, store it (W not null) divided by the scale, and return 0, or NaN if a value is not finite.
  MANSARD_DEVICE R place(int j, R* W, R scale) const {
    const R own = values[j];
    int rank = 0;
    R poison = R(0);
    MANSARD_UNROLL_BY(4)
    for (int i = 0; i < N; ++i) {
      const R other = values[i];
      rank += key(other) < key(own) || (key(other) == key(own) && i < j);
      poison += R(0) * other;
    }
    if (is_nan(poison)) rank = j;  // all columns will be NaN; places have to differ all the same
    places[j] = P::SIDE == Side::right && own < 0 ? rank | NEGATED : rank;
    if (W != nullptr) W[rank] = (P::SIDE == Side::eigenvectors ? own : fabs(own)) / scale + poison;
    return poison;
  }
};

}  // namespace mansard
