// Writes VECTOR adjacent columns of a row of Y at once.
#pragma once
#include "mansard/gpu/sparse.cuh"

namespace mansard {

template <class P, class Arguments, class Pack>
MANSARD_DEVICE void write_columns(const Arguments& a, i64 row, int first, Pack sums) {
  using T = typename P::T;
  const T* x = a.X + row * a.x_pitch + first;
  const T* z = a.Z + row * a.z_pitch + first;
  T* y = a.Y + row * a.y_pitch + first;
  MANSARD_UNROLL
  for (int i = 0; i < P::VECTOR; ++i)
    sums.e[i] = row_result<P::ACCUMULATE, P::RECURRENCE>(a, sums.e[i], x + i, y + i, z + i);
  *reinterpret_cast<Pack*>(y) = sums;
}

}  // namespace mansard
